"""Models and data given to `fit` and `resume` are checked first; every kind of task is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import gsat
from gsat.core.errors import DataError, GSATError, RecipeError
from gsat.datasets.load import load_dataset
from own_data import make_graphs
from training_harness import stopping


@pytest.fixture(scope="module")
def data() -> gsat.Dataset:
    return gsat.load_dataset("ba2motifs", graphs=60)


def test_fit_takes_a_gsat_model(data: gsat.Dataset) -> None:
    network: Any = GCN(10, 8, num_layers=2)
    for wrong in (network, gsat.GIN.for_data(data)):
        with pytest.raises(GSATError, match=r"not a GCN|not a GIN") as caught:
            gsat.fit(wrong, data)
        assert "gsat.wrap(network, task=data.task)" in str(caught.value)
    with pytest.raises(GSATError, match=r"a backbone was needed, not a GCN.*gsat\.wrap"):
        gsat.GSAT(network)


def test_fit_and_backbones_take_a_dataset(data: gsat.Dataset) -> None:
    graphs: Any = [data.train[0], data.train[1]]
    model = gsat.GSAT(gsat.GIN.for_data(data, hidden=8))
    for use in (lambda: gsat.fit(model, graphs), lambda: gsat.GIN.for_data(graphs)):
        with pytest.raises(DataError, match=r"a Dataset was needed, not a list: gsat.load_dataset"):
            use()


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (gsat.Task("regression", 1, "r2"), "kind 'regression', that of the data is 'binary'"),
        (gsat.Task("multilabel", 1, "roc_auc"), "kind 'multilabel'"),
        (gsat.Task("multiclass", 2), "kind 'multiclass'"),
        (gsat.Task("binary", level="node"), "level 'node', that of the data is 'graph'"),
    ],
)
def test_the_task_of_the_model_is_that_of_the_data(
    task: gsat.Task, message: str, data: gsat.Dataset
) -> None:
    model = gsat.GSAT(gsat.GIN(data.store.num_features, task, hidden=8))
    with pytest.raises(DataError, match=message):
        gsat.fit(model, data, epochs=1)


def test_the_number_of_classes_counts_and_the_metric_does_not(data: gsat.Dataset) -> None:
    features = data.store.num_features
    other = gsat.GSAT(gsat.GIN(features, gsat.Task("binary", metric="roc_auc"), hidden=8))
    assert "roc_auc" in gsat.fit(other, data, epochs=1).test
    graphs = [Data(x=g.x, edge_index=g.edge_index, y=i % 3) for i, g in enumerate(data.train)]
    three = gsat.load_dataset(graphs, task="multiclass")
    five = gsat.GSAT(gsat.GIN(features, gsat.Task("multiclass", 5), hidden=8))
    with pytest.raises(DataError, match="classes 5, that of the data is 3"):
        gsat.fit(five, three, epochs=1)


@pytest.mark.parametrize(
    ("backbone", "batch_size"),
    [(gsat.GIN, 1), (gsat.GIN, 4), (gsat.GIN, 9), (gsat.PNA, 1), (gsat.LEConvNet, 1)],
)
def test_graphs_of_one_node_are_trained_with_others(backbone: Any, batch_size: int) -> None:
    """A batch norm of one node has no spread to divide by."""
    rng = np.random.default_rng(0)
    edges = torch.tensor([[0, 1], [1, 0]])
    graphs = []
    for number in range(40):
        x = torch.from_numpy(rng.random((1 + number % 2, 3))).float()
        graphs.append(Data(x=x, edge_index=edges[:, : 2 * (number % 2)], y=(number // 2) % 2))
    data = gsat.load_dataset(graphs, task="binary")
    model = gsat.GSAT(backbone.for_data(data, hidden=8))
    run = gsat.fit(model, data, epochs=2, batch_size=batch_size)
    assert (run.result["best_epoch"], run.result["selected"]) == (1, "last")


def test_resume_refuses_other_graphs_or_another_split(tmp_path: Path) -> None:
    data, path = load_dataset(make_graphs(), seed=3), tmp_path / "cut"
    model = gsat.GSAT(gsat.GIN.for_data(data, hidden=8, layers=1))
    with stopping(2), pytest.raises(KeyboardInterrupt):
        gsat.fit(model, data, out=path, seed=3, epochs=4, checkpoint_seconds=0)
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
