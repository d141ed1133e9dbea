"""An explanation as plain values, for JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from gsat.explanation import Explanation


def plain_values(explanation: Explanation) -> dict[str, Any]:
    """Return the prediction and every edge; None in place of NaN."""
    # As lists first: reading tensors element by element would take longer than the model.
    columns = {"source": explanation.edge_index[0], "target": explanation.edge_index[1]}
    columns["score"] = explanation.edge_mask
    if explanation.get("edge_spread") is not None:
        columns["spread"] = explanation.edge_spread
    if explanation.get("edge_truth") is not None:
        columns["truth"] = explanation.edge_truth.reshape(-1).int()
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    edges = [dict(zip(columns, row, strict=True)) for row in rows]
    out: dict[str, Any] = {}
    for name in ("node", "prediction", "probabilities", "spread", "node_prediction"):
        value = explanation.get(name)
        if value is not None:
            out[name] = value.tolist() if isinstance(value, Tensor) else value
    out |= {
        "confidence": explanation.confidence,
        "found": explanation.found,
        "message": explanation.message,
        "stability": explanation.stability,
        "necessary": explanation.necessary,
        "sufficient": explanation.sufficient,
        "edges": edges,
    }
    if explanation.get("node_mask") is not None:
        out["nodes"] = explanation.node_mask[:, 0].tolist()
    for name in ("node_id", "edge_id", "y", "node_y"):
        if explanation.get(name) is not None:
            out[name] = explanation[name].tolist()
    sound = bool(explanation.edge_mask.isfinite().all())  # most of the values are scores of edges
    return {
        name: value if name == "edges" and sound else _finite(value) for name, value in out.items()
    }


def _finite(value: Any) -> Any:
    """Replace NaN, which JSON does not have, by None."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
