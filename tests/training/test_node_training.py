"""Training on labels of nodes, on numbers, and on labels of which many are missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, mean_absolute_error, r2_score, roc_auc_score
from torch_geometric.utils import k_hop_subgraph

import gsat
from gsat.datasets.load import Dataset
from gsat.graphs import from_pyg
from gsat.methods import TrainingSettings
from gsat.methods.gsat import GSATMethod, GSATSettings
from gsat.tasks import Task
from gsat.training.evaluation import evaluate
from gsat.training.loop import Loop
from gsat.training.recipe import Recipe, load_data, make_recipe

SETTINGS: dict[str, Any] = {"epochs": 14, "hidden": 8, "layers": 2, "r_interval": 1}


def recipe(name: str, **more: Any) -> Recipe:
    return make_recipe(name, settings={**SETTINGS, **more})


def trained(
    data: Dataset, loop: type[Loop] = Loop, **settings: Any
) -> tuple[GSATMethod, dict[str, Any]]:
    """Train a small GSAT on any data set, in memory."""
    backbone = gsat.GIN.for_data(data, hidden=8, layers=2)
    training = TrainingSettings(**{"epochs": 14, **settings})
    method = GSATMethod.create(backbone, GSATSettings(r_interval=1), training, 0)
    return method, loop(method, data, batch_size=32, seed=0).train()


# -- nodes ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run on the nodes of a small graph."""
    return gsat.train(recipe("tree-cycles", motifs=12), tmp_path_factory.mktemp("nodes") / "run")


def test_metrics_cover_the_nodes_of_the_split(nodes: Any) -> None:
    data = load_data(nodes.recipe)
    model = gsat.load(nodes.path)
    for split, reported in (("valid", nodes.valid), ("test", nodes.test)):
        view = data.split(split)
        predicted = model.predict(view)
        rows = np.sort(data.splits[split])
        y = data.store.arrays["node_y"][rows]
        assert reported["accuracy"] == accuracy_score(y, predicted.labels)
        whole = model.predict(data.store[0])  # a PyG graph: all its nodes, in their order
        torch.testing.assert_close(whole.logits[rows], predicted.logits)
        assert evaluate(model, view)["accuracy"] == reported["accuracy"]


def test_explanations_are_measured_in_computation_graphs(nodes: Any) -> None:
    data = load_data(nodes.recipe)
    model = gsat.load(nodes.path)
    whole = data.store[0]
    mask = model.explain(whole).edge_mask
    source, target = whole.edge_index.numpy()
    stored = np.lexsort((source, target))  # equal scores go to the edge that is stored earlier
    for split in ("valid", "test"):
        scores, truth, areas, hits = [], [], [], []
        for node in np.sort(data.splits[split]):
            if not whole.node_truth[node]:
                continue
            inside = k_hop_subgraph(int(node), 2, whole.edge_index, num_nodes=whole.num_nodes)[3]
            scores.append(mask[inside].numpy())
            truth.append(whole.edge_truth[inside].numpy())
            if 0 < truth[-1].mean() < 1:
                areas.append(roc_auc_score(truth[-1], scores[-1]))
            rows = stored[inside.numpy()[stored]]
            first = rows[np.argsort(-mask.numpy()[rows], kind="stable")[:5]]
            hits.append(float(whole.edge_truth[first].sum()) / 5)
        assert len(hits) > 3
        measured = evaluate(model, data.split(split))
        expected = roc_auc_score(np.concatenate(truth), np.concatenate(scores))
        assert measured["explanation_auc"] == pytest.approx(expected, abs=1e-6)
        assert measured["mean_graph_auc"] == pytest.approx(np.mean(areas), abs=1e-6)
        assert measured["precision_at_5"] == pytest.approx(np.mean(hits))


def test_only_training_nodes_change_the_weights(nodes: Any) -> None:
    data = load_data(nodes.recipe)
    weights = []
    for changed in (None, "valid", "test", "train"):
        arrays = dict(data.store.arrays)
        if changed:
            arrays["node_y"] = arrays["node_y"].copy()
            arrays["node_y"][data.splits[changed]] = 1 - arrays["node_y"][data.splits[changed]]
        store = gsat.GraphStore(arrays, data.store.meta)
        other = Dataset(data.name, store, data.task, data.splits)
        method, _ = trained(other, epochs=3)  # too few to choose one: the last is kept
        weights.append(torch.cat([w.flatten() for w in method.model.parameters()]).detach())
    assert torch.equal(weights[0], weights[1])
    assert torch.equal(weights[0], weights[2])
    assert not torch.equal(weights[0], weights[3])


# -- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["graph", "node"])
def test_regression(level: str, tmp_path: Path) -> None:
    run = gsat.train(recipe("motif-count", graphs=60, level=level), tmp_path / "run")
    data, model = load_data(run.recipe), gsat.load(tmp_path / "run")
    predicted, y = model.predict(data.test), data.test.labels(level)[:, 0]
    assert predicted.labels.shape == y.shape
    assert run.test["r2"] == pytest.approx(r2_score(y, predicted.labels), abs=1e-5)
    assert run.test["mae"] == pytest.approx(mean_absolute_error(y, predicted.labels), rel=1e-5)
    assert 0 < run.test["explanation_auc"] < 1
    assert run.result["selected"] == "best"


@pytest.mark.parametrize(("metric", "best"), [("r2", max), ("mae", min)])
def test_the_best_epoch_is_the_one_that_errs_least(metric: Any, best: Any) -> None:
    data = gsat.load_dataset("motif-count", graphs=60)
    task = Task("regression", 1, metric, centre=2.0, scale=1.4)
    seen: list[float] = []

    class Recording(Loop):
        def _choose(self, new: Any) -> bool:
            seen.append(new.valid[metric])
            return super()._choose(new)

    data = Dataset(data.name, data.store, task, data.splits)
    _, result = trained(data, Recording, epochs=20, lr=0.01)
    assert len(set(seen)) > 5
    assert result["valid"][metric] == best(seen)
    assert {"r2", "mae"} <= result["test"].keys()


# -- missing labels ------------------------------------------------------------------------------


@pytest.fixture
def sparse() -> Dataset:
    """Four labels, half of them missing; a graph and a whole batch without any; a label with one
    class only."""
    source = gsat.load_dataset("motif-count", graphs=120).store
    rng = np.random.default_rng(0)
    graphs = []
    for number, data in enumerate(source):
        houses = float(data.y)
        y = np.array([houses > 0, houses > 1, houses > 2, 1.0], dtype=np.float32)
        y[rng.random(4) < 0.5] = np.nan
        if number < 40:
            y[:] = np.nan
        data.y = torch.from_numpy(y)[None]
        graphs.append(data)
    splits = {"train": np.arange(80), "valid": np.arange(80, 100), "test": np.arange(100, 120)}
    return Dataset("motif-count", from_pyg(graphs), Task("multilabel", 4, "roc_auc"), splits)


def test_missing_labels_from_training_to_explanation(sparse: Dataset) -> None:
    method, result = trained(sparse, lr=0.01)
    predicted, y = method.model.predict(sparse.test), sparse.test.labels("graph")
    areas = []
    for label in range(3):
        known = ~np.isnan(y[:, label])
        areas.append(roc_auc_score(y[known, label], predicted.logits[known, label]))
    assert set(y[~np.isnan(y[:, 3]), 3]) == {1.0}  # no area there: left out of the mean
    assert result["test"]["roc_auc"] == pytest.approx(np.mean(areas))
    assert np.isfinite(result["test"]["loss"])
    explained = method.model.explain(sparse.test)[0]
    missing = np.isnan(sparse.test.labels("graph")[0])
    assert [value is None for value in explained.as_dict()["y"][0]] == missing.tolist()


def test_missing_labels_teach_nothing(sparse: Dataset) -> None:
    """The gradient is that of the labels that are there, each by itself."""
    batch = sparse.train.batch(range(30, 60))
    backbone = gsat.GIN.for_data(sparse, hidden=8, layers=2).eval()
    assert batch.y is not None
    known = (~batch.y.isnan()).nonzero().tolist()
    sparse.task.loss(backbone(batch), batch.y).backward()
    ours = [weight.grad.clone() for weight in backbone.parameters() if weight.grad is not None]
    backbone.zero_grad()
    logits = backbone(batch)
    one_by_one = [
        torch.nn.functional.binary_cross_entropy_with_logits(logits[i, j], batch.y[i, j])
        for i, j in known
    ]
    torch.stack(one_by_one).mean().backward()
    theirs = [weight.grad for weight in backbone.parameters() if weight.grad is not None]
    assert len(ours) == len(theirs) > 5
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
