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

    view = store.at_nodes(None)
    batch = view.batch()
    order = torch.from_numpy(view.caller_order(np.arange(batch.num_edges)))
    nodes, edges = batch.node_ptr.tolist(), batch.edge_ptr.tolist()
    signs = None
    if "node_sign" in store.arrays:
        signs = torch.from_numpy(np.asarray(store.arrays["node_sign"][view.target_nodes()]))
    per_node = {
        "x": batch.x if store.has("x") else None,
        "node_truth": batch.node_truth,
        "node_sign": signs,
        "node_y": batch.y if store.has("node_y") else None,
    }
    per_edge = {
        name: None if (values := getattr(batch, name)) is None else values[order]
        for name in ("edge_attr", "edge_weight", "edge_truth")
    }
    per_graph, texts = {"y": None if store.has("node_y") else batch.y}, {}
    for name in store.arrays:
        if name.startswith("graph."):
            column, short = view.per_graph(name), name.removeprefix("graph.")
            if column.dtype == np.uint8:
                texts[short] = decode_texts(column)
            else:
                per_graph[short] = torch.from_numpy(column)
    index = batch.edge_index[:, order]
    for place in range(batch.num_graphs):
        of_nodes = slice(nodes[place], nodes[place + 1])
        of_edges = slice(edges[place], edges[place + 1])
        data = (kind or Data)(
            edge_index=index[:, of_edges] - nodes[place], num_nodes=of_nodes.stop - of_nodes.start
        )
        for rows, columns in (
            (of_nodes, per_node),
            (of_edges, per_edge),
            (slice(place, place + 1), per_graph),
        ):
            for name, values in columns.items():
                if values is not None:
                    data[name] = values[rows].clone()  # keeping one graph must not keep the batch
        for name, listed in texts.items():
            data[name] = listed[place]
        yield data
