"""Cell by cell: is the paper's number reproduced, and if not, by how much and why?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from gsat.methods import METHODS
from gsat.studies.cells import NETWORKS, Measured, measure, row_name
from gsat.studies.other_runs import seeds_text
from gsat.studies.records import Record, Records
from gsat.studies.study import Row, Table
from gsat.studies.tables import STUDIES

# What is known about cells that differ: by method, network, data set, variant and
# metric, or by some of them.
WHY: Mapping[tuple[str, ...], str] = {
    ("gnnexplainer", "ba2motifs"): "the masks of a batch are found together, in 100 iterations; "
    "the paper does not say in how many",
    ("pgexplainer", "mutag"): "100 epochs, as the network itself has; the AUC falls with them "
    "(docs/figures.md)",
    ("graphmask", "mutag"): "gates are read before they are clamped, and look at nodes as they "
    "leave the network; which of it matters was not tried",
    ("graphmask", "spmotif-0.5"): "three epochs a layer, chosen on validation data; the paper does "
    "not say how many, and with 25 they are much worse (docs/methods.md)",
    ("gnnexplainer", "spmotif-0.5"): "masks speak for the label, chosen on validation data; the "
    "paper does not say for what",
    **{
        ("dir", "gin", f"spmotif-{bias}"): "α is chosen on validation data (of b = 0.5), and a "
        "step is taken after every batch"
        for bias in ("0.5", "0.7", "0.9")
    },
    (
        "dir",
        "leconv",
        "precision_at_5",
    ): "α is chosen on validation data; the paper quotes "
    "DIR's authors, whose code counts as many edges as the truth has",
    ("gsat", "gin", "spmotif-0.9", "prediction"): "validation graphs are unbiased but as small as "
    "training graphs, test graphs are 3.5 times as large: while the validation accuracy of seed 2 "
    "rose from 54 to 69, its test accuracy fell from 48 to 34",
    ("gsat-star", "gin", "ba2motifs"): "the deviation of 0.02 is a misprint: 1.77 in table 1",
    ("dir", "ba2motifs"): "α was looked at by hand, and batch norm has the statistics of causal "
    "parts alone",
}
_LEVEL = 0.05  # of the test; so many of cells that are alike are called better or worse


def verdict(cell: Measured) -> str:
    """``better`` or ``worse`` where Welch's test at 5 % says so; where it does not, ``reproduced``
    within two of the paper's standard deviations and ``unclear`` outside, for want of seeds. Where
    it can't be made, ``in range``, ``above`` or ``below`` those two deviations; ``not compared``
    where the paper gives none, ``not run`` without runs."""
    if cell.ours is None:
        return "not run"
    if cell.paper[1] is None:
        return "not compared"
    gap = cell.ours[0] - cell.paper[0]
    near = abs(gap) <= 2 * cell.paper[1]
    if cell.p is None:
        return "in range" if near else "above" if gap > 0 else "below"
    if cell.p > _LEVEL:
        return "reproduced" if near else "unclear"
    return "better" if gap > 0 else "worse"


def why(row: Row, dataset: str, metric: str) -> str:
    """What is known about a cell that differs; empty if nothing is. An ablation is not spoken for
    by what is known about the method."""
    about = {row.method, row.backbone, dataset, row.variant, metric}
    fits = (text for key, text in WHY.items() if set(key) <= about and row.variant in ("", *key))
    return next(fits, "")


def reproduction_page(records: Records, stability: Iterable[Record] = ()) -> str:
    """Every cell that has runs, in Markdown, table by table; then how alike the explanations of
    seeds are, from lines of ``results/stability.jsonl``."""
    lines: list[str] = []
    total: Counter[str] = Counter()
    for study in STUDIES.values():
        if not isinstance(study, Table):
            continue
        rows = []
        for sheet in measure(study, records):
            for (number, dataset), cell in sheet.cells.items():
                said = verdict(cell)
                total[said] += 1
                if cell.ours is None:
                    continue
                row = sheet.part.rows[number]
                off = cell.ours[0] - cell.paper[0]
                differs = said not in ("reproduced", "in range", "not compared")
                rows.append(
                    f"| {dataset} | {row_name(row)} | {sheet.part.metric.replace('_', ' ')} | "
                    f"{cell.ours[0]:.1f} ({seeds_text(cell.runs)}) | {cell.paper[0]:.1f} | "
                    f"{off:+.1f} | {said} | "
                    f"{why(row, dataset, sheet.part.metric) if differs else ''} |"
                )
        if rows:
            lines += [
                f"### {study.name}: {study.title}", "",
                "| data | method | metric | ours (seeds) | paper | difference | verdict | why |",
                "| --- | --- | --- | --- | --- | --- | --- | --- |",
                *rows, "",
            ]  # fmt: skip
    counts = ", ".join(f"{count} {said}" for said, count in total.most_common())
    lines += _stability(filter(records.knows, stability))
    return f"{sum(total.values())} cells: {counts}.\n\n" + "\n".join(lines)


def _stability(found: Iterable[Record]) -> list[str]:
    most: dict[str, Record] = {}  # by recipe, the line with most seeds
    for line in found:
        before = most.get(line["recipe_hash"])
        if before is None or len(line["seeds"]) >= len(before["seeds"]):
            most[line["recipe_hash"]] = line
    if not most:
        return []
    rows = [
        f"| {line['dataset']} | {NETWORKS[line['backbone']]} + {METHODS[line['method']].title} | "
        f"{_number(line['mean'])} | {_number(line['std'])} | {len(line['seeds'])} | "
        f"{line['graphs']} {line['explained']} |"
        for line in sorted(most.values(), key=lambda line: (line["dataset"], line["method"]))
    ]
    return [
        "### Do seeds explain alike?", "",
        "Mean rank correlation of the edges' scores of the same graphs, over pairs of seeds "
        "(`gsat bench table1 --stability`). Where too few graphs are in no training set, test "
        "graphs of seed 0 are explained, which the other seeds may have trained on.", "",
        "| data | method | correlation | deviation over pairs | seeds | graphs |",
        "| --- | --- | --- | --- | --- | --- |",
        *rows, "",
    ]  # fmt: skip


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
