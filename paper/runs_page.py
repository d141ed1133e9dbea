"""The page of all recorded runs of the tables, by cell."""

from __future__ import annotations

from collections.abc import Iterator

from gsat.study.records import Record, RecordedRuns, Records
from gsat.study.study import PREDICTION, Study, StudyCell, shipped_studies
from gsat.study.table import row_name

_HEAD = (
    "| seed | epoch | prediction | explanation AUC | precision@5 | minutes | CPU | torch-gsat |",
    "| --- | --- | --- | --- | --- | --- | --- | --- |",
)


def runs_page(records: Records) -> str:
    """Write the runs of every cell of the tables, with an anchor for each recipe."""
    sections: dict[str, list[str]] = {}
    runs, hours = 0, 0.0
    for study, cell in _cells():
        name, experiment = study.name, cell.experiment
        found = records.of(experiment)
        if experiment.hash in sections or not found.seeds:
            if experiment.hash in sections and name not in sections[experiment.hash][2]:
                sections[experiment.hash][2] += f", {name}"
            continue
        sections[experiment.hash] = [
            f'<a id="{experiment.hash}"></a>',
            f"### {cell.dataset}, {row_name(study, cell.row)}\n",
            f"Recipe `{experiment.hash}`, graphs `{found.data_hash}`; in {name}",
            "",
            *_HEAD,
            *(_line(found, seed) for seed in found.seeds),
            "",
        ]
        runs += len(found.seeds)
        hours += sum(run.get("cpu_seconds", run["seconds"]) for run in found.done.values()) / 3600
    head = f"{runs} runs of {len(sections)} recipes, {hours:.0f} hours of computing.\n\n"
    return head + "\n".join(line for section in sections.values() for line in section)


def _cells() -> Iterator[tuple[Study, StudyCell]]:
    """Every cell except those of trivial baselines."""
    for study in shipped_studies():
        for cell in study.cells:
            if not cell.row.trivial:
                yield study, cell


def _line(runs: RecordedRuns, seed: int) -> str:
    """One run as a line of Markdown."""
    if seed in runs.failed:
        return f"| {seed} | failed: {runs.failed[seed]['failed']} | | | | | | |"
    run = runs.done[seed]
    values = [
        _per_cent(runs.values(metric)[seed])
        for metric in (PREDICTION, "explanation_auc", "precision_at_5")
    ]
    cells = [str(seed), str(run["best_epoch"]), *values, f"{run['seconds'] / 60:.0f}", _cpu(run)]
    return f"| {' | '.join([*cells, run['versions']['torch-gsat']])} |"


def _per_cent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f}"


def _cpu(run: Record) -> str:
    return str(run.get("cpu", run.get("machine", "–")))
