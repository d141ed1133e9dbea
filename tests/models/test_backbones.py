"""The contract of a backbone: attention, dropout, seeds, configuration and inputs."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from gsat.core.errors import DataError, GSATError
from gsat.graphs import GraphStore, from_pyg
from gsat.models import BACKBONES, Backbone, seeded
from gsat.ops import Draws
from gsat.tasks import Task
from reference import random_graphs, whole

THREE = Task("multiclass", 3)
BINARY = Task("binary")
NAMES = [name for name in BACKBONES if name != "wrapped"]  # which is made of a network


def with_setting(setting: str) -> list[str]:
    """The backbones with a setting."""
    return [name for name in NAMES if setting in BACKBONES[name].Settings.model_fields]


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=[0, 1])
def edge_features(request: pytest.FixtureRequest) -> int:
    return request.param


def make(name: str, edge_features: int = 0, seed: int = 2, **settings: Any) -> Backbone:
    """A small network in evaluation mode, without dropout unless set."""
    kind = BACKBONES[name]
    no_dropout = {"dropout": 0.0} if "dropout" in kind.Settings.model_fields else {}
    settings = {"hidden": 8, "layers": 2, **no_dropout, **settings}
    return kind(4, THREE, edge_features=edge_features, seed=seed, **settings).eval()


def store_of(edge_features: int = 0, seed: int = 1) -> GraphStore:
    return from_pyg(random_graphs(seed, edge_features=edge_features))


def test_attention_of_ones_is_no_attention(name: str, edge_features: int) -> None:
    batch, network = store_of(edge_features).batch(), make(name, edge_features)
    ones = network(batch, torch.ones(batch.num_edges))
    torch.testing.assert_close(ones, network(batch), rtol=1e-4, atol=1e-4)


def test_attention_of_zeros_hides_all_other_nodes(name: str, edge_features: int) -> None:
    batch, network = store_of(edge_features).batch(), make(name, edge_features)
    x = batch.x.clone().requires_grad_()
    h = network.embed(replace(batch, x=x), torch.zeros(batch.num_edges))
    (grad,) = torch.autograd.grad(h[0].sum(), x)
    assert grad[0].abs().max() > 0
    assert not grad[1:].any()


def test_a_graph_alone_has_the_logits_of_the_batch(name: str, edge_features: int) -> None:
    store, network = store_of(edge_features), make(name, edge_features)
    together = network(store.batch())
    assert torch.equal(network(store.batch()), together)
    alone = torch.cat([network(store.batch([i])) for i in range(len(store))])
    torch.testing.assert_close(alone, together, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", with_setting("dropout"))
def test_dropout_follows_the_draws(name: str) -> None:
    batch, draws = store_of().batch(), Draws(0, "test")
    network, plain = make(name, dropout=0.4, layers=1), make(name, layers=1)
    kept = draws.child("dropout", 0).keep(batch.node_id, network.hidden, 0.4)
    expected = plain.embed(batch) * kept / 0.6
    torch.testing.assert_close(network.embed(batch, draws=draws), expected)
    assert torch.equal(plain.embed(batch, draws=draws), plain.embed(batch))


@pytest.mark.parametrize("name", with_setting("dropout"))
@pytest.mark.parametrize("share", [1.0, -0.1, float("nan")])
def test_a_dropout_out_of_range_is_refused(name: str, share: float) -> None:
    with pytest.raises(GSATError, match="dropout"):
        make(name, dropout=share)


def test_logits_are_read_out_of_embeddings(name: str) -> None:
    batch, network = store_of().batch(), make(name)
    weight = torch.rand(batch.num_edges)
    embeddings = network.embed(batch, weight)
    assert embeddings.shape == (batch.num_nodes, network.hidden)
    assert torch.equal(network.read_out(embeddings, batch), network(batch, weight))
    assert network(batch).shape == (batch.num_graphs, 3)


def test_seeds_decide_the_weights_and_nothing_else(name: str) -> None:
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first = make(name, 1, seed=1)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(6)
    again, other = make(name, 1, seed=1), make(name, 1, seed=2)
    for (key, a), b, c in zip(
        first.named_parameters(), again.parameters(), other.parameters(), strict=True
    ):
        assert torch.equal(a, b), key
        assert torch.equal(a, c) == (".norm." in key), key  # batch norm starts at 1 and 0


def test_seed_and_purpose_decide_initial_weights() -> None:
    def sampled(seed: int, *purpose: str) -> list[float]:
        with seeded(seed, *purpose):
            return torch.rand(4).tolist()

    torch.manual_seed(1)
    first = sampled(0, "gin")
    torch.manual_seed(2)
    assert sampled(0, "gin") == first
    assert sampled(1, "gin") != first
    assert sampled(0, "extractor") != first


def test_config_round_trip(name: str, edge_features: int) -> None:
    network = make(name, edge_features, layers=3)
    again = BACKBONES[name].from_config(copy.deepcopy(network.config)).eval()
    assert (again.config, again.task) == (network.config, THREE)
    again.load_state_dict(network.state_dict())
    batch = store_of(edge_features).batch()
    assert torch.equal(again(batch), network(batch))


def test_for_data(name: str, edge_features: int) -> None:
    data, kind = whole(store_of(edge_features), THREE), BACKBONES[name]
    network = kind.for_data(data, hidden=8, seed=4).eval()
    assert (network.config["in_features"], network.config["edge_features"]) == (4, edge_features)
    batch = data.store.batch()
    assert network(batch).shape == (batch.num_graphs, 3)
    if edge_features:
        unused = kind.for_data(data, hidden=8, seed=4, edge_features=False).eval()
        assert unused.config["edge_features"] == 0
        plain = from_pyg([Data(x=g.x, edge_index=g.edge_index) for g in data.store]).batch()
        torch.testing.assert_close(unused(batch), unused(plain), rtol=0, atol=1e-5)


def test_for_data_without_features(name: str) -> None:
    graphs = random_graphs(7)
    store = from_pyg([Data(edge_index=g.edge_index, num_nodes=g.num_nodes) for g in graphs])
    network = BACKBONES[name].for_data(whole(store, THREE), hidden=8)
    assert network.config["in_features"] == 1
    assert network(store.batch()).isfinite().all()


@pytest.mark.parametrize("name", with_setting("edge_features"))
def test_missing_edge_features_are_an_error_unless_there_are_no_edges(name: str) -> None:
    with pytest.raises(DataError, match="edge feature"):
        make(name, 1)(store_of().batch())
    empty = from_pyg([Data(x=torch.ones(2, 4), edge_index=torch.zeros(2, 0, dtype=torch.long))])
    assert make(name, 1)(empty.batch()).isfinite().all()


@pytest.mark.parametrize(
    ("name", "features", "edge_features", "task", "count"),
    [
        ("gin", 10, 0, BINARY, 17_665),
        ("gin", 14, 0, BINARY, 17_921),
        ("gin", 4, 1, THREE, 25_859),
        ("gin", 5, 1, Task("multiclass", 10), 26_378),
        ("gin", 768, 1, BINARY, 74_625),
        ("pna", 10, 0, BINARY, 261_921),
        ("pna", 4, 1, THREE, 389_643),
        ("pna", 5, 1, Task("multiclass", 10), 389_870),
        # 4·32 + 32; per layer W₁, b₁, W₂, W₃, b₃; a head of 32 → 64 → 3; no norms.
        ("leconv", 4, 1, THREE, 160 + 2 * (3 * 32 * 32 + 2 * 32) + 32 * 64 + 64 + 64 * 3 + 3),
    ],
)
def test_default_networks_have_the_published_number_of_parameters(
    name: str, features: int, edge_features: int, task: Task, count: int
) -> None:
    network = BACKBONES[name](features, task, edge_features=edge_features)
    assert sum(p.numel() for p in network.parameters()) == count
    assert network.config["dropout"] == (0.0 if name == "leconv" else 0.3)
