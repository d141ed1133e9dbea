"""Predictions and explanations of user graphs by any interpretable model."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import DataLoader

import gsat
from gsat.core.errors import DataError
from gsat.explanation import Explanation
from gsat.graphs import from_pyg
from gsat.gsat import GSAT
from gsat.models import GIN
from gsat.ops import Draws
from gsat.tasks import Task
from reference import random_graph, random_graphs

THREE = Task("multiclass", 3)
TASKS = [Task("binary"), THREE, Task("multilabel", 4, "roc_auc")]


def make(on: str = "edge", edge_features: int = 0, task: Task = THREE) -> GSAT:
    """A model that has seen a few batches, left in training mode."""
    model = GSAT(GIN(4, task, edge_features=edge_features, hidden=16, seed=2), on, seed=3)
    batch = from_pyg(random_graphs(1, edge_features=edge_features)).batch()
    with torch.no_grad():
        for step in range(5):
            model(batch, Draws(step))
    return model


# -- predictions -------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_predictions_and_explanations_say_the_same(task: Task) -> None:
    store, model = from_pyg(random_graphs(2)), make(task=task)
    actual = model.predict(store)
    logits = model.eval()(store.batch()).logits
    torch.testing.assert_close(actual.logits, logits.detach())
    assert torch.equal(actual.probabilities, task.probabilities(actual.logits))
    assert torch.equal(actual.labels, task.decide(actual.logits))
    assert not actual.logits.requires_grad
    for number, explained in enumerate(model.explain(store)):
        torch.testing.assert_close(explained.logits, actual.logits[number])
        torch.testing.assert_close(explained.probabilities, actual.probabilities[number])
        assert torch.equal(explained.prediction, actual.labels[number])


def test_any_kind_of_input_in_batches_of_any_size() -> None:
    graphs, model = random_graphs(3), make()
    whole = model.predict(from_pyg(graphs)).logits
    listed, iterated = model.predict(graphs).logits, model.predict(iter(graphs)).logits
    in_threes = model.predict(graphs, batch_size=3).logits
    for actual in (listed, iterated, in_threes):
        torch.testing.assert_close(actual, whole, rtol=0, atol=1e-5)
    alone = model.predict(graphs[0])
    assert alone.logits.shape == (1, 3)
    torch.testing.assert_close(alone.logits, whole[:1], rtol=0, atol=1e-5)


def test_pyg_batches_are_split_into_graphs() -> None:
    graphs, model = random_graphs(3), make()
    whole, both = model.predict(graphs).logits, Batch.from_data_list(graphs)
    for given in (both, [both], DataLoader(graphs, batch_size=4), [graphs[0], *_batches(graphs)]):
        torch.testing.assert_close(model.predict(given).logits, whole, rtol=0, atol=1e-5)
    one_by_one, explained = model.explain(graphs), model.explain(both)
    assert len(explained) == len(graphs)
    for actual, expected in zip(explained, one_by_one, strict=True):
        torch.testing.assert_close(actual.edge_mask, expected.edge_mask, rtol=0, atol=1e-5)
        assert torch.equal(actual.edge_index, expected.edge_index)
    by_hand = Batch(x=both.x, edge_index=both.edge_index, batch=both.batch)
    with pytest.raises(DataError, match="can't be split into its graphs"):
        model.predict(by_hand)
    both.edge_weight = torch.ones(both.num_edges)
    with pytest.raises(DataError, match="'edge_weight' was set on a batch"):
        model.predict(both)


def _batches(graphs: list[Data]) -> list[Data]:
    return [Batch.from_data_list(graphs[1:3]), Batch.from_data_list(graphs[3:])]


def test_some_graphs_may_have_a_ground_truth() -> None:
    graphs, model = random_graphs(3), make()
    graphs[1].edge_truth = torch.ones(graphs[1].num_edges)
    assert len(model.predict(graphs).logits) == len(graphs)
    explained = model.explain(graphs)
    assert [e.get("edge_truth") is not None for e in explained[:3]] == [False, True, False]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("edge_features", [0, 1])
def test_empty_inputs_are_predicted_and_explained(task: Task, edge_features: int) -> None:
    model = make(edge_features=edge_features, task=task)
    for nothing in ([], from_pyg(random_graphs(3, edge_features=edge_features)).select([])):
        actual = model.predict(nothing)
        assert actual.logits.shape == (0, task.num_logits)
        assert len(actual.probabilities) == len(actual.labels) == 0
        assert model.explain(nothing) == []


# -- explanations ------------------------------------------------------------------------------


@pytest.mark.parametrize("on", ["edge", "node"])
@pytest.mark.parametrize("edge_features", [0, 1, 3])
@pytest.mark.parametrize("directed", [False, True])
def test_the_edge_mask_has_the_edge_order_of_the_input(
    on: str, edge_features: int, directed: bool
) -> None:
    rng = np.random.default_rng(4)
    model = make(on, edge_features)
    for _ in range(5):
        kind = {"edge_features": edge_features, "directed": directed}
        graph = random_graph(rng, 9, 14, **kind)
        order = torch.from_numpy(rng.permutation(graph.edge_index.shape[1]))
        permuted = Data(x=graph.x, edge_index=graph.edge_index[:, order])
        if edge_features:
            permuted.edge_attr = graph.edge_attr[order]
        actual, moved = model.explain(graph), model.explain(permuted)
        assert torch.equal(actual.edge_index, graph.edge_index)
        assert torch.equal(moved.edge_index, permuted.edge_index)
        steps = actual.edge_mask.unique().diff()
        assert (steps > 1e-4).sum() > 5
        torch.testing.assert_close(moved.edge_mask, actual.edge_mask[order], rtol=0, atol=1e-6)
        torch.testing.assert_close(moved.logits, actual.logits, rtol=0, atol=1e-5)


@pytest.mark.parametrize("on", ["edge", "node"])
@pytest.mark.parametrize("task", TASKS)
def test_a_graph_in_a_list_is_explained_as_alone(on: str, task: Task) -> None:
    graphs, model = random_graphs(6), make(on, task=task)
    for batch_size in (256, 4):
        for graph, actual in zip(graphs, model.explain(graphs, batch_size), strict=True):
            alone = model.explain(graph)
            assert isinstance(actual, Explanation)
            assert torch.equal(actual.edge_index, graph.edge_index)
            assert torch.equal(actual.x, graph.x)
            assert actual.num_nodes == graph.num_nodes
            for name in ("edge_mask", "logits", "probabilities", "node_mask"):
                assert (actual.get(name) is None) == (name == "node_mask" and on == "edge")
                if actual.get(name) is not None:
                    torch.testing.assert_close(actual[name], alone[name], rtol=0, atol=1e-5)
            assert torch.equal(actual.prediction, alone.prediction)
            assert actual.undirected == alone.undirected


@pytest.mark.parametrize("on", ["edge", "node"])
def test_explanations_pass_pygs_validation(on: str) -> None:
    for actual in make(on).explain(random_graphs(8)):
        assert actual.validate(raise_on_error=True)


def test_node_attention_gives_a_node_mask() -> None:
    graph, model = random_graphs(9, 1, awkward=False)[0], make("node")
    actual = model.explain(graph)
    assert actual.node_mask.shape == (graph.num_nodes, 1)
    p = model.eval()(from_pyg([graph]).batch()).probability
    torch.testing.assert_close(actual.node_mask[:, 0], p.detach())
    source, target = graph.edge_index
    expected = actual.node_mask[source, 0] * actual.node_mask[target, 0]
    torch.testing.assert_close(actual.edge_mask, expected)


def test_explanations_contain_direction_and_r() -> None:
    model = make()
    directed, undirected = (
        random_graphs(2, 1, awkward=False, directed=d)[0] for d in (True, False)
    )
    assert not model.explain(directed).undirected
    assert model.explain(undirected).undirected
    assert model.explain(directed).get("r") is None
    model.r = 0.7
    assert model.explain(directed).r == 0.7


def test_explanations_keep_labels_and_ground_truth() -> None:
    graphs = random_graphs(3)
    for number, graph in enumerate(graphs):
        graph.y = torch.tensor([number % 3])
        graph.edge_truth = torch.arange(graph.edge_index.shape[1]) % 2
    store = from_pyg(graphs).select([4, 0])
    for place, actual in zip((4, 0), make().explain(store), strict=True):
        assert actual.y.tolist() == [place % 3]
        assert torch.equal(actual.edge_truth, graphs[place].edge_truth)
        assert torch.equal(actual.edge_index, graphs[place].edge_index)


@pytest.mark.parametrize("on", ["edge", "node"])
def test_scores_of_many_graphs_are_those_of_their_explanations(on: str) -> None:
    graphs, model = random_graphs(4), make(on)
    logits, scores = model.score_edges(from_pyg(graphs), batch_size=5)
    explained = model.explain(graphs)
    expected = torch.cat([e.edge_mask for e in explained])
    torch.testing.assert_close(scores, expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(logits, torch.stack([e.logits for e in explained]))


# -- the model stays as it was -----------------------------------------------------------------


@pytest.mark.parametrize("training", [True, False])
def test_a_model_is_left_as_it_was(training: bool) -> None:
    model, graphs = make().train(training), random_graphs(5)
    before = copy.deepcopy(model.state_dict())
    given = [graph.clone() for graph in graphs]
    model.predict(graphs)
    model.explain(graphs)
    model.score_edges(from_pyg(graphs))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert {module.training for module in model.modules()} == {training}
    assert all(p.grad is None for p in model.parameters())
    for graph, copied in zip(graphs, given, strict=True):
        assert graph.keys() == copied.keys()
        assert torch.equal(graph.edge_index, copied.edge_index)


def test_a_frozen_part_stays_frozen() -> None:
    model = make().train()
    model.backbone.eval()
    model.predict(random_graphs(5))
    assert model.training
    assert model.extractor.training
    assert not any(module.training for module in model.backbone.modules())


def test_a_part_left_in_training_mode_is_evaluated_too() -> None:
    model, graphs = make().eval(), random_graphs(5)
    expected = model.predict(graphs).logits
    model.backbone.train()
    before = copy.deepcopy(model.state_dict())
    torch.testing.assert_close(model.predict(graphs).logits, expected, rtol=0, atol=1e-5)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert model.backbone.training


def test_the_mode_comes_back_after_an_error() -> None:
    model = make().train()
    with pytest.raises(DataError):
        model.predict(random_graphs(5, features=3))
    assert all(module.training for module in model.modules())


# -- mistakes ----------------------------------------------------------------------------------


def test_other_features_are_an_error() -> None:
    with pytest.raises(DataError, match="4 node features, these have 3"):
        make().predict(random_graphs(0, features=3))
    with pytest.raises(DataError, match="3 edge features, these have 1"):
        make(edge_features=3).explain(random_graphs(0, edge_features=1))
    with pytest.raises(DataError, match="1 edge features, these have 0"):
        make(edge_features=1).predict(random_graphs(0)[0])
    bare = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    with pytest.raises(DataError, match="4 node features, these have 1"):
        make().predict(bare)


def test_a_graph_without_edges_needs_no_edge_features() -> None:
    with_edges = random_graph(np.random.default_rng(0), 4, 3, edge_features=1)
    without = Data(x=torch.ones(3, 4), edge_index=torch.zeros(2, 0, dtype=torch.long))
    model = make(edge_features=1)
    expected = model.predict([with_edges, without]).logits[1]
    torch.testing.assert_close(model.predict(without).logits[0], expected, rtol=0, atol=1e-5)


def test_other_objects_in_a_list_are_an_error() -> None:
    with pytest.raises(DataError, match="graph 1 is a str, not a PyG Data"):
        make().predict([random_graphs(0)[0], "CCO"])


def test_inputs_without_graphs_are_an_error() -> None:
    hetero = HeteroData()
    data = gsat.load_dataset("ba2motifs", graphs=20)
    for wrong, output in (
        (data, "not a Dataset"),
        (3, "not a int"),
        ("CCO", "not a str"),
        ({"x": 1}, "not a dict"),
        (list, "not a type"),
        (hetero, "HeteroData"),
        ([hetero], "HeteroData"),
    ):
        with pytest.raises(DataError, match=output):
            make().predict(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("on", ["edge", "node"])
def test_graphs_without_edges_print_nothing(on: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Some libraries complain about products without rows, on the file descriptor of stdout."""
    no_edges = torch.zeros(2, 0, dtype=torch.long)
    model = gsat.GSAT(gsat.GIN(4, gsat.Task("binary"), hidden=16), on).eval()
    model.predict([Data(x=torch.ones(n, 4), edge_index=no_edges) for n in (1, 3)])
    model.predict(Data(x=torch.ones(0, 4), edge_index=no_edges))
    model.explain(Data(x=torch.ones(1, 4), edge_index=no_edges))
    assert capfd.readouterr() == ("", "")


def test_a_nan_is_an_error_that_names_the_graph() -> None:
    graphs = random_graphs(0, awkward=False)
    graphs[3].x[0, 0] = torch.nan
    for use in (make().predict, make().explain):
        with pytest.raises(DataError, match="answer for graph 3 is not a number"):
            use(graphs)
