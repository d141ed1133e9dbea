"""Molecules of a run: explained one by one, as a page, and by patterns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from gsat.core.errors import DataError, GSATError
from gsat.explain.molecules import (
    MoleculeReport,
    ReportInfo,
    explain_molecules,
    find_target,
    output_names,
)
from gsat.explain.patterns import PatternReport, find_patterns
from gsat.molecules import SMILES
from gsat.molecules.fingerprints import NearestMolecules
from gsat.training.prediction_table import read_smiles
from gsat.training.run_audit import doubts, support
from gsat.training.run_files import shown_metrics

if TYPE_CHECKING:
    from gsat.models import InterpretableModel
    from gsat.training.run import Data, Run


def molecule_report(
    run: Run,
    data: Data | None = None,
    *,
    smiles: str | Sequence[str] | None = None,
    split: str = "test",
    target: str | None = None,
) -> MoleculeReport:
    """Explain molecules: scores, fragments with signed effects, neighbours, warnings."""
    if smiles is not None:
        if data is not None:
            raise GSATError("data and smiles both say what to explain; give one of them")
        store = read_smiles(run.model, [smiles] if isinstance(smiles, str) else smiles)
    else:
        store = run.graphs(data, split)
    if run.model.task.level != "graph" or not store.has(SMILES):
        raise DataError("these graphs are not molecules: they carry no SMILES")
    explanations = run.explain(store)
    task = run.model.task
    plain = output_names(task, explanations[0].get("class_names") if explanations else None)
    names = spoken_names(plain, run.model)
    if task.kind != "regression":
        for explanation in explanations:
            explanation.class_names = names
    molecules = explain_molecules(
        run.model,
        store,
        explanations,
        target=find_target(target, plain),
        nearest=nearest_in_training(run),
    )
    info = ReportInfo(
        title=_title(len(molecules), data, smiles is not None, split),
        outputs=names,
        about=_about(run),
        notes=doubts(run),
        regression=task.kind == "regression",
        rejected=[] if smiles is not None or data is None else store.meta.get("rejected", []),
    )
    return MoleculeReport(molecules, info, task)


def pattern_report(run: Run, data: Data | None = None, *, split: str = "test") -> PatternReport:
    """Find the fragments that recur in the explanations of a data set."""
    report = molecule_report(run, data, split=split)
    groups = find_patterns(report.molecules, report.task, report.info.outputs)
    title = report.info.title.replace("Explanations of", "Patterns in the explanations of")
    return PatternReport(groups, report.molecules, replace(report.info, title=title))


# Fingerprints of the training molecules, as long as the run is in use.
_TRAINING: WeakKeyDictionary[Run, NearestMolecules | None] = WeakKeyDictionary()


def nearest_in_training(run: Run) -> NearestMolecules | None:
    """Return the training molecules of a run; None if they are not here, or are no molecules."""
    if run not in _TRAINING:
        try:
            train = run.dataset.train
            nearest = NearestMolecules(train.texts(SMILES)) if train.has(SMILES) else None
        except (GSATError, OSError):
            nearest = None
        _TRAINING[run] = nearest
    return _TRAINING[run]


def spoken_names(names: list[str], model: InterpretableModel) -> list[str]:
    """Name numbers by their columns, and classes that are mere numbers, too: ``p_np = 1``."""
    columns = (model.input or {}).get("table", {}).get("labels", [])
    if model.task.kind == "regression":
        return list(columns) if len(columns) == len(names) else names
    if len(columns) != 1 or not all(name.isdigit() for name in names):
        return names
    return [f"{columns[0]} = {name}" for name in names]


def _title(count: int, data: Data | None, given: bool, split: str) -> str:
    what = "1 molecule" if count == 1 else f"{count} molecules"
    if given:
        return f"Explanations of {what}"
    if isinstance(data, str | Path):
        return f"Explanations of {what} of {Path(str(data)).name}"
    return f"Explanations of {what}" + (f" of the {split} set" if data is None else "")


def _about(run: Run) -> list[str]:
    lines = [f"Model: {run.recipe.method} with {run.recipe.backbone.name}, trained on "
             f"{run.recipe.data.label}, seed {run.recipe.seed}"]  # fmt: skip
    if run.finished:
        for part, metrics in (("validation", run.valid), ("test", run.test)):
            shown = [
                f"{name} {value:.3f}"
                for name, value in shown_metrics(metrics, has_truth=False).items()
                if value is not None
            ]
            lines.append(f"{part} set: {', '.join(shown)}")
    if verdict := support(run):
        lines.append(verdict)
    return [lines[0], " · ".join(lines[1:])] if lines[1:] else lines
