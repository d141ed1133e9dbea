"""Run the robustness tests and record the results: ``python -m campaign [--fuzz SECONDS] …``."""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from paper.pages import write_between_marks

from campaign.faults import run_trials
from campaign.fuzz import fuzz_all
from campaign.hostile import run_cases
from campaign.page import campaign_section
from campaign.parsers import in_memory, make_parsers

ROOT = Path(__file__).resolve().parent.parent
RECORD, PAGE = ROOT / "results" / "campaign.json", ROOT / "docs" / "security.md"
PARTS = ("faults", "hostile", "fuzzing")


def main() -> int:
    """Run the chosen parts, write the record, and return 1 if there are findings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART",
        help=f"of {', '.join(PARTS)}; recorded results of the others are kept (default: all)",
    )  # fmt: skip
    parser.add_argument("--trials", type=int, default=1000, help="number of faults during saving")
    parser.add_argument("--every", type=int, default=1, help="use every n-th hostile file")
    parser.add_argument("--fuzz", type=float, default=60.0, help="CPU seconds per parser")
    parser.add_argument("--parsers", nargs="+", metavar="NAME", help="fuzz these (default: all)")
    parser.add_argument("--jobs", type=int, default=2, help="parallel fuzzing processes")
    parser.add_argument("--write", type=Path, default=RECORD, help="file of the record")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    folder, path = in_memory(), chosen.write
    previous = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    record: dict[str, Any] = {
        **previous,
        "system": f"{platform.system()}, Python {platform.python_version()}",
    }
    try:
        if "faults" in chosen.only:
            record["faults"] = run_trials(folder / "faults", chosen.trials)
        if "hostile" in chosen.only:
            record["hostile"] = run_cases(folder / "hostile", chosen.every)
        if "fuzzing" in chosen.only:
            names = [one.name for one in make_parsers(folder / "parsers")]
            fuzzed = fuzz_all(chosen.fuzz, chosen.parsers or names, chosen.jobs)
            record["fuzzing"] = merged(previous.get("fuzzing", []), fuzzed, names)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return finish(record, path)


def merged(
    before: list[dict[str, Any]], new: list[dict[str, Any]], names: list[str]
) -> list[dict[str, Any]]:
    """Replace older records of parsers by new ones, in the order of the names."""
    latest = {part["parser"]: part for part in (*before, *new)}
    return [latest[name] for name in names if name in latest]


def finish(record: dict[str, Any], path: Path) -> int:
    """Write the record, print the findings, and return 1 if there are any."""
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    if path == RECORD and set(PARTS) <= record.keys():
        write_between_marks(PAGE, campaign_section(record))
    single = [record[name] for name in ("faults", "hostile") if name in record]
    parts = (*single, *record.get("fuzzing", []))
    findings = [text for part in parts for text in part["findings"]]
    for text in findings:
        print(text)
    print(f"{len(findings)} findings · {path}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
