"""One graph of a store as a PyG ``Data``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from gsat.graphs.texts import decode_texts

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gsat.graphs.store import GraphStore


def to_pyg(store: GraphStore, position: int) -> Data:
    """Convert one graph of a store to a PyG ``Data``, with its edges in the user's order.

    Args:
        store: The store.
        position: The graph's position in the store's view.

    Returns:
        The graph, with its further per-graph arrays under their names.
    """
    from torch_geometric.data import Data

    view = store.select([position]).at_nodes(None)
    batch = view.batch()
    order = torch.from_numpy(view.caller_order(np.arange(batch.num_edges)))
    data = Data(edge_index=batch.edge_index[:, order], num_nodes=batch.num_nodes)
    if store.has("x"):
        data.x = batch.x
    for name in ("edge_attr", "edge_weight", "edge_truth"):
        values = getattr(batch, name)
        if values is not None:
            data[name] = values[order]
    if batch.node_truth is not None:
        data.node_truth = batch.node_truth
    if "node_sign" in store.arrays:
        data.node_sign = torch.from_numpy(
            np.asarray(store.arrays["node_sign"][view.target_nodes()])
        )
    if store.has("node_y"):
        data.node_y = batch.y
    elif batch.y is not None:
        data.y = batch.y
    for name in store.arrays:
        if name.startswith("graph."):
            rows = view.per_graph(name)
            text = rows.dtype == np.uint8
            value = decode_texts(rows)[0] if text else torch.from_numpy(rows)
            data[name.removeprefix("graph.")] = value
    return data
