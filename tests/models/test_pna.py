"""PNA: messages written out, PyG's aggregations and scalers, and the parameters of the paper."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing, global_mean_pool
from torch_geometric.nn.aggr import Aggregation, DegreeScalerAggregation
from torch_geometric.utils import degree as count_degrees
from torch_geometric.utils import scatter

from gsat.core.errors import GSATError
from gsat.graphs import GraphBatch, from_pyg
from gsat.models import PNA
from gsat.ops import Draws
from gsat.tasks import Task
from reference import lived_in, random_graphs, whole

BINARY, THREE = Task("binary"), Task("multiclass", 3)
CLASSIC = ("identity", "amplification", "attenuation")


class PublishedStd(Aggregation):
    """√(ReLU(mean(m²) − mean(m)²) + 1e-5); PyG's own cuts small values to 0."""

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        max_num_elements: int | None = None,
    ) -> Tensor:
        mean = scatter(x, index, dim, dim_size, "mean")
        square = scatter(x * x, index, dim, dim_size, "mean")
        return (torch.relu(square - mean * mean) + 1e-5).sqrt()


class WrittenOut(MessagePassing):
    """w · concat(x_v, x_u, e) for every edge, PyG's aggregations and scalers, one linear layer."""

    def __init__(self, layer: Any, names: list[str], scalers: list[str], delta: float) -> None:
        kinds = [PublishedStd() if name == "std" else name for name in names]
        # A histogram of degrees whose mean logarithm is the wanted one.
        aggr = DegreeScalerAggregation(kinds, scalers or ["identity"], torch.tensor([0, 1]))
        aggr.avg_deg_log.fill_(delta)
        super().__init__(aggr=aggr)
        self.layer, self.names = layer, names

    def forward(
        self, x: Tensor, edge_index: Tensor, weight: Tensor, edge_attr: Tensor | None
    ) -> Tensor:
        # propagate_type: (x: Tensor, weight: Tensor, edge_attr: OptTensor)
        out = self.propagate(edge_index, x=x, weight=weight, edge_attr=edge_attr)
        # PyG orders by scaler, aggregator, part; the layer by scaler, part, aggregator, with the
        # source before the centre.
        h, parts = x.shape[1], 2 if edge_attr is None else 3
        out = out.view(len(x), -1, len(self.names), parts, h).transpose(2, 3)
        out = out[:, :, [1, 0, 2][:parts]].flatten(1)
        return self.layer.linear(out)

    def message(self, x_i: Tensor, x_j: Tensor, weight: Tensor, edge_attr: Tensor | None) -> Tensor:
        parts = [x_i, x_j] if edge_attr is None else [x_i, x_j, edge_attr]
        return weight[:, None] * torch.cat(parts, dim=1)


def written_out(
    pna: PNA, batch: GraphBatch, weight: Tensor | None = None, draws: Draws | None = None
) -> Tensor:
    """The whole network, with messages and PyG's aggregations."""
    x = pna.encoder(batch.x.to(pna.encoder.weight.dtype))
    weight = torch.ones(batch.num_edges, dtype=x.dtype) if weight is None else weight
    attr = None
    if pna.edge_encoder is not None:
        attr = pna.edge_encoder(batch.edge_attr.to(x.dtype))
    for number, layer in enumerate(pna.layers):
        delta = float(pna.mean_log_degree) if pna.scalers else 1.0
        conv = WrittenOut(layer, list(pna.aggregators), list(pna.scalers), delta)
        x = x + torch.relu(layer.norm(conv(x, batch.edge_index, weight, attr)))
        if draws:
            keep = draws.child("dropout", number).keep(batch.node_id, x.shape[1], pna.dropout)
            x = x * keep / (1 - pna.dropout)
    return pna.head(global_mean_pool(x, batch.node_graph, batch.num_graphs))


def make(edge_features: int = 0, **settings: Any) -> PNA:
    """A network as after some training, in evaluation mode."""
    settings = {"hidden": 16, "layers": 2, "mean_log_degree": 0.8, **settings}
    pna = lived_in(PNA(4, THREE, edge_features=edge_features, **settings))
    for module in pna.head:
        if isinstance(module, nn.Linear):
            module.bias.data.fill_(0.5)  # or a few narrow layers may be dead
    return pna


def batch_of(edges: str, **kind: bool) -> GraphBatch:
    """Graphs with ``no``, ``constant``, scalar (``1``) or vector (``3``) edge attributes."""
    columns = {"no": 0, "constant": 1}.get(edges, 0) or (int(edges) if edges.isdigit() else 0)
    graphs = random_graphs(1, edge_features=columns, **kind)
    if edges == "constant":
        for graph in graphs:
            graph.edge_attr = torch.full_like(graph.edge_attr, 0.7)
    return from_pyg(graphs).batch()


EDGES = {"no": 0, "constant": 1, "1": 1, "3": 3}


# -- what it computes --------------------------------------------------------------------------


@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("attended", [False, True])
@pytest.mark.parametrize("scalers", [(), CLASSIC, ("attenuation",)])
@pytest.mark.parametrize("training", [False, True])
def test_values_and_gradients_are_those_of_messages_written_out(
    edges: str, attended: bool, scalers: tuple[Any, ...], training: bool
) -> None:
    """Against PyG in double precision; ours in float32 by compiled kernels."""
    batch = batch_of(edges, directed=True)
    pna = make(EDGES[edges], scalers=scalers).train(training)
    exact = copy.deepcopy(pna).double()
    weight = torch.rand(batch.num_edges, generator=torch.Generator().manual_seed(3))
    ours = weight.clone().requires_grad_() if attended else None
    theirs = weight.double().requires_grad_() if attended else None
    draws = Draws(5) if training else None
    actual, expected = pna(batch, ours, draws), written_out(exact, batch, theirs, draws)
    torch.testing.assert_close(actual.double(), expected, rtol=1e-4, atol=1e-4)
    actual.square().sum().backward()
    expected.square().sum().backward()
    if attended:
        assert ours is not None
        assert theirs is not None
        assert theirs.grad.norm() > 1e-4
        assert (ours.grad - theirs.grad).norm() < 1e-3 * theirs.grad.norm()
    scale = max(float(p.grad.norm()) for p in exact.parameters())
    for (name, p), q in zip(pna.named_parameters(), exact.parameters(), strict=True):
        grad = torch.zeros_like(p) if p.grad is None else p.grad
        assert p.grad is not None or (training and name.endswith("linear.bias")), name
        assert (grad - q.grad).norm() < 1e-3 * q.grad.norm() + 1e-5 * scale, name
    for (name, tensor), other in zip(pna.named_buffers(), exact.buffers(), strict=True):
        torch.testing.assert_close(tensor.double(), other.double(), rtol=1e-4, atol=1e-4, msg=name)


@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("aggregators", [("mean", "min", "max", "std"), ("sum",), ("max", "mean")])
def test_subsets_of_aggregators(edges: str, aggregators: tuple[Any, ...]) -> None:
    batch = batch_of(edges)
    pna = make(EDGES[edges], aggregators=aggregators)
    for weight in (None, torch.rand(batch.num_edges)):
        expected = written_out(pna, batch, weight)
        torch.testing.assert_close(pna(batch, weight), expected, rtol=1e-4, atol=1e-4)


def test_constant_edge_attributes_give_the_same_logits() -> None:
    """A graph's answer does not depend on whether the others in the batch share its attribute."""
    graphs = random_graphs(4, edge_features=1)
    for graph in graphs[:4]:
        graph.edge_attr = torch.ones_like(graph.edge_attr)
    store, pna = from_pyg(graphs), make(1)
    weight = torch.rand(store.num_edges)
    edges = store.batch().edge_ptr[4]
    together, alone = pna(store.batch(), weight), pna(store.batch(range(4)), weight[:edges])
    torch.testing.assert_close(together[:4], alone, rtol=1e-4, atol=1e-5)


# -- construction ------------------------------------------------------------------------------


def test_the_mean_degree_is_saved() -> None:
    pna = make(3, aggregators=("max", "sum"), scalers=CLASSIC)
    again = PNA.from_config(copy.deepcopy(pna.config)).eval()
    assert again.config == pna.config
    again.load_state_dict(pna.state_dict())
    assert torch.equal(again(batch_of("3")), pna(batch_of("3")))


def test_for_data_measures_the_degrees_of_the_training_graphs() -> None:
    data = whole(from_pyg(random_graphs(6, edge_features=1)), THREE)
    data = replace(data, splits={**data.splits, "train": np.arange(9)})
    pna = PNA.for_data(data, seed=4, hidden=8, layers=1, scalers=CLASSIC)
    assert (pna.config["in_features"], pna.config["edge_features"]) == (4, 1)
    counts = [count_degrees(g.edge_index[1], g.num_nodes) for g in data.train]
    expected = torch.log(torch.cat(counts) + 1).mean()
    torch.testing.assert_close(pna.mean_log_degree, expected)
    assert "mean_log_degree" in pna.state_dict()
    assert PNA.for_data(data, hidden=8, edge_features=False).edge_encoder is None
    assert "mean_log_degree" not in PNA.for_data(data, hidden=8).state_dict()


@pytest.mark.parametrize(
    "settings",
    [{"aggregators": ()}, {"aggregators": ("mean", "median")}, {"aggregators": ("sum", "sum")},
     {"scalers": ("linear",)}, {"dropout": 1.0}],
)  # fmt: skip
def test_invalid_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(GSATError, match=f"{next(iter(settings))}") as caught:
        PNA(3, BINARY, **settings)
    assert "\n" not in str(caught.value)
