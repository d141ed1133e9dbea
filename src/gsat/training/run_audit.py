"""What a run adds to an audit of its model: comparisons, ``audit.json``, the verdict in words."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gsat.audit.measures import Measures
from gsat.audit.stability import rank_correlation, score_graphs
from gsat.core import writing
from gsat.core.errors import GSATError, RunError
from gsat.core.files import is_regular, read_json
from gsat.datasets.load import Dataset
from gsat.graphs import GraphStore
from gsat.models import InterpretableModel
from gsat.models.wrapping.settings import WrappedSettings
from gsat.ops import Draws
from gsat.training.loop import TrainOptions, make_method, train_method
from gsat.training.recipe import Recipe, from_tables
from gsat.training.run_schemas import AuditFile

AUDIT: Final = "audit.json"
LAST_EPOCHS: Final = 10  # over which score stability is averaged
SHUFFLED_EPOCHS: Final = 20  # maximum for the training on shuffled labels

# The short audit at the end of a training.
SHARE: Final = 0.1  # of the training time
LEAST: Final = 20  # graphs; a verdict on fewer is unreliable
PASSES: Final = 20.0  # cost of a quick audit, in evaluations of its graphs (measured: 6 to 26)


# -- audit.json -----------------------------------------------------------------------------------


def read_audit(path: Path, best_epoch: int) -> dict[str, Any] | None:
    """Read the audit that is kept in a run directory; None unless it is of this epoch."""
    if not is_regular(path / AUDIT):
        return None
    values = read_json(path / AUDIT, AuditFile, error=RunError)
    return values if values["best_epoch"] == best_epoch else None


def write_audit(path: Path, values: dict[str, Any]) -> None:
    """Write ``audit.json``; a run directory that can't be written to is left as it is."""
    try:
        writing.write_json(path / AUDIT, values)
    except OSError:
        return


def outcome_of(audit: Mapping[str, Any]) -> str:
    """Return the outcome of a stored audit; older ones hold only whether it passed."""
    return str(audit.get("outcome") or ("passed" if is_faithful(audit) else "failed"))


def is_faithful(audit: Mapping[str, Any]) -> bool:
    """Whether a stored audit passed; older files have the key ``believe``."""
    return bool(audit.get("faithful", audit.get("believe")))


def audit_line(audit: Mapping[str, Any]) -> str:
    """The verdict of a stored audit, with the evidence against explanations that passed."""
    against = "; ".join(audit.get("against", []))
    line = f"audit: {audit['verdict']}"
    return f"{line} (evidence against: {against})" if against and is_faithful(audit) else line


# -- measures that need the run -------------------------------------------------------------------


def mean_stability(log: Sequence[dict[str, Any]]) -> float | None:
    """The mean score stability over the last epochs of a training."""
    values = [line.get("score_stability") for line in log[-LAST_EPOCHS:]]
    defined = [value for value in values if value is not None]
    return float(np.mean(defined)) if defined else None


def compare_with_untrained(
    model: InterpretableModel, recipe: Recipe, data: Dataset, graphs: GraphStore, progress: bool
) -> Measures:
    """Compare scores with those of an untrained model, and of one trained on shuffled labels."""
    if isinstance(recipe.backbone, WrappedSettings):
        raise GSATError(
            "a network of your own can't be trained again here: leave out the sanity check"
        )
    own = score_graphs(model, graphs)
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


def shuffle_labels(data: Dataset, seed: int = 0) -> Dataset:
    """Give every graph (or node) of a data set the label of another one."""
    name = "node_y" if data.task.level == "node" else "y"
    labels = np.asarray(data.store.arrays[name][:])
    other = labels[Draws(seed, "shuffled labels").permutation(len(labels))]
    store = GraphStore({**data.store.arrays, name: other}, data.store.meta, data.store.index)
    return replace(data, store=store)


def majority(labels: NDArray[Any]) -> float | None:
    """The share of the most frequent class."""
    _, counts = np.unique(labels[~np.isnan(labels.astype(np.float64))], return_counts=True)
    return float(counts.max() / counts.sum()) if len(counts) else None


# -- the cost of a short audit --------------------------------------------------------------------


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


def _seconds(model: InterpretableModel, graphs: GraphStore) -> float:
    """Time to evaluate graphs, the shorter one of two."""
    times = []
    for _ in range(2):
        start = time.perf_counter()
        model.score_edges(graphs)
        times.append(time.perf_counter() - start)
    return min(times)
