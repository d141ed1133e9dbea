"""Conversion of a store's graphs to PyG ``Data``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch

from gsat.graphs.texts import decode_texts

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gsat.graphs.store import GraphStore


def to_pyg(store: GraphStore, position: int) -> Data:
    """Convert one graph of a store to a PyG ``Data``, with its edges in the user's order.

    Further per-graph arrays become attributes of the same name.

    Args:
        store: A store or a view.
        position: Position of the graph in the view.

    Example:
        >>> from gsat.graphs import GraphStore
        >>> store = GraphStore.from_arrays(node_ptr=[0, 2], edge_ptr=[0, 1], edge_index=[[1], [0]])
        >>> to_pyg(store, 0)
        Data(edge_index=[2, 1], num_nodes=2)
    """
    return next(each_pyg(store.select([position])))


def each_pyg(store: GraphStore, kind: type[Data] | None = None) -> Iterator[Data]:
    """Iterate over the graphs of a view, which are gathered in one batch."""
    from torch_geometric.data import Data

    make = Data if kind is None else kind
    view = store.at_nodes(None)
    batch = view.batch()
    order = torch.from_numpy(view.caller_order(np.arange(batch.num_edges)))
    nodes, edges = batch.node_ptr.tolist(), batch.edge_ptr.tolist()
    per_node = {} if not store.has("x") else {"x": batch.x}
    index, per_edge = batch.edge_index[:, order], {}
    for name in ("edge_attr", "edge_weight", "edge_truth"):
        values = getattr(batch, name)
        if values is not None:
            per_edge[name] = values[order]
    if batch.node_truth is not None:
        per_node["node_truth"] = batch.node_truth
    if "node_sign" in store.arrays:
        signs = np.asarray(store.arrays["node_sign"][view.target_nodes()])
        per_node["node_sign"] = torch.from_numpy(signs)
    per_graph = {}
    if store.has("node_y"):
        assert batch.y is not None
        per_node["node_y"] = batch.y
    elif batch.y is not None:
        per_graph["y"] = batch.y
    texts = {}
    for name in store.arrays:
        if name.startswith("graph."):
            rows, short = view.per_graph(name), name.removeprefix("graph.")
            if rows.dtype == np.uint8:
                texts[short] = decode_texts(rows)
            else:
                per_graph[short] = torch.from_numpy(rows)
    # Copy the slices, so that keeping one graph does not keep all others in memory.
    for place in range(batch.num_graphs):
        own_nodes = slice(nodes[place], nodes[place + 1])
        own_edges = slice(edges[place], edges[place + 1])
        own_index = index[:, own_edges] - nodes[place]
        data = make(edge_index=own_index, num_nodes=nodes[place + 1] - nodes[place])
        for own, columns in (
            (own_nodes, per_node),
            (own_edges, per_edge),
            (slice(place, place + 1), per_graph),
        ):
            for name, values in columns.items():
                data[name] = values[own].clone()
        for name, listed in texts.items():
            data[name] = listed[place]
        yield data
