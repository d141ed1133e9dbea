"""Attention weights on the messages of PyG networks."""

from __future__ import annotations

import copy
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks
from torch_geometric.utils import softmax

from gsat.core.errors import GSATError
from gsat.graphs import GraphBatch, from_pyg
from gsat.models.wrapping.wrap import Wrapped, wrap
from gsat.tasks import Task
from reference import random_graph, random_graphs

TASK = Task("multiclass", 3)
FEATURES, EDGE_FEATURES, HIDDEN = 4, 3, 8
DEGREES = torch.tensor([2, 5, 6, 3, 1])


class Stack(nn.Module):
    """Three layers with edge attributes, batch norm and ReLU between them."""

    def __init__(self, first: nn.Module, *more: nn.Module) -> None:
        super().__init__()
        self.convs = nn.ModuleList([first, *more])
        self.norm = nn.BatchNorm1d(HIDDEN)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None) -> Tensor:
        for conv in self.convs[:-1]:
            x = torch.relu(self.norm(conv(x, edge_index, edge_attr)))
        return self.convs[-1](x, edge_index, edge_attr)


class TwoKinds(nn.Module):
    """A layer that takes edge weights and one that does not, to the logits of graphs."""

    def __init__(self, task: Task = TASK, dropout: float = 0.0) -> None:
        super().__init__()
        self.first = pyg.GCNConv(FEATURES, HIDDEN)
        self.second = pyg.SAGEConv(HIDDEN, HIDDEN)
        self.drop = nn.Dropout(dropout)
        self.head = nn.Linear(HIDDEN, task.num_logits)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        x = self.drop(torch.relu(self.first(x, edge_index)))
        x = torch.relu(self.second(x, edge_index))
        return self.head(pyg.global_add_pool(x, batch))


def gine() -> nn.Module:
    def layer(width: int) -> nn.Module:
        return pyg.GINEConv(nn.Linear(width, HIDDEN), edge_dim=EDGE_FEATURES)

    return Stack(layer(FEATURES), layer(HIDDEN), layer(HIDDEN))


def transformer() -> nn.Module:
    def layer(width: int) -> nn.Module:
        return pyg.TransformerConv(width, HIDDEN // 2, heads=2, edge_dim=EDGE_FEATURES)

    return Stack(layer(FEATURES), layer(HIDDEN), layer(HIDDEN))


def ready_made(kind: Any, **settings: Any) -> Callable[[], nn.Module]:
    return lambda: kind(FEATURES, HIDDEN, num_layers=3, dropout=0.4, **settings)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "GCN": ready_made(pyg.GCN, norm="batch_norm"),
    "GCN without self-loops": ready_made(pyg.GCN, add_self_loops=False),
    "GraphSAGE": ready_made(pyg.GraphSAGE),
    "GraphSAGE with max": ready_made(pyg.GraphSAGE, aggr="max"),
    "GIN": ready_made(pyg.GIN, norm="batch_norm", jk="cat"),
    "GAT": ready_made(pyg.GAT, heads=2),
    "GATv2": ready_made(pyg.GAT, v2=True),
    "GAT with edge attributes": ready_made(pyg.GAT, edge_dim=EDGE_FEATURES),
    "PNA": ready_made(
        pyg.PNA, aggregators=["mean", "max", "std"], scalers=["identity", "amplification"],
        deg=DEGREES,
    ),
    "EdgeCNN": ready_made(pyg.EdgeCNN),
    "TransformerConv": transformer,
    "GINE": gine,
    "two kinds": TwoKinds,
}  # fmt: skip


def make(name: str) -> nn.Module:
    torch.manual_seed(3)
    return NETWORKS[name]().eval()


def wrapped(name: str) -> Wrapped:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # none of these lets nodes know of each other unweighed
        return wrap(make(name), TASK, example=graphs())


def graphs(seed: int = 0, loops: str = "none") -> list[Data]:
    """Random graphs with edge attributes; ``loops`` on ``none``, ``some`` or ``all`` nodes, put at
    random places between the other edges."""
    rng, out = np.random.default_rng(seed), []
    for graph in random_graphs(seed, 4, awkward=False, edge_features=EDGE_FEATURES):
        count = {"none": 0, "some": 2, "all": int(graph.num_nodes or 0)}[loops]
        loop = torch.arange(count).repeat(2, 1)
        graph.edge_index = torch.cat([graph.edge_index, loop], dim=1)
        more = torch.randn(count, EDGE_FEATURES)
        graph.edge_attr = torch.cat([graph.edge_attr, more])
        order = torch.from_numpy(rng.permutation(graph.edge_index.shape[1]))
        graph.edge_index, graph.edge_attr = graph.edge_index[:, order], graph.edge_attr[order]
        out.append(graph)
    return out


def without_attributes(seed: int) -> list[Data]:
    return [Data(x=graph.x, edge_index=graph.edge_index) for graph in graphs(seed)]


def plain(module: nn.Module, listed: list[Data]) -> Tensor:
    """The output of the network itself, without a wrapper."""
    both: Any = Batch.from_data_list(listed)
    if isinstance(module, TwoKinds):
        return module(both.x, both.edge_index, both.batch)
    if isinstance(module, pyg.GAT | Stack) and getattr(module.convs[0], "edge_dim", 1):
        return module(both.x, both.edge_index, edge_attr=both.edge_attr)
    return module(both.x, both.edge_index)


def output(backbone: Wrapped, batch: GraphBatch, attention: Tensor | None) -> Tensor:
    return (backbone if backbone.gives == "graphs" else backbone.embed)(batch, attention)


# -- ones, zeros and deletion ---------------------------------------------------------------------


@pytest.mark.parametrize("loops", ["none", "some", "all"])
@pytest.mark.parametrize("name", NETWORKS)
def test_attention_of_one_changes_nothing(name: str, loops: str) -> None:
    backbone, listed = wrapped(name), graphs(1, loops)
    batch = from_pyg(listed).batch()
    expected = plain(make(name), listed)
    for attention in (None, torch.ones(batch.num_edges)):
        actual = output(backbone, batch, attention)
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("loops", ["none", "some", "all"])
@pytest.mark.parametrize("name", NETWORKS)
def test_attention_of_zero_hides_all_other_nodes(name: str, loops: str) -> None:
    backbone, batch = wrapped(name), from_pyg(graphs(2, loops)).batch()
    batch.x.requires_grad_()
    zeros = torch.zeros(batch.num_edges)
    actual = backbone.embed(batch, zeros)
    reached = batch.dst[batch.src != batch.dst].unique().tolist()
    for node in (reached[0], reached[-1]):
        (slope,) = torch.autograd.grad(actual[node].sum(), batch.x, retain_graph=True)
        slope[node] = 0
        assert slope.eq(0).all()
    seen = backbone.embed(batch)
    (slope,) = torch.autograd.grad(seen[reached[0]].sum(), batch.x)
    slope[reached[0]] = 0
    assert slope.ne(0).any()


@pytest.mark.parametrize("loops", ["none", "some", "all"])
@pytest.mark.parametrize("name", ["GCN", "GCN without self-loops", "GIN", "GAT", "GATv2",
                                  "TransformerConv", "GINE"])  # fmt: skip
def test_attention_of_zero_is_a_deleted_edge(name: str, loops: str) -> None:
    """Also in the denominators: of GCN's degrees, of a softmax."""
    backbone, listed = wrapped(name), graphs(3, loops)
    generator = torch.Generator().manual_seed(4)
    cut, kept = [], []
    for graph in listed:
        keep = torch.rand(graph.edge_index.shape[1], generator=generator) < 0.6
        # A loop that a layer puts in anyway can't be deleted.
        keep |= graph.edge_index[0] == graph.edge_index[1]
        kept.append(keep)
        cut.append(
            Data(x=graph.x, edge_index=graph.edge_index[:, keep], edge_attr=graph.edge_attr[keep])
        )
    batch = from_pyg(listed).batch()
    attention = torch.empty(batch.num_edges)
    attention[batch.by_caller] = torch.cat(kept).float()
    actual = output(backbone, batch, attention)
    torch.testing.assert_close(actual, plain(make(name), cut), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["GraphSAGE", "GIN", "PNA", "EdgeCNN", "GINE"])
def test_messages_are_multiplied_as_by_pygs_own_explain_hook(name: str) -> None:
    backbone, listed = wrapped(name), graphs(5)
    batch = from_pyg(listed).batch()
    attention = torch.rand(batch.num_edges, generator=torch.Generator().manual_seed(0))
    module, edges = make(name), Batch.from_data_list(listed).edge_index
    set_masks(module, attention[batch.by_caller], edges, apply_sigmoid=False)
    torch.testing.assert_close(backbone.embed(batch, attention), plain(module, listed))


@pytest.mark.parametrize("loops", ["none", "all"])
def test_normalisation_sees_the_attention(loops: str) -> None:
    backbone, listed = wrapped("GCN"), graphs(6, loops)
    batch, both = from_pyg(listed).batch(), Batch.from_data_list(listed)
    attention = torch.rand(batch.num_edges, generator=torch.Generator().manual_seed(0))
    expected = make("GCN")(both.x, both.edge_index, edge_weight=attention[batch.by_caller])
    torch.testing.assert_close(backbone.embed(batch, attention), expected)


def test_attention_multiplies_existing_edge_weights() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = pyg.GraphConv(FEATURES, HIDDEN)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            weight = (edge_index[0] + 1).float()
            return self.conv(x, edge_index, weight)

    torch.manual_seed(0)
    module, listed = Own(), graphs(7)
    batch, both = from_pyg(listed).batch(), Batch.from_data_list(listed)
    attention = torch.rand(batch.num_edges)
    weight = (both.edge_index[0] + 1) * attention[batch.by_caller]
    expected = module.conv(both.x, both.edge_index, weight)
    torch.testing.assert_close(wrap(module, TASK).embed(batch, attention), expected)


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_of_attention_match_finite_differences(name: str) -> None:
    backbone, batch = wrapped(name).double(), from_pyg(graphs(8)[:1]).batch()
    attention = torch.rand(batch.num_edges, generator=torch.Generator().manual_seed(0)) * 0.8 + 0.1
    attention = attention.double().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda a: output(backbone, batch, a), attention, check_undefined_grad=False
    )


def test_a_node_that_loses_all_edges_has_a_finite_gradient() -> None:
    """GCN without self-loops divides by √degree, which has no slope at 0."""
    backbone, batch = wrapped("GCN without self-loops"), from_pyg(graphs(8)).batch()
    attention = torch.zeros(batch.num_edges, requires_grad=True)
    backbone.embed(batch, attention).sum().backward()
    assert attention.grad is not None
    assert attention.grad.isfinite().all()


def test_replaced_self_loops_keep_their_weight() -> None:
    """GAT takes loops away and adds its own: that of a node which had one keeps its attention."""
    backbone = wrap(pyg.GATConv(FEATURES, HIDDEN), TASK, example=graphs())
    graph = Data(
        x=torch.randn(2, FEATURES, generator=torch.Generator().manual_seed(0)),
        edge_index=torch.tensor([[0, 1, 0], [0, 0, 1]]),
    )
    store = from_pyg([graph])
    batch = store.batch()
    layer: Any = backbone.module
    value = layer.lin(graph.x)
    score = (value * layer.att_src[0]).sum(1), (value * layer.att_dst[0]).sum(1)
    terms = nn.functional.leaky_relu(score[0] + score[1][0], layer.negative_slope).exp()
    for weight in (1.0, 0.3, 0.0):
        given = torch.tensor([weight, 1.0, 1.0])[batch.by_caller.argsort()]
        share = terms * torch.tensor([weight, 1.0])
        expected = (share / share.sum()) @ value + layer.bias
        actual = backbone.embed(batch, given)[0]
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


class NamesSoftmax(pyg.MessagePassing):
    """Has a method that could take PyG's softmax, and takes another."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(FEATURES, HIDDEN)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, x=self.lin(x))

    def message(self, x_j: Tensor, index: Tensor) -> Tensor:
        return softmax(x_j, index) if x_j.dim() == 7 else nn.functional.softmax(x_j, dim=1)


@pytest.mark.parametrize("layer", [pyg.GeneralConv(FEATURES, HIDDEN), NamesSoftmax()])
def test_messages_are_weighted_if_an_optional_softmax_is_unused(layer: nn.Module) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        backbone = wrap(layer, TASK, example=without_attributes(0))
    listed = without_attributes(4)
    batch = from_pyg(listed).batch()
    bare = [Data(x=g.x, edge_index=torch.zeros(2, 0, dtype=torch.long)) for g in listed]
    actual = backbone.embed(batch, torch.zeros(batch.num_edges))
    torch.testing.assert_close(actual, plain(layer, bare), rtol=1e-5, atol=1e-5)


def test_the_terms_of_a_softmax_are_weighted() -> None:
    layer = pyg.GeneralConv(FEATURES, HIDDEN, attention=True)
    backbone, listed = wrap(layer, TASK, example=without_attributes(0)), without_attributes(4)
    batch = from_pyg(listed).batch()
    half = torch.full((batch.num_edges,), 0.5)
    # A softmax whose terms are all halved is the same softmax.
    torch.testing.assert_close(backbone.embed(batch, half), plain(layer, listed))


class TwoRounds(pyg.MessagePassing):
    """A softmax over neighbours in one round, none in the other; which is first can be chosen."""

    def __init__(self, softmax_first: bool) -> None:
        super().__init__()
        self.lin, self.softmax_first = nn.Linear(FEATURES, HIDDEN), softmax_first

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for number in range(2):
            soft = self.softmax_first == (number == 0)
            x = self.propagate(edge_index, x=self.lin(x) if number == 0 else x, soft=soft)
        return x

    def message(self, x_j: Tensor, index: Tensor, soft: bool, size_i: int | None) -> Tensor:
        if soft:
            return x_j * softmax(x_j.sum(1, keepdim=True), index, num_nodes=size_i)
        return x_j


@pytest.mark.parametrize("softmax_first", [True, False])
def test_each_round_is_weighted_once(softmax_first: bool) -> None:
    """A softmax with all terms halved is the same; the other round is half as much."""
    torch.manual_seed(0)
    layer, listed = TwoRounds(softmax_first), without_attributes(4)
    backbone, batch = wrap(layer, TASK, example=listed), from_pyg(listed).batch()
    actual = backbone.embed(batch, torch.full((batch.num_edges,), 0.5))
    if softmax_first:
        torch.testing.assert_close(actual, plain(layer, listed) / 2)
    else:
        both: Any = Batch.from_data_list(listed)
        first = layer.propagate(both.edge_index, x=layer.lin(both.x), soft=False) / 2
        second = layer.propagate(both.edge_index, x=first, soft=True)
        torch.testing.assert_close(actual, second)


class SoftmaxBefore(pyg.MessagePassing):
    """Takes PyG's softmax of the nodes of a graph, before it works on edges."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(FEATURES, HIDDEN)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, x=self.prepared(self.lin(x)))

    def prepared(self, x: Tensor) -> Tensor:
        return softmax(x, torch.arange(len(x)))


def test_other_softmaxes_are_unchanged() -> None:
    layer, listed = SoftmaxBefore(), without_attributes(4)
    backbone, batch = wrap(layer, TASK, example=listed), from_pyg(listed).batch()
    for _ in range(2):
        actual = backbone.embed(batch, torch.full((batch.num_edges,), 0.5))
        torch.testing.assert_close(actual, plain(layer, listed) / 2)


@pytest.mark.parametrize(
    ("layer", "rounds"),
    [
        (pyg.GCNConv(FEATURES, HIDDEN), 1),
        (pyg.GATConv(FEATURES, HIDDEN), 1),
        (pyg.SGConv(FEATURES, HIDDEN, K=3), 3),
        (pyg.TAGConv(FEATURES, HIDDEN, K=2), 2),
        (pyg.GatedGraphConv(HIDDEN, num_layers=4), 4),
        (pyg.APPNP(K=5, alpha=0.1), 5),
    ],
)
def test_rounds_of_message_passing_are_counted_not_layers(layer: nn.Module, rounds: int) -> None:
    """On a path, a node is reached from as far away as there are rounds."""
    backbone, length = wrap(layer, TASK, example=graphs()), 8
    assert backbone.hops == rounds
    path = torch.stack([torch.arange(length - 1), torch.arange(1, length)])
    path = torch.cat([path, path.flip(0)], dim=1)
    x = torch.randn(length, FEATURES, generator=torch.Generator().manual_seed(0))
    batch = from_pyg([Data(x=x, edge_index=path)]).batch()
    before = backbone.embed(batch)
    x = x.clone()
    x[0] += 5
    after = backbone.embed(from_pyg([Data(x=x, edge_index=path)]).batch())
    changed = ((before - after).abs().max(dim=1).values > 1e-6).nonzero()[:, 0]
    assert changed.max() == rounds


def test_the_network_gets_edges_in_the_order_of_the_input() -> None:
    class Listening(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.heard = pyg.GCNConv(FEATURES, HIDDEN), []

        def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None) -> Tensor:
            self.heard.append((edge_index, edge_attr))
            return self.conv(x, edge_index)

    module, listed = Listening(), graphs(10, "some")
    wrap(module, TASK, example=listed).embed(from_pyg(listed).batch([2, 0]))
    both = Batch.from_data_list([listed[2], listed[0]])
    edges, attributes = module.heard[-1]
    assert torch.equal(edges, both.edge_index)
    assert torch.equal(attributes, both.edge_attr)


# -- nothing leaks --------------------------------------------------------------------------------


def state_of(module: nn.Module) -> list[set[str]]:
    """The attributes of every part of a network."""
    return [
        {f"{key}: {id(value)}" for key, value in vars(part).items()} for part in module.modules()
    ]


@pytest.mark.parametrize("name", NETWORKS)
def test_the_network_is_unchanged(name: str) -> None:
    module, batch = make(name), from_pyg(graphs(11)).batch()
    backbone = wrap(module, TASK, example=graphs())
    before, weights = state_of(module), copy.deepcopy(module.state_dict())
    twin = copy.deepcopy(module)
    output(backbone, batch, torch.rand(batch.num_edges))
    bad = torch.rand(batch.num_edges - 1)
    with pytest.raises((IndexError, RuntimeError)):
        output(backbone, batch, bad)
    assert state_of(module) == before
    assert all(torch.equal(weights[key], value) for key, value in module.state_dict().items())
    both = graphs(12)
    assert torch.equal(plain(module, both), plain(twin, both))


def test_an_earlier_mask_of_pyg_is_kept() -> None:
    """PyG leaves methods on the layers, bound to the layer they were set on."""
    module, listed = make("GIN"), graphs(12)
    edges = Batch.from_data_list(listed).edge_index
    set_masks(module, nn.Parameter(torch.zeros(edges.shape[1])), edges)
    clear_masks(module)
    batch = from_pyg(listed).batch()
    attention = torch.rand(batch.num_edges)
    actual = wrap(module, TASK).embed(batch, attention)
    assert torch.equal(actual, wrapped("GIN").embed(batch, attention))


def test_threads_do_not_mix_their_masks() -> None:
    backbone, batch = wrapped("two kinds"), from_pyg(graphs(13)).batch()
    attention = [torch.full((batch.num_edges,), share) for share in (0.0, 0.3, 0.6, 1.0)]
    expected = [backbone(batch, a) for a in attention]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(40):
            if not torch.equal(backbone(batch, attention[number]), expected[number]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_shared_layers_stay_shared_and_statistics_are_kept() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = pyg.GraphConv(FEATURES, FEATURES)
            self.again, self.norm = self.conv, nn.BatchNorm1d(FEATURES)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.again(self.norm(self.conv(x, edge_index)), edge_index)

    from gsat.ops import Draws

    module, batch = Twice(), from_pyg(graphs(14)).batch()
    backbone = wrap(module, TASK)
    assert int(module.norm.num_batches_tracked) == 0  # wrapping itself trains nothing
    backbone.embed(batch, torch.rand(batch.num_edges), Draws(0))
    assert int(module.norm.num_batches_tracked) == 1
    module.eval()
    backbone.embed(batch, None, Draws(0))
    assert int(module.norm.num_batches_tracked) == 1


# -- refusals --------------------------------------------------------------------------------------


class Pooling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.pool = pyg.GraphConv(FEATURES, HIDDEN), pyg.TopKPooling(HIDDEN)
        self.second, self.head = pyg.GraphConv(HIDDEN, HIDDEN), nn.Linear(HIDDEN, 3)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        x = self.first(x, edge_index)
        x, edge_index, _, batch, _, _ = self.pool(x, edge_index, batch=batch)
        return self.head(pyg.global_add_pool(self.second(x, edge_index), batch))


class Rewiring(nn.Module):
    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.conv, self.change = pyg.SAGEConv(FEATURES, HIDDEN), change

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, self.change(edge_index))


@pytest.mark.parametrize(
    "module",
    [
        Pooling(),
        Rewiring(lambda edges: edges[:, :-1]),
        Rewiring(lambda edges: torch.cat([edges, edges[:, :2]], dim=1)),
        Rewiring(lambda edges: edges[:, torch.randperm(edges.shape[1])]),
    ],
    ids=["pooled", "an edge less", "edges more", "another order"],
)
def test_pooled_and_rewired_graphs_are_refused(module: nn.Module) -> None:
    torch.manual_seed(0)
    with pytest.raises(GSATError, match=r"edges that are not the graph's .* pools or rewires") as e:
        wrap(module, TASK)
    assert "\n" not in str(e.value)


def test_flipped_edges_are_recognised() -> None:
    """As for a network that also sends messages against the edges."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    listed = [random_graph(rng, 8, 12, directed=True)]
    module = pyg.DirGNNConv(pyg.SAGEConv(FEATURES, HIDDEN, aggr="sum"))
    batch = from_pyg(listed).batch()
    attention = torch.rand(batch.num_edges).round()
    keep = attention[batch.by_caller].bool()
    actual = wrap(module, TASK, example=listed).embed(batch, attention)
    torch.testing.assert_close(actual, module(listed[0].x, listed[0].edge_index[:, keep]))


def test_sparse_adjacencies_are_refused() -> None:
    def sparse(edges: Tensor) -> Tensor:
        return torch.sparse_coo_tensor(edges, torch.ones(edges.shape[1]), (6, 6)).to_sparse_csr()

    with pytest.raises(GSATError, match="plain edge_index"):
        wrap(Rewiring(sparse), TASK)


@pytest.mark.parametrize("kind", ["norm", "global", "softmax out of reach"])
def test_a_leak_past_the_edges_causes_a_warning(kind: str) -> None:
    class Leaking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = pyg.SAGEConv(FEATURES, HIDDEN), pyg.GraphNorm(HIDDEN)

        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
            x = self.conv(x, edge_index)
            if kind == "norm":
                return self.norm(x, batch)
            if kind == "global":
                return x + pyg.global_mean_pool(x, batch)[batch]
            scores = torch.exp(x[:, :1])[edge_index[0]]
            return x / torch.zeros_like(x[:, :1]).index_add(0, edge_index[1], scores)

    with pytest.warns(UserWarning, match="even when attention is 0"):
        wrap(Leaking(), TASK)
