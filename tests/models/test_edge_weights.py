"""Weights that come with the data multiply with attention; directions are kept apart."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN

from gsat.graphs import from_pyg
from gsat.gsat import GSAT
from gsat.models import BACKBONES
from gsat.models.backbone import Backbone
from gsat.models.wrapping.wrap import wrap
from gsat.tasks import Task

TASK = Task("binary")


def graph(seed: int, *, attributes: int = 0, directed: bool = True) -> Data:
    """12 nodes, no edge twice."""
    torch.manual_seed(seed)
    pairs = torch.rand(12, 12) < 0.25
    pairs &= ~torch.eye(12, dtype=torch.bool)
    if not directed:
        pairs |= pairs.clone().T
    index = pairs.nonzero().T
    data = Data(x=torch.randn(12, 3), edge_index=index[:, torch.randperm(index.shape[1])])
    if attributes:
        data.edge_attr = torch.randn(index.shape[1], attributes)
    return data


@pytest.fixture(params=[0, 1, 3], ids=lambda n: f"{n} edge features")
def attributes(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture(params=sorted(BACKBONES))
def backbone(request: pytest.FixtureRequest, attributes: int) -> Backbone:
    if request.param == "wrapped":
        torch.manual_seed(0)
        return wrap(GCN(3, 8, num_layers=2), TASK)
    network = BACKBONES[request.param]
    known = min(attributes, 1) if request.param == "leconv" else attributes  # it knows one at most
    return network(3, TASK, edge_features=known, hidden=8).eval()  # type: ignore[call-arg]


def test_data_weights_act_like_attention(backbone: Backbone, attributes: int) -> None:
    data = graph(0, attributes=attributes)
    plain = from_pyg([data])
    data.edge_weight = torch.rand(data.edge_index.shape[1])
    weighted = from_pyg([data]).batch()
    assert weighted.edge_weight is not None
    with torch.no_grad():
        without = backbone(plain.batch())
        as_attention = backbone(plain.batch(), attention=weighted.edge_weight)
        assert not torch.allclose(without, as_attention)
        torch.testing.assert_close(backbone(weighted), as_attention)
        alpha = torch.rand(weighted.num_edges)
        both = backbone(plain.batch(), attention=alpha * weighted.edge_weight)
        torch.testing.assert_close(backbone(weighted, attention=alpha), both)


@pytest.mark.parametrize("features", [0, 1, 3])
def test_a_weight_of_two_equals_a_doubled_edge_in_a_sum(features: int) -> None:
    network = BACKBONES["gin"](3, TASK, edge_features=features, hidden=8, dropout=0.0)  # type: ignore[call-arg]
    data = graph(1, attributes=features)
    count = data.edge_index.shape[1]
    times = torch.arange(count) % 3
    again = torch.arange(count).repeat_interleave(times)
    repeated = Data(x=data.x, edge_index=data.edge_index[:, again])
    if features:
        repeated.edge_attr = data.edge_attr[again]
    data.edge_weight = times.float()
    with torch.no_grad():
        ours = network.eval()(from_pyg([data]).batch())
        torch.testing.assert_close(ours, network(from_pyg([repeated]).batch()))


@pytest.mark.parametrize("on", ["edge", "node"])
def test_the_mask_is_attention_alone(on: str) -> None:
    model = GSAT(BACKBONES["gin"](3, TASK, hidden=8), on).eval()  # type: ignore[call-arg, arg-type]
    data = graph(2)
    data.edge_weight = 10 * torch.rand(data.edge_index.shape[1]) + 5
    output = model(from_pyg([data]).batch())
    mask = model.explain(data).edge_mask
    assert float(mask.max()) <= 1
    # The mask times the weights, put on the graph without weights, is what the model computed.
    store = from_pyg([Data(x=data.x, edge_index=data.edge_index)])
    from_caller = torch.from_numpy(store.arrays["order"]).long()
    with torch.no_grad():
        again = model.backbone(store.batch(), attention=(mask * data.edge_weight)[from_caller])
    torch.testing.assert_close(again, output.logits.detach())


@pytest.mark.parametrize("directed", [True, False])
def test_directions_share_attention_on_undirected_graphs_only(directed: bool) -> None:
    data = graph(4, directed=directed)
    if directed:  # some edges have a reverse, and still the graph is directed
        data.edge_index = torch.cat([data.edge_index, data.edge_index[:, :3].flip(0)], dim=1)
        data.edge_index = torch.unique(data.edge_index, dim=1)
    data.edge_weight = torch.rand(data.edge_index.shape[1])  # need not be symmetric
    model = GSAT(BACKBONES["gin"](3, TASK, hidden=8)).eval()  # type: ignore[call-arg]
    explained = model.explain(data)
    place = {tuple(edge): i for i, edge in enumerate(data.edge_index.T.tolist())}
    pairs = [(i, place[v, u]) for (u, v), i in place.items() if u < v and (v, u) in place]
    assert pairs
    same = [bool(explained.edge_mask[i] == explained.edge_mask[j]) for i, j in pairs]
    assert explained.undirected is not directed
    assert all(same) if not directed else not any(same)
