"""Names of the metrics in ``result.json``, and what people call them. Imports nothing."""

from __future__ import annotations

EXPLANATION_METRICS = ("explanation_auc", "mean_graph_auc", "precision_at_5")
ATOM_METRICS = ("atom_auc", "atom_top_n")  # where the truth is about nodes and has a sign
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
    "atom_auc": "atom AUC",
    "atom_top_n": "atom top-n",
}
