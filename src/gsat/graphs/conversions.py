"""Conversions from PyG and networkx to a store, and from PyG to networkx."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gsat.core.errors import DataError
from gsat.graphs.build import offsets
from gsat.graphs.store import GraphStore

if TYPE_CHECKING:
    import networkx as nx
    from torch_geometric.data import Batch, Data

    from gsat.graphs.sharded_array import Array

# Attributes of PyG graphs that are read, and what they have a row for.
_ROWS = {
    "x": "node", "edge_attr": "edge", "edge_weight": "edge", "y": "graph", "node_y": "node",
    "node_truth": "node", "edge_truth": "edge",
}  # fmt: skip
# Attributes of networkx nodes and edges, with their names in PyG.
_NODE_KEYS = {"x": "x", "y": "node_y", "truth": "node_truth"}
_EDGE_KEYS = {"attr": "edge_attr", "weight": "edge_weight", "truth": "edge_truth"}


def to_data_list(graphs: Any) -> list[Data]:
    """List PyG graphs one by one; batches are split into their graphs."""
    from torch_geometric.data import Batch, Data, HeteroData

    one = isinstance(graphs, Data | HeteroData)
    # A torch Subset can only be indexed.
    several = hasattr(graphs, "__iter__") or hasattr(graphs, "__getitem__")
    if not one and (isinstance(graphs, Mapping | str | type) or not several):
        raise DataError(
            f"graphs must be a PyG Data, a list of them or a GraphStore (data.test of a Dataset), "
            f"not a {type(graphs).__name__}"
        )
    listed: list[Data] = []
    for graph in [graphs] if one else graphs:
        if isinstance(graph, HeteroData):
            raise DataError(
                "graphs must have nodes of one type (PyG Data), not of several (HeteroData); "
                "convert them with to_homogeneous()"
            )
        if not isinstance(graph, Data):
            raise DataError(f"graph {len(listed)} is a {type(graph).__name__}, not a PyG Data")
        if isinstance(graph, Batch):
            listed += _unbatch(graph)
        else:
            listed.append(graph)
    return listed


def _unbatch(batch: Batch) -> list[Data]:
    try:
        parts: list[Data] = batch.to_data_list()
    except RuntimeError as error:
        raise DataError(f"a batch can't be split into its graphs: {error}") from None
    for name in _ROWS:
        if _given(batch, name) and not all(_given(part, name) for part in parts):
            raise DataError(
                f"'{name}' was set on a batch and not on its graphs; set it on each graph before "
                "they are batched"
            )
    return parts


def from_pyg(graphs: Data | Iterable[Data], meta: Mapping[str, Any] | None = None) -> GraphStore:
    """Convert PyG graphs to a store.

    Reads ``x``, ``edge_index``, ``edge_attr``, ``edge_weight``, ``y`` (labels of graphs) or
    ``node_y`` (labels of nodes), ``node_truth`` and ``edge_truth``. Each must be set on all graphs
    or on none.

    Args:
        graphs: A ``Data``, a ``Batch``, or an iterable of them.
        meta: Plain values to store with the data, such as ``classes``. (default: none)

    Raises:
        DataError: If an array is missing on some graphs, or has the wrong shape or type.

    Example:
        >>> from torch_geometric.data import Data
        >>> path = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3, y=1)
        >>> from_pyg([path, path])
        GraphStore(2 graphs, 6 nodes, 4 edges)
    """
    graphs = to_data_list(graphs)
    for number, graph in enumerate(graphs):
        if graph.edge_index is None or graph.num_nodes is None:
            raise DataError(f"graph {number} has no edge_index or no nodes; it needs both")
        _check_edge_index(graph.edge_index, number)
    columns = {
        name: _column(graphs, name) for name in _ROWS if any(_given(g, name) for g in graphs)
    }
    nodes = np.array([g.num_nodes for g in graphs], dtype=np.int64)
    edges = np.array([g.edge_index.size(1) for g in graphs], dtype=np.int64)
    index = [g.edge_index.numpy(force=True).astype(np.int64) for g in graphs]
    return GraphStore.from_arrays(
        node_ptr=offsets(nodes),
        edge_ptr=offsets(edges),
        edge_index=np.concatenate(index, axis=1) if index else np.zeros((2, 0), np.int64),
        meta=meta,
        **columns,  # type: ignore[arg-type]
    )


def from_networkx(
    graphs: Sequence[nx.Graph], y: Any = None, meta: Mapping[str, Any] | None = None
) -> GraphStore:
    """Convert networkx graphs to a store.

    Reads the node attributes ``x``, ``y`` and ``truth``, the edge attributes ``attr``, ``weight``
    and ``truth``, and the graph attribute ``y``; each must be set on all or on none. Nodes are
    numbered in the order of ``graph.nodes``. Edges of undirected graphs are stored in both
    directions (self-loops once); multigraphs keep their duplicates.

    Args:
        graphs: Graphs of any networkx class.
        y: Labels of the graphs, ``[G]`` or ``[G, T]``. (default: the graph attribute ``y``)
        meta: Plain values to store with the data, such as ``classes``. (default: none)

    Raises:
        DataError: If an attribute is set on some nodes, edges or graphs but not on all.

    Example:
        >>> import networkx as nx
        >>> from_networkx([nx.path_graph(3)], y=[1])
        GraphStore(1 graphs, 3 nodes, 4 edges)
    """
    from torch_geometric.data import Data

    if y is not None and len(y) != len(graphs):
        raise DataError(f"y has {len(y)} values for {len(graphs)} graphs")
    listed = []
    for number, graph in enumerate(graphs):
        place = {node: i for i, node in enumerate(graph.nodes)}
        pairs, edges = [], []
        for u, v, values in _edges_in_order(graph):
            pairs.append((place[u], place[v]))
            edges.append(values)
            if not graph.is_directed() and u != v:
                pairs.append((place[v], place[u]))
                edges.append(values)
        index = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T
        data = Data(edge_index=index, num_nodes=len(place))
        nodes = [graph.nodes[node] for node in graph.nodes]
        for records, keys in ((nodes, _NODE_KEYS), (edges, _EDGE_KEYS)):
            for key, name in keys.items():
                having = sum(key in record for record in records)
                if 0 < having < len(records):
                    raise DataError(
                        f"graph {number}: '{key}' is set on some nodes or edges but not on all"
                    )
                if having:
                    data[name] = torch.from_numpy(np.asarray([r[key] for r in records]))
        if y is not None:
            data.y = torch.as_tensor(np.asarray([y[number]]))
        elif "y" in graph.graph:
            data.y = torch.as_tensor(np.asarray([graph.graph["y"]]))
        listed.append(data)
    return from_pyg(listed, meta=meta)


def to_pyg(store: GraphStore, position: int) -> Data:
    """Convert one graph of a store to a PyG ``Data``: the same as ``store[position]``."""
    return store[position]


def to_networkx(data: Data) -> nx.MultiDiGraph:
    """Convert a PyG graph to networkx, with one edge per column of ``edge_index``.

    Args:
        data: A graph such as ``store[i]``.

    Returns:
        A multigraph with the attributes that :func:`from_networkx` reads. The edge keys are the
        positions in ``edge_index``.

    Example:
        >>> from torch_geometric.data import Data
        >>> to_networkx(Data(edge_index=torch.tensor([[0, 0], [1, 1]]), num_nodes=2)).edges
        OutMultiEdgeView([(0, 1, 0), (0, 1, 1)])
    """
    import networkx as nx

    out = nx.MultiDiGraph()
    node_values, edge_values = (
        {key: data[name].tolist() for key, name in keys.items() if _given(data, name)}
        for keys in (_NODE_KEYS, _EDGE_KEYS)
    )
    for node in range(int(data.num_nodes or 0)):
        out.add_node(node, **{key: values[node] for key, values in node_values.items()})
    for position, (u, v) in enumerate(data.edge_index.T.tolist()):
        values = {key: values[position] for key, values in edge_values.items()}
        out.add_edge(u, v, key=position, **values)
    if _given(data, "y"):
        out.graph["y"] = data.y.squeeze(0).tolist()
    return out


def _edges_in_order(graph: nx.Graph) -> Iterable[tuple[Any, Any, dict[str, Any]]]:
    # The keys that to_networkx sets give the order of the edges; other graphs have no such keys.
    if not graph.is_multigraph():
        return graph.edges(data=True)
    keyed = list(graph.edges(keys=True, data=True))
    if {key for _, _, key, _ in keyed} == set(range(len(keyed))):
        keyed.sort(key=lambda edge: edge[2])
    return [(u, v, values) for u, v, _, values in keyed]


def _given(data: Data, name: str) -> bool:
    return data.get(name) is not None


def _check_edge_index(index: Any, number: int) -> None:
    tensor = isinstance(index, torch.Tensor)
    whole = tensor and (index.numel() == 0 or not (index.is_floating_point() or index.is_complex()))
    if not whole or index.ndim != 2 or len(index) != 2:
        actual = f"{index.dtype} {list(index.shape)}" if tensor else type(index).__name__
        raise DataError(
            f"graph {number}: edge_index must be an integer tensor [2, E], not {actual}"
        )


def _array(value: Any, name: str, number: int) -> Array:
    try:
        return torch.as_tensor(value).numpy(force=True)
    except (TypeError, ValueError, RuntimeError) as error:
        why = " ".join(str(error).split())
        raise DataError(f"graph {number}: '{name}' is not a dense numeric tensor ({why})") from None


def _column(graphs: list[Data], name: str) -> Array:
    parts = []
    for number, graph in enumerate(graphs):
        per = _ROWS[name]
        rows = {"node": graph.num_nodes, "edge": graph.edge_index.size(1), "graph": 1}[per]
        if rows == 0:
            continue  # an empty array may have any width and type
        if not _given(graph, name):
            raise DataError(
                f"graph {number} has no '{name}' although other graphs have; set all or none"
            )
        value = _array(graph[name], name, number)
        if name == "y":
            value = value.reshape(1, -1) if value.ndim > 1 or value.size > 1 else value.reshape(1)
        elif value.ndim == 0 or len(value) != rows:
            raise DataError(
                f"graph {number}: '{name}' has shape {list(value.shape)}, "
                f"but the graph has {rows} {per}s"
            )
        parts.append(value)
    if not parts:  # no graph has nodes or edges: the first array defines the width
        first = next(torch.as_tensor(g[name]) for g in graphs if _given(g, name))
        return first.numpy(force=True)
    try:
        return np.concatenate(parts)
    except ValueError as error:
        raise DataError(f"'{name}' has different widths on different graphs: {error}") from None


def as_store(graphs: Any) -> GraphStore:
    """Convert PyG graphs to a store without labels and truth; a store is returned unchanged."""
    if isinstance(graphs, GraphStore):
        return graphs
    from torch_geometric.data import Data

    # Some graphs may have labels and others not; models do not need them.
    keep = ("x", "edge_index", "edge_attr", "edge_weight", "num_nodes")
    listed = to_data_list(graphs)
    return from_pyg([Data(**{k: g[k] for k in keep if g.get(k) is not None}) for g in listed])
