"""Subgraphs and computation graphs, against PyG."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import k_hop_subgraph, subgraph

from gsat.graphs import GraphBatch, from_pyg
from gsat.graphs.subgraph import edge_subgraph, k_hop_edges, k_hop_nodes, node_subgraph


@pytest.mark.parametrize("share", [0.0, 0.3, 0.8, 1.0])
def test_edges_are_kept_as_by_pyg(share: float, random_graphs: Callable[..., list[Data]]) -> None:
    batch: GraphBatch = from_pyg(random_graphs(3, 20)).batch()
    keep = torch.rand(batch.num_edges, generator=torch.Generator().manual_seed(1)) < share
    part, nodes = edge_subgraph(batch, keep)
    assert batch.edge_attr is not None
    left = batch.edge_index[:, keep]
    assert torch.equal(nodes, left.unique())
    index, attributes = subgraph(nodes, left, batch.edge_attr[keep], True, batch.num_nodes)
    assert torch.equal(part.edge_index, index)
    assert torch.equal(part.edge_attr, attributes)
    assert torch.equal(nodes[part.edge_index], left)
    assert torch.equal(part.x, batch.x[nodes])
    assert torch.equal(part.node_id, batch.node_id[nodes])
    assert torch.equal(part.edge_id, batch.edge_id[keep])
    assert part.y is batch.y
    assert part.num_graphs == batch.num_graphs


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_subgraph_has_the_invariants_of_a_batch(
    share: float, random_graphs: Callable[..., list[Data]]
) -> None:
    batch: GraphBatch = from_pyg(random_graphs(5, 20)).batch()
    keep = torch.rand(batch.num_edges, generator=torch.Generator().manual_seed(2)) < share
    part, nodes = edge_subgraph(batch, keep)
    n, e, graphs = part.num_nodes, part.num_edges, part.num_graphs
    assert torch.equal(part.node_graph, batch.node_graph[nodes])
    for ptr, group, groups in (
        (part.node_ptr, part.node_graph, graphs),
        (part.edge_ptr, part.edge_graph, graphs),
        (part.dst_ptr, part.dst, n),
        (part.src_ptr, part.src, n),
    ):
        counts = np.bincount(group.numpy(), minlength=groups)
        assert ptr.tolist() == [0, *np.cumsum(counts).tolist()]
    assert part.dst.diff().min() >= 0 if e > 1 else True
    assert sorted(part.by_src.tolist()) == sorted(part.by_caller.tolist()) == list(range(e))
    assert part.src[part.by_src].diff().min() >= 0 if e > 1 else True
    original = keep.nonzero()[:, 0]
    kept_order = [edge for edge in batch.by_caller.tolist() if keep[edge]]
    assert original[part.by_caller].tolist() == kept_order
    for edge, pair in enumerate(part.pair.tolist()):
        old = int(batch.pair[original[edge]])
        assert int(original[pair]) == (old if keep[old] else int(original[edge]))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.8, 1.0])
def test_nodes_are_kept_with_the_edges_between_them_as_by_pyg(
    share: float, random_graphs: Callable[..., list[Data]]
) -> None:
    batch: GraphBatch = from_pyg(random_graphs(3, 20)).batch()
    keep = torch.rand(batch.num_nodes, generator=torch.Generator().manual_seed(3)) < share
    part, nodes = node_subgraph(batch, keep)
    index, attributes = subgraph(keep, batch.edge_index, batch.edge_attr, relabel_nodes=True)
    assert torch.equal(nodes, keep.nonzero()[:, 0]), "nodes without an edge stay, too"
    assert torch.equal(part.edge_index, index)
    assert torch.equal(part.edge_attr, attributes)
    assert torch.equal(part.x, batch.x[keep])
    assert torch.equal(part.node_graph, batch.node_graph[keep])
    assert part.num_graphs == batch.num_graphs


@pytest.mark.parametrize("hops", [0, 1, 2, 3])
def test_computation_graphs_are_those_of_pyg(
    random_graphs: Callable[..., list[Data]], hops: int
) -> None:
    seen = 0
    for data in random_graphs(hops, 20):
        index, count = data.edge_index, int(data.num_nodes or 0)
        nodes = torch.randperm(count)[: max(1, count // 2)]
        near = k_hop_nodes(index, nodes, hops, count)
        edges = k_hop_edges(index, nodes, hops, count)
        assert near.shape == (count, len(nodes))
        assert edges.shape == (len(nodes), index.shape[1])
        for column, node in enumerate(nodes.tolist()):
            subset, _, _, mask = k_hop_subgraph(node, hops, index, num_nodes=count)
            assert near[:, column].nonzero()[:, 0].tolist() == subset.tolist()
            assert torch.equal(edges[column], mask)
            seen += int(mask.sum())
    assert seen > 0 or hops == 0


def test_computation_graphs_are_on_the_device_of_the_edges() -> None:
    """The meta device stands in for a second device."""
    index = torch.zeros(2, 5, dtype=torch.long, device="meta")
    for nodes in (torch.zeros(1, dtype=torch.long), torch.zeros(1, device="meta").long()):
        assert k_hop_edges(index, nodes, 2, 4).device.type == "meta"
