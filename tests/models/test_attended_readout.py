"""The setting ``readout="attended"``: node features reach a prediction only through attention."""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch_geometric
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import global_add_pool
from torch_geometric.nn import global_mean_pool as averaged
from torch_geometric.utils import scatter

import gsat
from gsat.core.errors import GSATError
from gsat.graphs import GraphBatch, from_pyg
from gsat.models import BACKBONES
from gsat.models.wrapping.wrap import Wrapped
from gsat.ops import Draws
from gsat.tasks import Task
from reference import random_graph

TASK = Task("multiclass", 3)
FEATURES, HIDDEN, CATEGORIES = 4, 8, 5
TABLE = {"sum": pyg.global_add_pool, "max": pyg.global_max_pool}


def connected(seed: int = 0, count: int = 4) -> list[Data]:
    """Random graphs in which every node has an edge."""
    rng, graphs = np.random.default_rng(seed), []
    while len(graphs) < count:
        graph = random_graph(rng, 6, 8, features=FEATURES)
        if len(graph.edge_index.unique()) == 6:
            graphs.append(graph)
    return graphs


def with_categories(graphs: list[Data]) -> list[Data]:
    """The same graphs with categories as node features, [N, 2]."""
    rng = np.random.default_rng(1)
    for graph in graphs:
        graph.x = torch.from_numpy(rng.integers(0, CATEGORIES, (graph.num_nodes, 2)))
    return graphs


# -- networks ----------------------------------------------------------------------------------


class Network(nn.Module):
    """A message-passing layer and a head; how nodes are pooled is left to subclasses."""

    def __init__(self, conv: nn.Module | None = None, width: int = HIDDEN) -> None:
        super().__init__()
        self.conv = conv or pyg.GraphConv(FEATURES, HIDDEN)
        self.head = nn.Linear(width, 3)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return self.head(self.pool(torch.relu(self.conv(x, edge_index)), batch))

    def pool(self, h: Tensor, batch: Tensor) -> Tensor:
        raise NotImplementedError


class GCNMean(Network):
    def __init__(self) -> None:
        super().__init__(pyg.GCN(FEATURES, HIDDEN, num_layers=2))

    def pool(self, h: Tensor, batch: Tensor) -> Tensor:
        return averaged(h, batch)


class GINAdd(Network):
    def __init__(self) -> None:
        super().__init__(pyg.GINConv(nn.Linear(FEATURES, HIDDEN)))

    def pool(self, h: Tensor, batch: Tensor) -> Tensor:
        return global_add_pool(h, batch=batch)


class SAGEMax(Network):
    def __init__(self) -> None:
        super().__init__(pyg.SAGEConv(FEATURES, HIDDEN))

    def pool(self, h: Tensor, batch: Tensor) -> Tensor:
        return torch_geometric.nn.global_max_pool(h, batch)


class GATAggregation(Network):
    def __init__(self, aggregation: pyg.Aggregation, width: int = HIDDEN) -> None:
        super().__init__(pyg.GATConv(FEATURES, HIDDEN), width)
        self.aggregation = aggregation

    def pool(self, h: Tensor, batch: Tensor) -> Tensor:
        return self.aggregation(h, batch)


class Attribute(Network):
    """Keeps its pooling function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def pool(self, h: Tensor, batch: Tensor) -> Tensor:
        return self.function(h, batch)


class Static(Network):
    read = staticmethod(pyg.global_add_pool)

    def pool(self, h: Tensor, batch: Tensor) -> Tensor:
        return self.both([h, h * 2], batch)

    @staticmethod
    def both(values: list[Tensor], batch: Tensor) -> Tensor:
        return sum(pyg.global_mean_pool(value, batch) for value in values)


class Table(Network):
    def pool(self, h: Tensor, batch: Tensor) -> Tensor:
        return pooled_by_name("sum", h, batch) - pooled_by_name("max", h, batch)


def pooled_by_name(name: str, h: Tensor, batch: Tensor) -> Tensor:
    return TABLE[name](h, batch)


def closed_over() -> Network:
    from torch_geometric.nn import global_add_pool as hidden

    class Closed(Network):
        def pool(self, h: Tensor, batch: Tensor) -> Tensor:
            return hidden(h, batch)

        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
            return super().forward(x, edge_index, batch)

    return Closed()


def sequential() -> nn.Module:
    conv = (pyg.GraphConv(FEATURES, HIDDEN), "x, edge_index -> x")
    pool = (pyg.global_add_pool, "x, batch -> x")
    return pyg.Sequential("x, edge_index, batch", [conv, pool, nn.Linear(HIDDEN, 3)])


class ByHand(Network):
    def pool(self, h: Tensor, batch: Tensor) -> Tensor:
        return scatter(h, batch, reduce="sum")


class LateImport(Network):
    def pool(self, h: Tensor, batch: Tensor) -> Tensor:
        from torch_geometric.nn import global_add_pool

        return global_add_pool(h, batch)


class Skip(GINAdd):
    """One of its two ways to the logits is not a pooling call; at first it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.skip = nn.Linear(FEATURES, 3)
        nn.init.zeros_(self.skip.weight)
        nn.init.zeros_(self.skip.bias)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return super().forward(x, edge_index, batch) + scatter(self.skip(x), batch, reduce="sum")


class Embedded(Network):
    """Looks up categories; pools by hand."""

    def __init__(self, width: int = HIDDEN) -> None:
        super().__init__(pyg.GraphConv(width, HIDDEN))
        self.first = nn.Embedding(CATEGORIES, HIDDEN)
        self.second = nn.Embedding(CATEGORIES, HIDDEN)

    def look_up(self, x: Tensor) -> Tensor:
        return self.first(x[:, 0]) + self.second(x[:, 1])

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        h = torch.relu(self.conv(self.look_up(x), edge_index))
        return self.head(scatter(h, batch, reduce="sum"))


class HalfEmbedded(Embedded):
    """Reads one category as a number, so that neither gate reaches all features."""

    def look_up(self, x: Tensor) -> Tensor:
        return self.first(x[:, 0]) + x[:, 1:]


POOLED: dict[str, Callable[[], nn.Module]] = {
    "GCN, mean": GCNMean,
    "GIN, sum": GINAdd,
    "SAGE, max": SAGEMax,
    "GAT, SumAggregation": lambda: GATAggregation(pyg.SumAggregation()),
    "GAT, MeanAggregation": lambda: GATAggregation(pyg.MeanAggregation()),
    "GAT, attention": lambda: GATAggregation(pyg.AttentionalAggregation(nn.Linear(HIDDEN, 1))),
    "GAT, several": lambda: GATAggregation(pyg.MultiAggregation(["sum", "max"]), 2 * HIDDEN),
    "attribute": lambda: Attribute(pyg.global_add_pool),
    "partial": lambda: Attribute(functools.partial(pyg.global_add_pool, size=None)),
    "lambda": lambda: Attribute(lambda h, batch: pyg.global_add_pool(h, batch)),
    "staticmethod": Static,
    "table": Table,
    "closure": closed_over,
    "Sequential": sequential,
}
OTHERS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "by hand": (ByHand, "features"),
    "late import": (LateImport, "features"),
    "skip": (Skip, "features"),
    "embedding": (Embedded, "embeddings"),
}
NETWORKS = {**{name: (make, "pooling") for name, make in POOLED.items()}, **OTHERS}


def wrapped(make: Callable[[], nn.Module]) -> Wrapped:
    torch.manual_seed(0)
    module = make()
    graphs = connected()
    return gsat.wrap(
        module, TASK, example=with_categories(graphs) if isinstance(module, Embedded) else graphs
    )


def backbone(name: str) -> gsat.models.Backbone:
    if name in BACKBONES:
        return BACKBONES[name](FEATURES, TASK, hidden=HIDDEN, layers=2, seed=1)
    if name == "node embeddings":
        return wrapped(lambda: pyg.GCN(FEATURES, HIDDEN, num_layers=2))
    return wrapped(NETWORKS[name][0])


def graphs_for(name: str, seed: int = 3) -> GraphBatch:
    graphs = connected(seed)
    return from_pyg(with_categories(graphs) if name == "embedding" else graphs).batch()


def other_features(batch: GraphBatch) -> GraphBatch:
    rng = torch.Generator().manual_seed(7)
    if batch.x.is_floating_point():
        return replace(batch, x=torch.randn(batch.x.shape, generator=rng))
    return replace(batch, x=torch.randint(0, CATEGORIES, batch.x.shape, generator=rng))


OURS = ("gin", "pna", "leconv", "dmpnn")
ALL = (*OURS, "node embeddings", *NETWORKS)


# -- the bypass is closed ----------------------------------------------------------------------


@pytest.mark.parametrize("on", ["edge", "node"])
@pytest.mark.parametrize("name", ALL)
def test_without_attention_node_features_do_not_matter(name: str, on: Any) -> None:
    batch = graphs_for(name)
    other, size = other_features(batch), batch.num_edges if on == "edge" else batch.num_nodes
    network, zeros = backbone(name), torch.zeros(size)
    bypassed = gsat.GSAT(network, on)
    assert not torch.allclose(bypassed.answer(batch, zeros), bypassed.answer(other, zeros))
    closed = gsat.GSAT(network, on, readout="attended")
    assert torch.equal(closed.answer(batch, zeros), closed.answer(other, zeros))
    some = torch.full((size,), 0.7)
    assert not torch.allclose(closed.answer(batch, some), closed.answer(other, some))
    assert not torch.allclose(closed.answer(batch, some), bypassed.answer(batch, some))


@pytest.mark.parametrize("name", ["gin", "node embeddings", "GIN, sum", "by hand"])
def test_a_node_without_edges_keeps_weight_1_under_edge_attention(name: str) -> None:
    graphs = connected(3)
    graphs[0].x = torch.cat([graphs[0].x, torch.ones(1, FEATURES)])
    batch = from_pyg(graphs).batch()
    changed = replace(batch, x=batch.x.clone())
    isolated = 6
    changed.x[isolated] += 1
    model = gsat.GSAT(backbone(name), "edge", readout="attended")
    zeros = torch.zeros(batch.num_edges)
    before, after = model.answer(batch, zeros), model.answer(changed, zeros)
    assert not torch.allclose(before[0], after[0])
    assert torch.equal(before[1:], after[1:])
    on_nodes = gsat.GSAT(backbone(name), "node", readout="attended")
    none = torch.zeros(batch.num_nodes)
    assert torch.equal(on_nodes.answer(batch, none), on_nodes.answer(changed, none))


@pytest.mark.parametrize("name", ALL)
def test_weights_of_1_change_nothing(name: str) -> None:
    batch, network = graphs_for(name), backbone(name)
    attention = torch.rand(batch.num_edges, generator=torch.Generator().manual_seed(0))
    ones = torch.ones(batch.num_nodes)
    assert torch.equal(network(batch, attention, node_weight=ones), network(batch, attention))
    sampled = [network(batch, attention, Draws(0), node_weight=w) for w in (ones, None)]
    assert torch.equal(*sampled)


@pytest.mark.parametrize("name", ["node embeddings", *POOLED])
def test_a_weight_scales_the_pooled_nodes(name: str) -> None:
    batch, network = graphs_for(name), backbone(name)
    none, half, full = (
        network(batch, node_weight=torch.full((batch.num_nodes,), w)) for w in (0.0, 0.5, 1.0)
    )
    assert not torch.allclose(half, full)
    if name != "GAT, attention":  # its softmax reads the weighted embeddings, too
        torch.testing.assert_close(half, (full + none) / 2)


def test_pooling_of_single_nodes_is_weighted() -> None:
    """The oracle: the same network written with explicit weights."""
    for make, reduce in ((GCNMean, "mean"), (GINAdd, "sum"), (SAGEMax, "max")):
        network, listed = wrapped(make), connected(5)
        batch, both = from_pyg(listed).batch(), Batch.from_data_list(listed)
        weight = torch.rand(batch.num_nodes)
        module: Any = network.module.eval()
        h = torch.relu(module.conv(both.x, both.edge_index)) * weight[:, None]
        expected = module.head(scatter(h, both.batch, reduce=reduce))
        torch.testing.assert_close(network(batch, node_weight=weight), expected)


# -- where wrapped networks are weighted -------------------------------------------------------


@pytest.mark.parametrize("name", NETWORKS)
def test_the_gate_of_a_network(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network = wrapped(NETWORKS[name][0])
        assert network.node_gate == NETWORKS[name][1]
        assert network.node_gate == NETWORKS[name][1]


def test_the_gate_does_not_depend_on_the_weights() -> None:
    for make, gate in ((GINAdd, "pooling"), (Skip, "features"), (ByHand, "features")):
        network = wrapped(make)
        with torch.no_grad():
            for weight in network.parameters():
                weight.zero_()
        with torch.inference_mode():
            assert network.node_gate == gate


def test_a_network_without_a_gate_causes_a_warning() -> None:
    network = wrapped(HalfEmbedded)
    batch = from_pyg(with_categories(connected(3))).batch()
    model = gsat.GSAT(network, readout="attended")
    weight = torch.rand(batch.num_edges)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        actual = model.answer(batch, weight)
        model.answer(batch, weight)
    assert len(caught) == 1
    assert "HalfEmbedded" in str(caught[0].message)
    for place in ("pooling", "features", "embeddings"):
        assert place in str(caught[0].message)
    assert network.node_gate is None
    assert torch.equal(actual, gsat.GSAT(network).answer(batch, weight))


def test_looked_up_float_features_are_not_multiplied() -> None:
    class Rounded(Embedded):
        def look_up(self, x: Tensor) -> Tensor:
            return super().look_up(x.long())

    graphs = with_categories(connected())
    for graph in graphs:
        graph.x = graph.x.float()
    network = gsat.wrap(Rounded(), TASK, example=graphs)
    with pytest.warns(UserWarning, match="Rounded"):
        assert network.node_gate is None


def test_a_forward_that_stops_pooling_is_an_error() -> None:
    class Fickle(GINAdd):
        def pool(self, h: Tensor, batch: Tensor) -> Tensor:
            by_hand = self.training
            return scatter(h, batch, reduce="sum") if by_hand else super().pool(h, batch)

    class Inlined(GINAdd):
        def pool(self, h: Tensor, batch: Tensor) -> Tensor:
            by_hand = self.training
            return scatter(h, batch, reduce="sum") if by_hand else global_add_pool(h, batch)

    network, batch = wrapped(Inlined), graphs_for("")
    weight = torch.ones(batch.num_nodes)
    network.train()(batch, node_weight=weight)  # in evaluation mode without draws
    with pytest.raises(GSATError, match="Inlined"):
        network(batch, draws=Draws(0), node_weight=weight)
    # A function behind super() is out of reach.
    assert wrapped(Fickle).node_gate == "features"


def test_layers_aggregate_all_messages() -> None:
    """As many edges as nodes, all into node 0: what the layer aggregates looks like the nodes."""
    network = wrapped(GINAdd)
    star = Data(x=torch.randn(3, FEATURES), edge_index=torch.tensor([[1, 2, 0], [0, 0, 0]]))
    batch, weight = from_pyg([star]).batch(), torch.tensor([0.2, 0.5, 0.9])
    module: Any = network.module.eval()
    h = torch.relu(module.conv(star.x, star.edge_index))
    expected = module.head((h * weight[:, None]).sum(0, keepdim=True))
    torch.testing.assert_close(network(batch, node_weight=weight), expected)


def test_pooled_edges_have_no_node_weights() -> None:
    """As many edges as nodes in the batch, but not in each graph."""

    class CountsEdges(GINAdd):
        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
            ones = x.new_ones(edge_index.shape[1], 3)
            edges = global_add_pool(ones, batch[edge_index[0]], int(batch[-1]) + 1)
            return super().forward(x, edge_index, batch) + edges

    network = wrapped(CountsEdges)
    assert network.node_gate == "pooling"
    few, many = torch.tensor([[0, 1], [1, 2]]), torch.tensor([[0, 1, 2, 0], [1, 2, 0, 2]])
    batch = from_pyg([Data(x=torch.ones(3, FEATURES), edge_index=e) for e in (few, many)]).batch()
    assert batch.num_edges == batch.num_nodes
    module: Any = network.module
    actual = network(batch, node_weight=torch.zeros(batch.num_nodes))
    torch.testing.assert_close(actual, module.head.bias + torch.tensor([[2.0], [4.0]]))


def test_nothing_leaks_into_the_original() -> None:
    for name in NETWORKS:
        network, batch = wrapped(NETWORKS[name][0]), graphs_for(name)
        before = {part: dict(vars(part)) for part in network.module.modules()}
        plain = network(batch)
        network(batch, node_weight=torch.zeros(batch.num_nodes))
        assert torch.equal(network(batch), plain)
        for part, attributes in before.items():
            assert vars(part).keys() == attributes.keys()
            assert all(vars(part)[key] is value for key, value in attributes.items())
    assert pyg.global_add_pool is TABLE["sum"] is global_add_pool
    twin = copy.deepcopy(network)
    assert twin.node_gate == network.node_gate


# -- gradients ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SAGE, max", "GIN, sum", "by hand", "node embeddings"])
def test_gradients_through_the_strongest_edge(name: str) -> None:
    batch, network = graphs_for(name), backbone(name).double()
    batch = replace(batch, x=batch.x.double())
    model = gsat.GSAT(network, readout="attended").double().eval()
    attention = torch.linspace(0.2, 0.9, batch.num_edges, dtype=torch.float64)
    attention = attention[
        torch.randperm(len(attention), generator=torch.Generator().manual_seed(0))
    ]
    attention.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda a: model.answer(batch, a), (attention,), atol=1e-4, check_undefined_grad=False
    )


# -- when it does not apply --------------------------------------------------------------------


@pytest.mark.parametrize("name", [*OURS, "wrapped"])
def test_predictions_of_nodes_ignore_it(name: str) -> None:
    task = Task("multiclass", 3, level="node")
    if name == "wrapped":
        network: Any = gsat.wrap(pyg.GCN(FEATURES, HIDDEN, num_layers=2), task)
    else:
        network = BACKBONES[name](FEATURES, task, hidden=HIDDEN, layers=2)
    batch = from_pyg(connected(6)).batch()
    for on, size in (("edge", batch.num_edges), ("node", batch.num_nodes)):
        attention = torch.rand(size)
        plain, attended = (gsat.GSAT(network, on, readout=how) for how in (None, "attended"))
        assert torch.equal(plain.answer(batch, attention), attended.answer(batch, attention))


@pytest.mark.parametrize("on", ["edge", "node"])
@pytest.mark.parametrize("name", ALL)
def test_the_default_readout_is_that_of_the_paper(name: str, on: Any) -> None:
    batch, network = graphs_for(name), backbone(name)
    default, everything, attended = (
        gsat.GSAT(network, on, seed=2, readout=how) for how in (None, "all", "attended")
    )
    assert "readout" not in default.config
    for draws in (None, Draws(0)):
        actual = default(batch, draws)
        assert torch.equal(everything(batch, draws).logits, actual.logits)
        # Bit for bit the backbone with weights on its messages.
        own = draws.child("second run") if draws else None
        assert torch.equal(actual.logits, network(batch, actual.edge_weight, own))
        assert not torch.allclose(attended(batch, draws).logits, actual.logits)


# -- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "gate"), [(GINAdd, "pooling"), (Skip, "features")])
def test_a_wrapped_run_is_loaded_again(make: Any, gate: str, tmp_path: Path) -> None:
    data = gsat.load_dataset("ba2motifs", seed=0, graphs=40)

    class Fitting(make):  # type: ignore[misc]
        """The same network for the features and the task of the data."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(10, FEATURES), nn.Linear(3, 1)

        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
            return self.last(make.forward(self, self.first(x), edge_index, batch))

    def new(seed: int, readout: Any = "attended") -> gsat.GSAT:
        torch.manual_seed(seed)
        network = gsat.wrap(Fitting(), data.task, example=data.train)
        return gsat.GSAT(network, readout=readout)

    run = gsat.fit(new(0), data, epochs=3, batch_size=16, out=tmp_path / "run")
    assert isinstance(run.model.backbone, Wrapped)
    expected = run.model.predict(data.test).logits
    model = gsat.load(tmp_path / "run", model=new(1))
    assert model.backbone.node_gate == gate
    assert torch.equal(model.predict(data.test).logits, expected)
    with pytest.raises(GSATError, match="readout"):
        gsat.load(tmp_path / "run", model=new(1, None))
