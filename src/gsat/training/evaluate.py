"""Measuring a model that belongs to no run."""

from __future__ import annotations

from typing import Any

from gsat.datasets.load import Dataset
from gsat.graphs import GraphStore
from gsat.models import InterpretableModel
from gsat.training.evaluation import evaluate_model


def evaluate(
    model: InterpretableModel, data: Dataset | GraphStore, split: str = "test"
) -> dict[str, Any]:
    """Measure a model's predictions, and its explanations where the ground truth is known.

    Args:
        model: A trained model.
        data: A data set, or the graphs to measure it on.
        split: Which graphs of a data set. (default: ``"test"``)

    Returns:
        Metrics by name, as fractions; None where one is undefined.
    """
    return evaluate_model(model, data.split(split) if isinstance(data, Dataset) else data)
