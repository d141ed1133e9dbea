"""Metrics of a model on a split, computed again graph by graph."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

import gsat
from gsat.core.errors import DataError
from gsat.datasets.load import Dataset
from gsat.graphs import GraphStore
from gsat.molecules import featurise
from gsat.tasks import Task
from gsat.training.evaluation import (
    atom_metrics,
    evaluate,
    explanation_metrics,
    mean_at_nodes,
    signed_atom_metrics,
)
from gsat.training.recipe import load_data
from training_harness import small_recipe


@pytest.fixture(scope="module")
def data() -> Dataset:
    return load_data(small_recipe())


@pytest.fixture(scope="module")
def model(data: Dataset) -> gsat.GSAT:
    """A model that predicts different classes for different graphs."""
    model = gsat.GSAT(gsat.GIN.for_data(data, hidden=8, seed=2), seed=2)
    model.train()
    with torch.no_grad():
        model(data.train.batch())
        model.extractor.last.weight.mul_(5)
        model.backbone.head.bias.sub_(model.predict(data.train).logits.quantile(0.3))
    return model.eval()


def test_metrics_are_those_of_the_graphs_one_by_one(data: Dataset, model: gsat.GSAT) -> None:
    store = data.train
    measured = evaluate(model, store, batch_size=20)
    alone = [model.predict([graph]) for graph in store]
    y = store.per_graph("y")[:, 0]
    labels = np.array([int(prediction.labels[0]) for prediction in alone])
    assert measured["accuracy"] not in (0, 0.5, 1)
    assert measured["accuracy"] == np.mean(labels == y)

    logits = np.array([float(prediction.logits[0, 0]) for prediction in alone])
    losses = np.logaddexp(0, logits) - y * logits
    # Unweighted over batches of 20, 20 and 8, as published; not the mean over graphs.
    over_batches = np.mean([losses[:20].mean(), losses[20:40].mean(), losses[40:].mean()])
    assert measured["loss"] == pytest.approx(over_batches, rel=1e-4)
    assert measured["loss"] != pytest.approx(losses.mean(), rel=1e-4)

    explained = [model.explain(graph) for graph in store]
    scores = [e.edge_mask.numpy() for e in explained]
    truths = [graph.edge_truth.numpy() for graph in store]
    pooled = roc_auc_score(np.concatenate(truths), np.concatenate(scores))
    assert measured["explanation_auc"] == pytest.approx(pooled, abs=2e-3)
    by_graph = [roc_auc_score(t, s) for t, s in zip(truths, scores, strict=True)]
    assert measured["mean_graph_auc"] == pytest.approx(np.mean(by_graph), abs=2e-3)
    # Both directions of an edge have one score: the tie goes to the edge that is stored first.
    batch = store.batch()
    assert batch.edge_truth is not None
    with model.evaluating():
        stored = model(batch).edge_weight.numpy()
    shares = []
    for graph in range(len(store)):
        edges = slice(int(batch.edge_ptr[graph]), int(batch.edge_ptr[graph + 1]))
        highest = np.argsort(-stored[edges], kind="stable")[:5]
        shares.append(batch.edge_truth.numpy()[edges][highest].sum() / 5)
    assert measured["precision_at_5"] == pytest.approx(np.mean(shares), abs=0.01)


def test_only_annotated_graphs_count_for_the_explanation(data: Dataset) -> None:
    rng = np.random.default_rng(0)
    store = data.test
    scores = rng.random(store.num_edges)
    used = np.zeros(len(data.store), dtype=bool)
    used[data.splits["test"][[0, 3]]] = True
    marked = GraphStore({**data.store.arrays, "graph.annotated": used}, data.store.meta)
    view = marked.select(data.splits["test"])
    ends = np.cumsum(store.edge_counts)
    kept = np.concatenate([np.arange(ends[i] - store.edge_counts[i], ends[i]) for i in (0, 3)])
    expected = explanation_metrics(store.select([0, 3]), scores[kept])
    assert explanation_metrics(view, scores) == expected
    assert explanation_metrics(store, scores) != expected


def test_undefined_metrics_are_none(data: Dataset) -> None:
    store = data.test
    scores = np.random.default_rng(0).random(store.num_edges)
    no_truth = {k: v for k, v in store.arrays.items() if k != "edge_truth"}
    for arrays in (no_truth, {**store.arrays, "edge_truth": store.arrays["edge_truth"] * 0}):
        view = GraphStore(arrays, {}, store.index)
        names = ("explanation_auc", "mean_graph_auc", "precision_at_5")
        assert explanation_metrics(view, scores) == dict.fromkeys(names)


def test_a_split_that_can_not_be_evaluated_is_an_error(data: Dataset, model: gsat.GSAT) -> None:
    bare = {k: v for k, v in data.store.arrays.items() if k != "y"}
    nan = {**data.store.arrays, "x": np.full_like(data.store.arrays["x"], np.nan)}
    wrong = {
        "has no graphs": data.test.select([]),
        "no labels 'y'": GraphStore(bare, {}),
        "NaN": GraphStore(nan, {}),
    }
    for message, store in wrong.items():
        with pytest.raises(DataError, match=message):
            evaluate(model, store)


def test_an_empty_split_is_refused_before_training(data: Dataset, model: gsat.GSAT) -> None:
    nothing = np.zeros(0, dtype=np.int64)
    empty = dataclasses.replace(data, splits={**data.splits, "valid": nothing})
    with pytest.raises(DataError, match="'valid' has no graphs"):
        gsat.fit(model, empty, epochs=1)


def test_atoms_are_measured_where_their_signs_are_known() -> None:
    store = GraphStore.from_arrays(
        node_ptr=[0, 3, 5, 8],
        edge_ptr=[0, 4, 6, 10],
        edge_index=[[0, 1, 1, 2, 0, 1, 0, 1, 1, 2], [1, 0, 2, 1, 1, 0, 1, 0, 2, 1]],
        y=np.zeros((3, 1), np.float32),
        graph_fields={"annotated": [True, False, True]},
    )
    sign = np.array([1, 0, 0, 0, 0, -1, 0, 1], dtype=np.float32)
    store = GraphStore({**store.arrays, "node_sign": sign}, {})
    scores = np.array([0.9, 0.5, 0.1, 1.0, 1.0, 0.2, 0.9, 0.8])
    expected = [roc_auc_score([1, 0, 0], scores[:3]), roc_auc_score([1, 0, 1], scores[5:])]
    assert atom_metrics(store, scores) == {
        "atom_auc": pytest.approx(np.mean(expected)),
        "atom_top_n": pytest.approx((1 + 0.5) / 2),
    }
    # A view in another order, with its scores in that order.
    assert atom_metrics(store.select([2, 0]), np.concatenate([scores[5:], scores[:3]])) == (
        atom_metrics(store, scores)
    )
    signed = np.array([0.9, 0.5, 0.1, 1.0, 1.0, -0.2, 0.9, 0.8])
    found = signed_atom_metrics(store, signed)
    positive = [roc_auc_score([1, 0, 0], signed[:3]), roc_auc_score([0, 0, 1], signed[5:])]
    assert found["positive_auc"] == pytest.approx(np.mean(positive))
    assert found["negative_auc"] == found["negative_top_n"] == 1.0  # of the last graph alone
    assert found["positive_top_n"] == pytest.approx(0.5)
    batch = store.batch()
    edges = torch.arange(10.0)
    mean = mean_at_nodes(edges, batch)
    for node in range(8):
        at = (batch.src == node) | (batch.dst == node)
        assert float(mean[node]) == pytest.approx(float(edges[at].mean()))


@pytest.mark.parametrize("attention", ["node", "edge"])
def test_atom_metrics_stand_beside_the_others(attention: str) -> None:
    pytest.importorskip("rdkit")
    store = featurise(["CCO", "CCN", "c1ccccc1N", "CCC"])
    sign = (store.arrays["x"][:, 0] == 7).astype(np.float32)
    y = np.array([[0.0], [1], [1], [0]], np.float32)
    store = GraphStore({**store.arrays, "node_sign": sign, "y": y}, store.meta)
    task = Task("binary")
    model = gsat.GSAT(
        gsat.GIN(10, task, edge_features=8, categories=store.meta["categories"], hidden=8),
        attention=attention,
    )
    measured = evaluate(model, store)
    explained = model.explain(store)
    if attention == "node":
        scores = np.concatenate([e.node_mask[:, 0] for e in explained])
        assert measured["atom_auc"] == pytest.approx(atom_metrics(store, scores)["atom_auc"])
    assert 0 <= measured["atom_auc"] <= 1
    assert 0 <= measured["atom_top_n"] <= 1
    assert measured["explanation_auc"] is None
