"""What a caller brings is looked at before anything is trained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import gsat
from gsat.core.errors import DataError, GSATError


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


@pytest.mark.parametrize("backbone", [gsat.GIN, gsat.PNA, gsat.LEConvNet])
@pytest.mark.parametrize("batch_size", [1, 4, 9])
def test_graphs_of_one_node_are_trained_with_others(backbone: Any, batch_size: int) -> None:
    """A batch norm of one node has no spread to divide by."""
    rng = np.random.default_rng(0)
    edges = torch.tensor([[0, 1], [1, 0]])
    none = torch.zeros(2, 0, dtype=torch.long)
    graphs = []
    for number in range(40):
        nodes = 1 + number % 2
        x = torch.from_numpy(rng.random((nodes, 3))).float()
        graphs.append(Data(x=x, edge_index=edges if nodes == 2 else none, y=(number // 2) % 2))
    data = gsat.load_dataset(graphs, task="binary")
    model = gsat.GSAT(backbone.for_data(data, hidden=8))
    run = gsat.fit(model, data, epochs=2, batch_size=batch_size)
    assert (run.result["best_epoch"], run.result["selected"]) == (1, "last")
