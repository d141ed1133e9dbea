"""Runs on graphs given in Python: they resume when the same graphs are given again."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import gsat
from gsat.core.errors import DataError, Interrupted, RecipeError
from gsat.datasets.load import Dataset, load_dataset
from own_data import make_graphs
from training_harness import stopping

SETTINGS = {"epochs": 4, "seed": 3}


def model(data: Dataset) -> gsat.GSAT:
    return gsat.GSAT(gsat.GIN.for_data(data, hidden=8, layers=1, seed=3), seed=3)


def cut_run(data: Dataset, path: Path) -> Path:
    with stopping(2), pytest.raises((KeyboardInterrupt, Interrupted)):
        gsat.fit(model(data), data, out=path, checkpoint_seconds=0, **SETTINGS)  # type: ignore[arg-type]
    return path


def test_other_graphs_or_another_split_are_refused(tmp_path: Path) -> None:
    data = load_dataset(make_graphs(), seed=3)
    path = cut_run(data, tmp_path / "cut")
    with pytest.raises(DataError, match="given in Python"):
        gsat.resume(path)
    for wrong, what in (
        (load_dataset(make_graphs(38), seed=3), "content"),
        (load_dataset(make_graphs(), seed=4), "seed"),
        (load_dataset(make_graphs(), seed=3, split="random"), "split"),
        (load_dataset("ba2motifs", graphs=20, seed=3), "name"),
    ):
        with pytest.raises(RecipeError, match=rf"data\.{what} is .* given to resume"):
            gsat.resume(path, data=wrong)


@pytest.mark.parametrize("backbone", ["gin", "pna"])
@pytest.mark.parametrize("kind", ["nodes", "numbers", "labels", "classes"])
def test_every_task_can_be_fitted(kind: str, backbone: str) -> None:
    label = {
        "nodes": lambda i, g: torch.arange(g.num_nodes) % 3,
        "numbers": lambda i, g: torch.tensor([i / 7]),
        "labels": lambda i, g: torch.tensor([[i % 2, float("nan") if i % 5 else 1.0]]),
        "classes": lambda i, g: torch.tensor([10 * (i % 3)]),
    }[kind]
    data = load_dataset(make_graphs(40, y=label))
    network = {"gin": gsat.GIN, "pna": gsat.PNA}[backbone].for_data(data, hidden=8, layers=1)
    run = gsat.fit(gsat.GSAT(network), data, epochs=1)
    assert run.test[data.task.metric] is not None
    # The shipped recipe for data without one of its own.
    assert run.recipe.training.weight_decay == (3e-6 if backbone == "pna" else 0)
