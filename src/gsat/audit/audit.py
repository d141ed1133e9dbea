"""The audit: are explanations faithful? Measured on held-out graphs, without ground truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gsat.attention import AttentionLevel
from gsat.audit.measures import Measures, measure
from gsat.audit.perturbations import ScoredBatch, predict_perturbed, unit_of
from gsat.audit.settings import DEFAULTS, AuditSettings
from gsat.audit.verdict import Verdict, judge
from gsat.core.errors import DataError, GSATError
from gsat.graphs import GraphStore
from gsat.launch.progress import Progress
from gsat.models import InterpretableModel
from gsat.ops import Draws


@dataclass(frozen=True)
class Audit:
    """The measures of an audit, and its verdict."""

    measures: Measures  # None where undefined; docs/audit.md explains each
    # ``shares`` of units (edges or nodes), and at each of them the agreement with the prediction
    # for the whole graph: ``kept`` and ``removed`` by score, ``random_kept`` and
    # ``random_removed``; ``kept_metric`` and ``removed_metric`` are accuracy, ROC AUC or R².
    curves: dict[str, list[float | None]]
    settings: AuditSettings
    explanation: str  # definition of the hard explanation of a graph, in words
    graphs: int  # audited
    available: int  # given
    metric: str  # of prediction
    level: str  # of the predictions, "graph" or "node"
    unit: AttentionLevel = "edge"
    remedies: tuple[str, ...] = ()  # settings that the model could still be trained with

    @property
    def verdict(self) -> Verdict:
        """Whether the explanations are faithful, with the evidence."""
        return judge(self.measures, self.metric, self.remedies)

    def adding(self, measures: Mapping[str, float | None]) -> Audit:
        """Add measures that need more than the model: other runs, the log, other trainings."""
        return replace(self, measures={**self.measures, **measures})

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            **self.verdict.as_dict(),
            "measures": dict(self.measures),
            "curves": dict(self.curves),
            "explanation": self.explanation,
            "graphs": self.graphs,
            "available": self.available,
            "metric": self.metric,
            "level": self.level,
            "unit": self.unit,
            "settings": self.settings.model_dump(mode="json"),
        }


def audit_model(
    model: InterpretableModel,
    store: GraphStore,
    *,
    top: float | None = None,
    above: float | None = None,
    settings: AuditSettings = DEFAULTS,
    progress: bool = False,
) -> Audit:
    """Audit the explanations that a model gives for graphs."""
    if not model.explains:
        raise GSATError(
            f"the method '{model.method}' gives no explanations to audit; train one that does, "
            "such as gsat"
        )
    unit = unit_of(model)
    explain, words = _hard(top, above, unit)
    chosen = chosen_graphs(store, settings, unit)
    bar = Progress("auditing", quiet=not progress)
    answers = predict_perturbed(model, chosen, explain, settings, bar)
    measures, curves = measure(model.task, model.r, answers, settings)
    metric = "r2" if model.task.kind == "regression" else model.task.metric
    return Audit(
        measures, curves, settings, words, len(chosen), len(store), metric, model.task.level,
        unit, model.remedies,
    )  # fmt: skip


def chosen_graphs(
    store: GraphStore, settings: AuditSettings = DEFAULTS, unit: AttentionLevel = "edge"
) -> GraphStore:
    """Choose the graphs of an audit: those with at least two units, and no more than a limit."""
    if unit == "node":
        units = store.node_counts
    else:
        units = store.edge_counts // np.where(store.per_graph("undirected"), 2, 1)
    rows = np.flatnonzero(units >= 2)
    if not len(rows):
        raise DataError(f"no graph has two {unit}s to choose from; there is nothing to audit")
    if len(rows) > settings.graphs:
        order = Draws(settings.seed, "audit", "graphs").permutation(len(rows))
        rows = np.sort(rows[order[: settings.graphs]])
    return store.select(rows)


def _hard(top: float | None, above: float | None, unit: str) -> tuple[Any, str]:
    """A function that makes the hard explanation of a batch, and its description."""
    if top is not None and above is not None:
        raise GSATError("top and above both say what the explanation is; give one of them")
    if top is not None:
        if not 0 < top < 1:
            raise GSATError(f"top is a share of the {unit}s between 0 and 1, not {top}")
        words = f"the best-scored {top:.0%} of the {unit}s of a graph"
        return lambda scored: scored.top(top), words
    if above is not None:
        if not 0 <= above < 1:
            raise GSATError(f"above is a score from 0 to below 1, not {above}")
        return lambda scored: scored.above(above), f"the {unit}s scored above {above:g}"
    return ScoredBatch.split, f"the {unit}s in the upper of the two groups of scores of a graph"
