"""Names of the metrics in ``result.json``, and their titles. Imports nothing, to start fast."""

from __future__ import annotations

from typing import Any

EXPLANATION_METRICS = ("explanation_auc", "mean_graph_auc", "precision_at_5")
ATOM_METRICS = ("atom_auc", "atom_top_n")  # where atoms have a signed ground truth
LOWER_IS_BETTER = ("loss", "mae", "rmse")
# The metrics of a run that are printed, in this order.
METRIC_TITLES = {
    "accuracy": "accuracy",
    "roc_auc": "ROC AUC",
    "r2": "R²",
    "mae": "MAE",
    "rmse": "RMSE",
    "explanation_auc": "explanation AUC",
    "precision_at_5": "precision@5",
    "atom_auc": "atom AUC",
    "atom_top_n": "atom top-n",
}


def shown_metrics(metrics: dict[str, Any], has_truth: bool) -> dict[str, float | None]:
    """Choose the metrics that people read, by their titles."""
    return {
        title: metrics[name]
        for name, title in METRIC_TITLES.items()
        if name in metrics
        and (has_truth or name not in EXPLANATION_METRICS or metrics[name] is not None)
    }
