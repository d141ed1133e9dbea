"""The figures of docs/molecule-results.md: ``python -m benchmarks.molecule_results`` writes them.

They come from ``results/chemprop.jsonl``, ``results/ibench.jsonl``,
``results/molecules-speed.json`` and ``results/molecules-tuning.jsonl``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from paper.pages import write_between_marks

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "molecule-results.md"
TABLES = ("bbbp", "bace", "clintox", "delaney", "freesolv")
METRICS = {"roc_auc": "ROC AUC", "rmse": "RMSE"}
ATOMS = {"atom_auc": "AUC", "atom_top_n": "top-n"}
SIGNED = {
    f"{sign}_{key}": f"{title} of {sign} atoms"
    for sign in ("positive", "negative")
    for key, title in (("auc", "AUC"), ("top_n", "top-n"))
}

Row = dict[str, Any]


def read(name: str) -> list[Row]:
    """The lines of a file of ``results/``; none where there is no file."""
    file = ROOT / "results" / name
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    return [json.loads(line) for line in text.splitlines()]


def mean(values: Sequence[float], digits: int = 3) -> str:
    """A mean with its standard deviation and, where it is not 3, the number of seeds."""
    if not values:
        return "–"
    spread = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    seeds = "" if len(values) == 3 else f" ({len(values)})"
    return f"{np.mean(values):.{digits}f}{spread}{seeds}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def prediction(rows: Sequence[Row]) -> str:
    """Our test metrics and CPU time beside chemprop's."""
    out = []
    for name in TABLES:
        own = {tool: [r for r in rows if (r["table"], r["tool"]) == (name, tool)]
               for tool in ("gsat", "chemprop")}  # fmt: skip
        metric = next((METRICS[r["metric"]] for found in own.values() for r in found), "")
        if metric:
            values = [mean([r["value"] for r in found]) for found in own.values()]
            seconds = [f"{np.mean([r['cpu_seconds'] for r in found]):.0f}" if found else "–"
                       for found in own.values()]  # fmt: skip
            out.append([name, metric, *values, *seconds])
    return table(["table", "metric", "gsat", "chemprop", "gsat, CPU s", "chemprop, CPU s"], out)


def explanations(rows: Sequence[Row]) -> str:
    """Atom AUC and top-n of each method, then the signed measures of GSAT."""
    sets = list(dict.fromkeys(row["set"] for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    out = []
    for measures, of in ((ATOMS, methods), (SIGNED, ["gsat"])):
        for method in of:
            for key, title in measures.items():
                cells = [
                    mean([r[key] for r in rows if (r["set"], r["method"]) == (name, method)
                          and r.get(key) is not None])
                    for name in sets
                ]  # fmt: skip
                if any(cell != "–" for cell in cells):
                    out.append([method, title, *cells])
    return table(["method", "measure", *(name.removeprefix("ibench-") for name in sets)], out)


def tuning(rows: Sequence[Row]) -> str:
    """Every setting that was tried, with its validation metrics by set."""
    sets = list(dict.fromkeys(row["set"] for row in rows))
    tried = list(dict.fromkeys((row["backbone"], row["settings"]) for row in rows))
    out = []
    for backbone, settings in tried:
        own = [r for r in rows if (r["backbone"], r["settings"]) == (backbone, settings)]
        values = [[r["value"] for r in own if r["set"] == name] for name in sets]
        cells = [mean(found).replace(" (1)", "") for found in values]
        out.append([backbone, settings, *cells])
    measured = [next(f"{r['set']} ({r['metric']})" for r in rows if r["set"] == s) for s in sets]
    return table(["network", "settings", *measured], out)


def speed(measured: Row) -> str:
    """How fast tables are read and molecules are explained."""
    rows = [
        [name, f"{rates['per_second']:.0f}", f"{rates['per_cpu_second']:.0f}"]
        for name, rates in measured["reading"].items()
    ]
    reading = table(["reading", "molecules per second", "per CPU second"], rows)
    own = measured["explaining"]
    return (
        f"{reading}\n\nA molecule is explained in {own['one_ms']:.1f} ms of CPU time (median), its "
        f"picture takes {own['picture_ms']:.1f} ms more. {own['molecules']} molecules are "
        f"explained in {own['explanations_seconds']:.1f} s and become a page in "
        f"{own['page_seconds']:.1f} s. The table is of {measured['molecules']:,} molecules; all "
        f"was measured on {measured['cpus']} CPUs ({measured['cpu']})."
    )


def page() -> str:
    """All sections."""
    parts = {
        "Prediction beside chemprop": prediction(read("chemprop.jsonl")),
        "Explanations of iBenchmark": explanations(read("ibench.jsonl")),
        "Speed": speed(json.loads((ROOT / "results" / "molecules-speed.json").read_text("utf-8"))),
        "What was tried": tuning(read("molecules-tuning.jsonl")),
    }
    return "\n".join(f"## {title}\n\n{text}\n" for title, text in parts.items())


if __name__ == "__main__":
    write_between_marks(PAGE, page())
