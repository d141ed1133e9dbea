"""Names of the metrics in ``result.json``, and what people call them. Imports nothing."""

from __future__ import annotations

EXPLANATION_METRICS = ("explanation_auc", "mean_graph_auc", "precision_at_5")
LOWER_IS_BETTER = ("loss", "mae", "rmse")
# What is printed of a run, in this order.
METRIC_TITLES = {
    "accuracy": "accuracy",
    "roc_auc": "ROC AUC",
    "r2": "R²",
    "mae": "MAE",
    "rmse": "RMSE",
    "explanation_auc": "explanation AUC",
    "precision_at_5": "precision@5",
}
