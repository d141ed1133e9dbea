"""The audit: are explanations faithful? Measured on held-out graphs, without ground truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gsat.attention import AttentionLevel
from gsat.audit.compare import Comparison, bypass, skill
from gsat.audit.masks import ScoredBatch, unit_of
from gsat.audit.passes import Answers, ask
from gsat.audit.settings import DEFAULTS, AuditSettings
from gsat.audit.verdict import Verdict, judge
from gsat.core.errors import DataError, GSATError
from gsat.graphs import GraphStore
from gsat.launch.progress import Progress
from gsat.metrics import mean_graph_correlation
from gsat.models import InterpretableModel
from gsat.ops import Draws

Measures = dict[str, float | None]
CURVES = ("kept", "removed", "random_kept", "random_removed")


@dataclass(frozen=True)
class Audit:
    """The measures of an audit, and its verdict.

    Attributes:
        measures: Numbers by name, None where undefined; docs/audit.md explains each.
        curves: ``shares`` of units (edges or nodes), and at each of them the agreement with the
            prediction for the whole graph: ``kept`` and ``removed`` by score, ``random_kept`` and
            ``random_removed``; ``kept_metric`` and ``removed_metric`` are the accuracy, ROC AUC or
            R² instead.
        settings: The parameters.
        explanation: The definition of the hard explanation of a graph, in words.
        graphs: Number of audited graphs.
        available: Number of graphs given.
        metric: The name of the metric of prediction.
        level: The level of the predictions, ``"graph"`` or ``"node"``.
        unit: The units of the explanations, ``"edge"`` or ``"node"``. (default: ``"edge"``)
        remedies: Settings that the model could still be trained with. (default: none)
    """

    measures: Measures
    curves: dict[str, list[float | None]]
    settings: AuditSettings
    explanation: str
    graphs: int
    available: int
    metric: str
    level: str
    unit: AttentionLevel = "edge"
    remedies: tuple[str, ...] = ()

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
    answers = ask(model, chosen, explain, settings, Progress("auditing", quiet=not progress))
    own = answers.logits["own"][0]
    compared = Comparison(model.task, own)
    metric = "r2" if model.task.kind == "regression" else model.task.metric
    measures: Measures = {}
    measures["metric"], measures["skill"] = skill(model.task, own, answers.labels)
    measures["chance"] = compared.chance()
    measures |= _sufficiency(model, answers, compared)
    measures |= _necessity(answers, compared)
    measures |= _bypass(model, answers, compared)
    measures |= _robustness(answers, compared)
    measures |= score_measures(answers.scores, answers.ptr, model.r)
    measures["size"] = float(answers.inside.mean())
    if answers.again is not None:
        measures["again_difference"] = float(np.abs(answers.scores - answers.again).mean())
        measures["again_correlation"] = mean_graph_correlation(
            answers.scores, answers.again, answers.ptr
        )
    curves = _curves(model, answers, compared, settings)
    if settings.shares:
        measures["kept_area"] = _area(curves["kept"], curves["random_kept"])
        measures["removed_area"] = _area(curves["random_removed"], curves["removed"])
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


def score_measures(scores: NDArray[Any], ptr: NDArray[Any], r: float | None) -> Measures:
    """Measure how far the scores of edges or nodes are spread."""
    some = ptr[:-1][np.diff(ptr) > 0]
    count = np.diff(np.append(some, len(scores)))
    mean = np.add.reduceat(scores, some) / count
    square = np.add.reduceat(np.square(scores), some) / count
    spread = np.maximum.reduceat(scores, some) - np.minimum.reduceat(scores, some)
    return {
        "spread": float(spread.mean()),
        "deviation": float(np.sqrt(np.maximum(square - mean**2, 0)).mean()),
        "from_r": None if r is None else float(np.abs(scores - r).mean()),
    }


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


def _sufficiency(model: InterpretableModel, answers: Answers, compared: Comparison) -> Measures:
    out: dict[str, Any] = {}
    for how in ("redrawn", "levelled"):
        rest, explanation = f"rest_{how}", f"explanation_{how}"
        if rest in answers.logits:
            for name in (rest, explanation):
                out[name] = float(compared.same(answers.logits[name]).mean())
            out[f"{how}_gap"] = out[rest] - out[explanation]
    for name in ("inside", "outside"):
        logits = answers.logits[name]
        out[f"{name}_agreement"] = float(compared.same(logits).mean())
        out[f"{name}_metric"] = skill(model.task, logits[0], answers.labels)[0]
    out["removed_gap"] = out["inside_agreement"] - out["outside_agreement"]
    return out


def _necessity(answers: Answers, compared: Comparison) -> Measures:
    named = {
        "fid_plus": "outside",
        "fid_minus": "inside",
        "rfid_plus": "less",
        "rfid_minus": "more",
    }
    return {
        name: float(compared.drop(answers.logits[question]).mean())
        for name, question in named.items()
    }


def _bypass(model: InterpretableModel, answers: Answers, compared: Comparison) -> Measures:
    """Predictions that need no attention, or none of their own."""
    out: Measures = {}
    for name in ("zero", "prior"):
        if name in answers.logits:
            out[f"{name}_agreement"] = float(compared.same(answers.logits[name]).mean())
            out[f"{name}_metric"] = skill(model.task, answers.logits[name][0], answers.labels)[0]
    if (zero := out.get("zero_agreement")) is not None:
        out["bypass"] = bypass(zero, compared.chance())
    if "attended" in answers.logits:
        out["own_agreement"] = float(compared.same(answers.logits["attended"]).mean())
    return out


def _robustness(answers: Answers, compared: Comparison) -> Measures:
    largest = compared.shift(answers.logits["extended"]).max(axis=0)
    drawn = answers.logits.get("drawn")
    kept = float(compared.same(answers.logits["extended"]).mean())
    return {
        "est_agreement": kept,
        "est_advantage": kept - float(compared.same(answers.logits["random_extended"]).mean()),
        "est_shift": float(largest.mean()),
        "est_largest": float(largest.max()),
        "est_rejected": float(compared.rejected(answers.logits["extended"]).mean()),
        "attention_variation": None if drawn is None else float(compared.shift(drawn).mean()),
    }


def _curves(
    model: InterpretableModel, answers: Answers, compared: Comparison, settings: AuditSettings
) -> dict[str, list[float | None]]:
    shares = list(settings.shares)
    out: dict[str, list[float | None]] = {"shares": list(shares)}
    for name in CURVES if shares else ():
        agreement = compared.same(answers.logits[name]).mean(axis=1)
        out[name] = [float(v) for v in agreement.reshape(-1, len(shares)).mean(axis=0)]
    for name in ("kept", "removed") if shares else ():
        logits: Tensor = answers.logits[name]
        out[f"{name}_metric"] = [skill(model.task, row, answers.labels)[0] for row in logits]
    return out


def _area(upper: list[float | None], lower: list[float | None]) -> float:
    """The mean distance of two curves."""
    return float(np.mean(np.subtract(np.array(upper, float), np.array(lower, float))))
