"""Generated sections of documents: all results, and the headline numbers of the README."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gsat.core.errors import GSATError
from gsat.core.settings import SettingInfo
from gsat.study.records import Records
from gsat.study.render import (
    DATA_MARK_NOTES,
    ERRORS_NOTE,
    NUMBERS_NOTE,
    data_notes,
    format_mean_std,
    format_published,
    format_seeds,
    make_table,
    metric_title,
    render_markdown,
)
from gsat.study.study import PREDICTION, find_study, shipped_studies
from gsat.study.table import Cell, Section, measure, row_name
from gsat.training.recipe import describe_settings
from paper.other_runs import other_runs_table
from paper.reproduction import count_verdicts, strict_count

BEGIN, END = "<!-- results:begin -->\n", "<!-- results:end -->"
NOTHING_RECORDED = "Nothing has been recorded yet.\n"
# Table, metric, method, backbone, data set: what a reader asks first, good and bad.
HEADLINES = (
    ("table1", "explanation_auc", "gsat", "gin", "ba2motifs"),
    ("table1", "explanation_auc", "gsat", "gin", "mutag"),
    ("table1", "explanation_auc", "gsat-star", "gin", "spmotif-0.5"),
    ("table1", "explanation_auc", "gsat-star", "gin", "spmotif-0.9"),
    ("table1", "explanation_auc", "gsat-star", "pna", "spmotif-0.5"),
    ("table2", PREDICTION, "gsat", "gin", "spmotif-0.5"),
    ("table2", PREDICTION, "gsat", "gin", "spmotif-0.9"),
    ("table3", PREDICTION, "gsat", "pna", "ogbg-molbace"),
)


def results_page(records: Records) -> str:
    """Write every table of the paper that has runs, then all other recorded runs."""
    tables, shown = [], []
    for study in shipped_studies():
        sections = measure(study, records)
        if _has_runs(sections):
            tables.append(make_table(study, sections, short=True))
            shown += sections
    other = other_runs_table(records)
    if other:
        tables.append(other)
    if not tables:
        return NOTHING_RECORDED
    marks = list(DATA_MARK_NOTES.values()) if other else data_notes(shown)
    notes = " ".join([NUMBERS_NOTE, ERRORS_NOTE, *marks])
    return f"{notes}\n\n{render_markdown(tables)}"


def headline_numbers(records: Records) -> str:
    """Write the strict count of cells, and eight numbers beside the paper's."""
    lines = ["| data | model | metric | ours (seeds) | paper |", "| --- | --- | --- | --- | --- |"]
    marks = set()
    for name, metric, method, backbone, dataset in HEADLINES:
        cell = _find_cell(name, metric, method, backbone, dataset, records)
        ours = "no run"
        if cell.ours is not None:
            value = format_mean_std(*cell.ours, len(cell.values))
            ours = f"{value}{cell.data_mark} ({format_seeds(cell.runs)})"
            marks.add(cell.data_mark)
        lines.append(
            f"| {dataset} | {row_name(find_study(name), cell.row)} | "
            f"{_metric_title(metric, cell)} | {ours} | {format_published(cell.published)} |"
        )
    notes = [NUMBERS_NOTE, *(note for mark, note in DATA_MARK_NOTES.items() if mark in marks)]
    link = "All tables: [docs/results.md](docs/results.md)."
    count = f"{strict_count(count_verdicts(records))} [How cells are judged](docs/reproduction.md)."
    return "\n".join([count, "", *lines, "", " ".join([*notes, link]), ""])


def settings_page() -> str:
    """Write all settings as Markdown tables, one per method, backbone and data set."""
    groups: dict[tuple[str, str], list[SettingInfo]] = {}
    for info in describe_settings():
        table = info.name.rpartition(".")[0]
        groups.setdefault((table, info.owner), []).append(info)
    lines = []
    for (table, owner), infos in groups.items():
        title = f"`[{table}]`" if table else "At the top of a recipe"
        if owner and not table.endswith(owner):
            title += f" of {owner}"
        lines += [f"### {title}", "", "| key | type | default | meaning |", "|---|---|---|---|"]
        for info in infos:
            kind = f"{info.type}, {info.range}" if info.range else info.type
            cells = (f"`{info.name.rpartition('.')[2]}`", kind, f"`{info.default}`")
            text = " | ".join((*cells, info.description)).replace("\n", " ")
            lines.append(f"| {text} |")
        lines.append("")
    return "\n".join(lines)


def write_between_marks(path: Path, section: str) -> None:
    """Replace what a document has between its two result marks."""
    text = path.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        raise GSATError(f"{path} needs the lines {BEGIN.strip()} and {END} to write between")
    head, rest = text.split(BEGIN, 1)
    path.write_text(f"{head}{BEGIN}\n{section}\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")


def _has_runs(sections: Sequence[Section]) -> bool:
    return any(cell.runs.seeds for section in sections for cell in section.cells.values())


def _find_cell(
    name: str, metric: str, method: str, backbone: str, dataset: str, records: Records
) -> Cell:
    for section in measure(find_study(name), records):
        for cell in section.cells.values():
            row = cell.row
            key = (section.table.metric, row.method, row.backbone, row.variant, cell.dataset)
            if key == (metric, method, backbone, "", dataset):
                return cell
    raise AssertionError(f"{name} has no cell of {method} on {backbone}")


def _metric_title(metric: str, cell: Cell) -> str:
    """The metric's title; of a prediction, which metric it is."""
    if metric != PREDICTION:
        return metric_title(metric)
    known = next(iter(cell.runs.done.values()), {"test": {"accuracy": None}})["test"]
    return "ROC AUC" if "roc_auc" in known else "Accuracy"
