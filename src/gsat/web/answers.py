"""Answers as plain values for JSON."""

from __future__ import annotations

import json
import math
from typing import Any

from gsat.core.errors import GSATError
from gsat.explain.patterns import PatternReport
from gsat.explanation import Explanation
from gsat.training.run_files import RunSummary
from gsat.web.library import Entry
from gsat.web.loaded import LoadedRun
from gsat.web.scored import ScoredSplit


def json_bytes(values: Any) -> bytes:
    """Write plain values as JSON; NaN becomes null."""
    try:
        return json.dumps(values, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return json.dumps(finite(values), ensure_ascii=False, allow_nan=False).encode()


def finite(value: Any) -> Any:
    """Replace NaN and infinity, which JSON does not have, by None."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def run_values(entry: Entry) -> dict[str, Any]:
    """What a list of runs says about one."""
    summary: RunSummary = entry.summary
    values = {key: value for key, value in summary.as_dict().items() if key != "path"}
    return {"name": entry.name, **values}


def model_values(loaded: LoadedRun) -> dict[str, Any]:
    """What a model needs and answers."""
    task, network = loaded.task, loaded.model.network
    return {
        "kind": task.kind,
        "level": task.level,
        "outputs": loaded.outputs,
        "takes_smiles": loaded.takes_smiles,
        "node_features": network.get("in_features"),
        "edge_features": network.get("edge_features", 0),
        "attends_to": loaded.model.on,
        "r": loaded.model.r,
    }


def explanation_values(
    explanation: Explanation, top: int | str | None = None, name: str | None = None
) -> dict[str, Any]:
    """One explanation."""
    values = explanation.as_dict()
    if top is not None:
        chosen = explanation.in_top(top).tolist()
        for edge, within in zip(values["edges"], chosen, strict=True):
            edge["chosen"] = within
    name = explanation.get("id") if name is None else name
    return {
        "id": name if isinstance(name, str) and name else None,
        "answer": explanation.caption(),
        "outputs": list(explanation.get("class_names") or []),
        **values,
        "r": explanation.get("r"),
        "undirected": bool(explanation.undirected),
    }


def prediction_values(explanation: Explanation) -> dict[str, Any]:
    """The prediction of an explanation, without its edges."""
    values = explanation_values(explanation)
    kept = ("id", "answer", "outputs", "prediction", "probabilities", "confidence",
            "node_prediction")  # fmt: skip
    return {key: values[key] for key in kept if key in values}


def error_values(error: GSATError) -> dict[str, Any]:
    """An item that could not be answered, among others that could."""
    return {"error": str(error)}


def row_values(scored: ScoredSplit, row: int, outputs: list[str]) -> dict[str, Any]:
    """A graph (or node) of a split and the model's answer."""
    graph = int(scored.graph[row])
    decided = scored.decided[row]
    values: dict[str, Any] = {
        "number": scored.number(row),
        "title": scored.title(row),
        "graph": scored.number(row) if scored.node is None else graph,
        "node": None if scored.node is None else int(scored.node[row]),
        "nodes": int(scored.store.node_counts[graph]),
        "edges": int(scored.store.edge_counts[graph]),
        "prediction": decided.tolist(),
        "probabilities": scored.probabilities[row].tolist(),
        "confidence": float(scored.confidence[row]),
        "label": None if scored.labels is None else scored.labels[row].tolist(),
        "right": None if scored.right[row] < 0 else bool(scored.right[row]),
        "explanation_auc": float(scored.auc[row]),
        "error": float(scored.error[row]),
    }
    if scored.smiles:
        values["smiles"] = scored.smiles[graph]
    if scored.task.kind in ("binary", "multiclass"):
        values["class"] = outputs[int(decided)] if int(decided) < len(outputs) else str(decided)
    return values


def pattern_values(report: PatternReport) -> list[dict[str, Any]]:
    """Patterns of each answer."""
    return [
        {
            **{key: value for key, value in vars(group).items() if key != "patterns"},
            "patterns": [vars(pattern) for pattern in group.patterns],
        }
        for group in report.groups
    ]
