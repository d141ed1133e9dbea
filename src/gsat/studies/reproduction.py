"""Cell by cell: is the paper's number reproduced, and if not, by how much and why?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from gsat.methods import METHODS
from gsat.studies.cells import NETWORKS, Measured, measure, row_name
from gsat.studies.records import Record, Records
from gsat.studies.records import counts as is_current
from gsat.studies.study import Row, Table
from gsat.studies.tables import STUDIES

# What is known about cells that differ: by method, network and data set, or by some of them.
WHY: Mapping[tuple[str, ...], str] = {
    ("gnnexplainer", "ba2motifs"): "the masks of a batch are found together, in 100 iterations; "
    "the paper does not say in how many",
    ("pgexplainer", "mutag"): "100 epochs; the paper does not say how many, and the AUC falls with "
    "them (docs/figures.md)",
    ("graphmask", "mutag"): "gates are read before they are clamped, and look at nodes as they "
    "leave the network; which of it matters was not tried",
    ("graphmask", "spmotif-0.5"): "three epochs a layer, chosen on validation data; the paper does "
    "not say how many, and with 25 they are much worse (docs/methods.md)",
    ("gnnexplainer", "spmotif-0.5"): "masks speak for the label, chosen on validation data; the "
    "paper does not say for what",
    ("dir", "gin", "spmotif-0.5"): "α and the causal ratio are chosen on validation data, and a "
    "step is taken after every batch",
    ("gsat", "gin", "spmotif-0.9"): "the epoch is chosen by validation graphs, which have the bias "
    "of the training graphs: one seed passed through a test accuracy of 48 and ended at 36",
    ("dir", "ba2motifs"): "α is tuned, and batch norm has the statistics of causal parts alone",
}
_LEVEL = 0.05  # of the test; so many of cells that are alike are called better or worse


def verdict(cell: Measured) -> str:
    """``reproduced``, or ``better`` or ``worse`` where Welch's test at 5 % says so; where it can't
    be made, ``in range``, ``above`` or ``below`` two of the paper's standard deviations; ``not
    compared`` where the paper gives none, ``not run`` without runs."""
    if cell.ours is None:
        return "not run"
    gap = cell.ours[0] - cell.paper[0]
    if cell.p is not None:
        return "reproduced" if cell.p > _LEVEL else "better" if gap > 0 else "worse"
    if cell.paper[1] is None:
        return "not compared"
    return "in range" if abs(gap) <= 2 * cell.paper[1] else "above" if gap > 0 else "below"


def why(row: Row, dataset: str) -> str:
    """What is known about a cell that differs; empty if nothing is."""
    about = (row.method, row.backbone, dataset, row.variant)
    return next((text for key, text in WHY.items() if set(key) <= set(about)), "")


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
                differs = said not in ("reproduced", "in range")
                rows.append(
                    f"| {dataset} | {row_name(row)} | {sheet.part.metric.replace('_', ' ')} | "
                    f"{cell.ours[0]:.1f} ({len(cell.values)}) | {cell.paper[0]:.1f} | "
                    f"{off:+.1f} | {said} | {why(row, dataset) if differs else ''} |"
                )
        if rows:
            lines += [
                f"### {study.name}: {study.title}", "",
                "| data | method | metric | ours (seeds) | paper | difference | verdict | why |",
                "| --- | --- | --- | --- | --- | --- | --- | --- |",
                *rows, "",
            ]  # fmt: skip
    counts = ", ".join(f"{count} {said}" for said, count in total.most_common())
    lines += _stability(stability)
    return f"{sum(total.values())} cells: {counts}.\n\n" + "\n".join(lines)


def _stability(found: Iterable[Record]) -> list[str]:
    most: dict[str, Record] = {}  # by recipe, the line with most seeds
    for line in filter(is_current, found):
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
        "(`gsat bench table1 --stability`).", "",
        "| data | method | correlation | deviation over pairs | seeds | graphs |",
        "| --- | --- | --- | --- | --- | --- |",
        *rows, "",
    ]  # fmt: skip


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
