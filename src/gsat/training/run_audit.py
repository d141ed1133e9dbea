"""Audits of a run: the report, the verdict at the end of training, and notes on explanations."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gsat.audit.audit import Audit, audit_model, chosen_graphs
from gsat.audit.measures import Measures
from gsat.audit.perturbations import unit_of
from gsat.audit.report import AuditReport
from gsat.audit.settings import AuditSettings
from gsat.audit.stability import (
    Scores,
    common_unit,
    rank_correlation,
    score_graphs,
    stability,
)
from gsat.audit.verdict import model_notes
from gsat.core import writing
from gsat.core.errors import DataError, GSATError, RunError
from gsat.core.files import is_regular, read_json
from gsat.core.settings import validated
from gsat.datasets.load import Dataset
from gsat.datasets.registry import is_own_data
from gsat.graphs import GraphStore
from gsat.models import InterpretableModel
from gsat.models.ensemble import load_any
from gsat.models.wrapping.settings import WrappedSettings
from gsat.ops import Draws
from gsat.training.loop import TrainOptions
from gsat.training.recipe import from_tables
from gsat.training.run_schemas import AuditFile
from gsat.training.train_method import make_method, train_method

if TYPE_CHECKING:
    from gsat.training.run import Data, Run

AUDIT: Final = "audit.json"
LAST_EPOCHS: Final = 10  # over which score stability is averaged
SHUFFLED_EPOCHS: Final = 20  # maximum for the training on shuffled labels

# The short audit at the end of a training.
SHARE: Final = 0.1  # of the training time
LEAST: Final = 20  # graphs; a verdict on fewer is unreliable
PASSES: Final = 20.0  # cost of a quick audit, in evaluations of its graphs (measured: 6 to 26)


def audit_run(
    run: Run,
    data: Data | None = None,
    *,
    split: str = "test",
    others: Sequence[str | Path | Run] = (),
    sanity: bool = False,
    top: float | None = None,
    above: float | None = None,
    progress: bool = False,
    **settings: Any,
) -> AuditReport:
    """Audit the explanations of a run; see :meth:`gsat.Run.audit`."""
    chosen = validated(AuditSettings, settings, owner="the audit")
    store = run.graphs(data, split)
    audit = audit_model(run.model, store, top=top, above=above, settings=chosen, progress=progress)
    graphs = chosen_graphs(store, chosen, audit.unit)
    more: Measures = {"steady": mean_stability(run.log)}
    if others:
        models = [run.model, *(_model(other) for other in others)]
        unit = common_unit(models)
        more |= stability([score_graphs(model, graphs, unit) for model in models])
    if sanity:
        own = score_graphs(run.model, graphs)
        more |= _sanity(run, own, graphs, progress)
    audit = audit.adding(more)
    report = AuditReport(audit, _title(run, data, split), _about(run, audit, len(others)))
    if data is None and split in ("valid", "test") and run.path is not None and run.finished:
        _keep(
            run.path, {**report.as_dict(), "split": split, "best_epoch": run.result["best_epoch"]}
        )
    return report


def mean_stability(log: Sequence[dict[str, Any]]) -> float | None:
    """The mean score stability over the last epochs of a training."""
    values = [line.get("score_stability") for line in log[-LAST_EPOCHS:]]
    defined = [value for value in values if value is not None]
    return float(np.mean(defined)) if defined else None


def read_audit(path: Path, best_epoch: int) -> dict[str, Any] | None:
    """Read the audit that is kept in a run directory."""
    if not is_regular(path / AUDIT):
        return None
    values = read_json(path / AUDIT, AuditFile, error=RunError)
    return values if values["best_epoch"] == best_epoch else None


# -- the verdict at the end of a training ---------------------------------------------------------


@dataclass(frozen=True)
class TrainingVerdict:
    """The verdict that a training ends with."""

    outcome: str  # "passed", "mixed" or "failed"
    line: str
    remedy: str | None = None  # a setting that may improve explanations, as key=value

    @classmethod
    def of(cls, audit: Mapping[str, Any]) -> TrainingVerdict:
        """Read the verdict of an audit."""
        return cls(outcome_of(audit), str(audit["verdict"]), audit.get("remedy"))


def verdict_of_training(run: Run, *, progress: bool = False) -> TrainingVerdict | None:
    """Return the verdict on a run of the user's own data, by its last audit or by a short one."""
    name = run.recipe.data.name
    if not (is_own_data(name) or name == "planted") or not run.model.explains:
        return None
    audit = run.last_audit
    if audit is None:
        report = short_audit(run, progress=progress)
        audit = None if report is None else report.as_dict()
    return None if audit is None else TrainingVerdict.of(audit)


def short_audit(run: Run, *, share: float = SHARE, progress: bool = False) -> AuditReport | None:
    """Audit as many validation graphs of a run as a share of its training time allows."""
    quick = AuditSettings.quick()
    try:
        graphs = chosen_graphs(run.graphs("valid"), quick, unit_of(run.model))
    except DataError:  # no validation graphs, or none with two edges
        return None
    if len(graphs) < LEAST:
        return None
    count = affordable(run.model, graphs, share * run.result["seconds"] / PASSES)
    if count < LEAST:
        return None
    settings = quick.model_copy(update={"graphs": count})
    return run.audit(split="valid", progress=progress, **settings.model_dump())


def affordable(model: InterpretableModel, graphs: GraphStore, seconds: float) -> int:
    """Number of graphs that a model can evaluate in a given time.

    Interpolated linearly between the times for 20 graphs and for all of them.
    """
    few = _seconds(model, graphs.select(range(LEAST)))
    if few > seconds:
        return 0
    if len(graphs) == LEAST:
        return LEAST
    each = max(_seconds(model, graphs) - few, 0.0) / (len(graphs) - LEAST)
    more = (seconds - few) / each if each else float("inf")
    return len(graphs) if more >= len(graphs) - LEAST else LEAST + int(more)


def outcome_of(audit: Mapping[str, Any]) -> str:
    """Return the outcome of a stored audit; older ones hold only whether it passed."""
    return str(audit.get("outcome") or ("passed" if is_faithful(audit) else "failed"))


def is_faithful(audit: Mapping[str, Any]) -> bool:
    """Whether a stored audit passed; older files have the key ``believe``."""
    return bool(audit.get("faithful", audit.get("believe")))


# -- notes on explanations -------------------------------------------------------------------------


def weaknesses(run: Run) -> list[str]:
    """Say where the model of a run is weak on its validation data."""
    if not run.finished:
        return ["the training of this model has not ended"]
    return model_notes(run.valid, majority(run))


def majority(run: Run) -> float | None:
    """The share of the most frequent class in the validation data, where accuracy is measured."""
    if run.model.task.metric != "accuracy":
        return None
    try:
        labels = run.dataset.valid.labels(run.model.task.level)
    except (GSATError, OSError):
        return None
    labelled = labels[~np.isnan(labels.astype(np.float64))]
    _, counts = np.unique(labelled, return_counts=True)
    return float(counts.max() / counts.sum()) if len(counts) else None


def doubts(run: Run) -> list[str]:
    """List the evidence against the explanations of a run: weaknesses, then a bad audit."""
    audit = _audit(run)
    bad = isinstance(audit, str) or (audit is not None and not is_faithful(audit))
    return [*weaknesses(run), *([audit_line(run)] if bad else [])]


def support(run: Run) -> str:
    """The verdict of an audit that the explanations of a run passed; empty without one."""
    audit = _audit(run)
    return audit_line(run) if isinstance(audit, dict) and is_faithful(audit) else ""


def audit_line(run: Run) -> str:
    """The verdict of the last audit of a run, with the evidence against it; empty without one."""
    audit = _audit(run)
    if audit is None:
        return ""
    if isinstance(audit, str):
        return audit
    against = "; ".join(audit.get("against", []))
    line = f"audit: {audit['verdict']}"
    return f"{line} (evidence against: {against})" if against and is_faithful(audit) else line


def _audit(run: Run) -> dict[str, Any] | str | None:
    """The last audit; None without one, and the reason where it can't be read."""
    try:
        return run.last_audit
    except GSATError as error:
        return str(error)


# -- details ---------------------------------------------------------------------------------------


def shuffle_labels(data: Dataset, seed: int = 0) -> Dataset:
    """Give every graph (or node) of a data set the label of another one."""
    name = "node_y" if data.task.level == "node" else "y"
    labels = np.asarray(data.store.arrays[name][:])
    other = labels[Draws(seed, "shuffled labels").permutation(len(labels))]
    store = GraphStore({**data.store.arrays, name: other}, data.store.meta, data.store.index)
    return replace(data, store=store)


def _seconds(model: InterpretableModel, graphs: GraphStore) -> float:
    """Time to evaluate graphs, the shorter one of two."""
    times = []
    for _ in range(2):
        start = time.perf_counter()
        model.score_edges(graphs)
        times.append(time.perf_counter() - start)
    return min(times)


def _model(other: str | Path | Run) -> InterpretableModel:
    """The model of another run, which has to explain."""
    model = load_any(other) if isinstance(other, str | Path) else other.model
    if not model.explains:
        raise GSATError(f"the method of {other} gives no explanations to compare with")
    return model


def _sanity(run: Run, own: Scores, graphs: GraphStore, progress: bool) -> Measures:
    """Compare with an untrained model, and with one trained on shuffled labels."""
    recipe = run.recipe
    if isinstance(recipe.backbone, WrappedSettings):
        raise GSATError(
            "a network of your own can't be trained again here: leave out the sanity check"
        )
    data = run.dataset
    untrained = make_method(recipe, data).model
    tables = recipe.tables()
    tables["training"]["epochs"] = min(tables["training"]["epochs"], SHUFFLED_EPOCHS)
    short, shuffled = from_tables(tables), shuffle_labels(data, recipe.seed)
    method = make_method(short, shuffled)
    train_method(method, shuffled, short, None, TrainOptions(progress=progress))
    return {
        "untrained_correlation": rank_correlation(own, score_graphs(untrained, graphs)),
        "shuffled_correlation": rank_correlation(own, score_graphs(method.model, graphs)),
    }


def _keep(path: Path, values: dict[str, Any]) -> None:
    """Write ``audit.json``; a run directory that can't be written to is left as it is."""
    try:
        writing.write_json(path / AUDIT, values)
    except OSError:
        return


def _title(run: Run, data: Data | None, split: str) -> str:
    what = run.recipe.data.label
    if isinstance(data, str | Path):
        what = Path(str(data)).name
    return f"Audit of {run.recipe.method} on {what}" + (f", {split} set" if data is None else "")


def _about(run: Run, audit: Audit, others: int) -> tuple[str, ...]:
    some = f"{audit.graphs}" if audit.graphs == audit.available else (
        f"{audit.graphs} of {audit.available}"
    )  # fmt: skip
    lines = [
        f"Model: {run.recipe.method} with {run.recipe.backbone.name}, trained on "
        f"{run.recipe.data.label}, seed {run.recipe.seed}",
        f"Graphs: {some} · explanation: {audit.explanation}",
    ]
    if others:
        lines.append(f"Compared with {others} other run{'s' if others != 1 else ''}")
    return tuple(lines)
