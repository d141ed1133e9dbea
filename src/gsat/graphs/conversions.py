"""Conversions from PyG ``Data`` and networkx graphs to a store, and from PyG to networkx."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gsat.core.errors import DataError
from gsat.graphs.store import GraphStore

if TYPE_CHECKING:
    import networkx as nx
    from torch_geometric.data import Batch, Data

    from gsat.graphs.sharded_array import Array

_NAMES = ("x", "edge_attr", "edge_weight", "y", "node_y", "node_truth", "edge_truth")


def to_data_list(graphs: Any) -> list[Data]:
    """List PyG graphs one by one; batches are split into their graphs."""
    from torch_geometric.data import Batch, Data, HeteroData

    one = isinstance(graphs, Data | HeteroData)
    # torch's Subset can be indexed and no more.
    several = hasattr(graphs, "__iter__") or hasattr(graphs, "__getitem__")
    if not one and (isinstance(graphs, Mapping | str | type) or not several):
        raise DataError(
            f"graphs must be a PyG Data, a list of them or a GraphStore (data.test of a Dataset), "
            f"not a {type(graphs).__name__}"
        )
    found: list[Data] = []
    for graph in [graphs] if one else graphs:
        if isinstance(graph, HeteroData):
            raise DataError(
                "graphs must have nodes of one type (PyG Data), not of several (HeteroData); "
                "convert them with to_homogeneous()"
            )
        if not isinstance(graph, Data):
            raise DataError(f"graph {len(found)} is a {type(graph).__name__}, not a PyG Data")
        if isinstance(graph, Batch):
            found += _unbatch(graph)
        else:
            found.append(graph)
    return found


def _unbatch(batch: Batch) -> list[Data]:
    try:
        parts: list[Data] = batch.to_data_list()
    except RuntimeError as error:
        raise DataError(f"a batch can't be split into its graphs: {error}") from None
    for name in _NAMES:
        if _given(batch, name) and not all(_given(part, name) for part in parts):
            raise DataError(
                f"'{name}' was set on a batch and not on its graphs; set it on each graph before "
                "they are batched"
            )
    return parts


def from_pyg(graphs: Data | Iterable[Data], meta: Mapping[str, Any] | None = None) -> GraphStore:
    """Convert PyG graphs to a store.

    Their ``x``, ``edge_index``, ``edge_attr``, ``edge_weight``, ``y`` (labels of graphs) or
    ``node_y`` (labels of nodes), ``node_truth`` and ``edge_truth`` are read; all graphs or none
    must have each.

    Args:
        graphs: A ``Data``, a ``Batch``, or an iterable of them.
        meta: Plain values that belong to the data. (default: none)

    Returns:
        The store.

    Raises:
        DataError: If a graph lacks what others have, or an array has the wrong shape or type.

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
        name: _column(graphs, name) for name in _NAMES if any(_given(g, name) for g in graphs)
    }
    nodes = [int(g.num_nodes) for g in graphs]
    edges = [int(g.edge_index.size(1)) for g in graphs]
    index = [g.edge_index.numpy(force=True).astype(np.int64) for g in graphs]
    return GraphStore.from_arrays(
        node_ptr=np.concatenate([[0], np.cumsum(nodes, dtype=np.int64)]),
        edge_ptr=np.concatenate([[0], np.cumsum(edges, dtype=np.int64)]),
        edge_index=np.concatenate(index, axis=1) if index else np.zeros((2, 0), np.int64),
        meta=meta,
        **columns,  # type: ignore[arg-type]
    )


def from_networkx(
    graphs: Sequence[nx.Graph], y: Any = None, meta: Mapping[str, Any] | None = None
) -> GraphStore:
    """Convert networkx graphs to a store.

    Node attributes ``x``, ``y`` and ``truth``, edge attributes ``attr``, ``weight`` and ``truth``
    and the graph attribute ``y`` are read; all or none must have each. Nodes are numbered in the
    order of ``graph.nodes``. An undirected graph gives both directions of each edge (a self-loop
    once), a directed one each edge as it is; a multigraph keeps its duplicates.

    Args:
        graphs: Graphs of any networkx class.
        y: Labels of the graphs, ``[G]`` or ``[G, T]``. (default: the graph attribute ``y``)
        meta: Plain values that belong to the data. (default: none)

    Returns:
        The store.

    Raises:
        DataError: If an attribute is on some nodes, edges or graphs and not on all.

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
        pairs, attributes = [], []
        for u, v, values in _edges_in_order(graph):
            pairs.append((place[u], place[v]))
            attributes.append(values)
            if not graph.is_directed() and u != v:
                pairs.append((place[v], place[u]))
                attributes.append(values)
        index = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T
        data = Data(edge_index=index, num_nodes=len(place))
        nodes = [graph.nodes[node] for node in graph.nodes]
        for name, records, key in (
            ("x", nodes, "x"),
            ("node_y", nodes, "y"),
            ("node_truth", nodes, "truth"),
            ("edge_attr", attributes, "attr"),
            ("edge_weight", attributes, "weight"),
            ("edge_truth", attributes, "truth"),
        ):
            if any(key in record for record in records):
                try:
                    data[name] = torch.from_numpy(np.asarray([r[key] for r in records]))
                except KeyError:
                    raise DataError(
                        f"graph {number}: '{key}' is set on some nodes or edges but not on all"
                    ) from None
        if y is not None:
            data.y = torch.as_tensor(np.asarray([y[number]]))
        elif "y" in graph.graph:
            data.y = torch.as_tensor(np.asarray([graph.graph["y"]]))
        listed.append(data)
    return from_pyg(listed, meta=meta)


def to_networkx(data: Data) -> nx.MultiDiGraph:
    """Convert a PyG graph to networkx, with one edge per column of ``edge_index``.

    Args:
        data: The graph, for example ``store[i]``.

    Returns:
        A multigraph whose edge keys are positions in ``edge_index``, with the attributes that
        :func:`from_networkx` reads.
    """
    import networkx as nx

    out = nx.MultiDiGraph()
    for node in range(int(data.num_nodes or 0)):
        out.add_node(node)
        if _given(data, "x"):
            out.nodes[node]["x"] = data.x[node].tolist()
        if _given(data, "node_y"):
            out.nodes[node]["y"] = data.node_y[node].tolist()
        if _given(data, "node_truth"):
            out.nodes[node]["truth"] = data.node_truth[node].item()
    for position, (u, v) in enumerate(data.edge_index.T.tolist()):
        values = {}
        if _given(data, "edge_attr"):
            values["attr"] = data.edge_attr[position].tolist()
        if _given(data, "edge_weight"):
            values["weight"] = data.edge_weight[position].item()
        if _given(data, "edge_truth"):
            values["truth"] = data.edge_truth[position].item()
        out.add_edge(u, v, key=position, **values)
    if _given(data, "y"):
        out.graph["y"] = data.y.squeeze(0).tolist()
    return out


def _edges_in_order(graph: nx.Graph) -> Iterable[tuple[Any, Any, dict[str, Any]]]:
    # to_networkx numbers the edges by their keys; other graphs are read in networkx's order.
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
        came = f"{index.dtype} {list(index.shape)}" if tensor else type(index).__name__
        raise DataError(f"graph {number}: edge_index must be an integer tensor [2, E], not {came}")


def _array(value: Any, name: str, number: int) -> Array:
    try:
        return torch.as_tensor(value).numpy(force=True)
    except (TypeError, ValueError, RuntimeError) as error:
        why = " ".join(str(error).split())
        raise DataError(f"graph {number}: '{name}' is not a dense numeric tensor ({why})") from None


def _column(graphs: list[Data], name: str) -> Array:
    parts = []
    for number, graph in enumerate(graphs):
        per = _per(name)
        rows = {"node": graph.num_nodes, "edge": graph.edge_index.size(1), "graph": 1}[per]
        if rows == 0:
            continue  # nothing to give, whatever its width and type
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
    if not parts:  # no graph has a node or an edge: the first array given has the width
        first = next(torch.as_tensor(g[name]) for g in graphs if _given(g, name))
        return first.numpy(force=True)
    try:
        return np.concatenate(parts)
    except ValueError as error:
        raise DataError(f"'{name}' has different widths on different graphs: {error}") from None


def _per(name: str) -> str:
    if name == "y":
        return "graph"
    return "edge" if name.startswith("edge_") else "node"


def as_store(graphs: Any) -> GraphStore:
    """Make a store of a PyG ``Data`` or of several; a store is returned as it is."""
    if isinstance(graphs, GraphStore):
        return graphs
    from torch_geometric.data import Data

    # Labels and truths, which some of the graphs may have and others not, are no input.
    keep = ("x", "edge_index", "edge_attr", "edge_weight", "num_nodes")
    given = to_data_list(graphs)
    return from_pyg([Data(**{k: g[k] for k in keep if g.get(k) is not None}) for g in given])
