"""Graphs in a JSON-lines file, plain or gzipped: one object per line (keys: docs/data.md)."""

from __future__ import annotations

import codecs
import io
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gsat.core.errors import DataError, shown
from gsat.core.files import open_file
from gsat.core.gzipped import GzipReader
from gsat.core.limits import check_size, json_bytes, limits, too_many
from gsat.core.parsing import unique_keys
from gsat.datasets.formats.json_values import check_rows, class_name, identifier, numbers
from gsat.datasets.splits import MARKS, NAMES
from gsat.graphs import GraphStore
from gsat.graphs.build import ranges, to_float32

Array = NDArray[Any]

# Arrays of numbers: one row per node or edge, and the number of dimensions.
_COLUMNS: Final = {
    "x": ("node", 2),
    "node_truth": ("node", 1),
    "edge_attr": ("edge", 2),
    "edge_weight": ("edge", 1),
    "edge_truth": ("edge", 1),
}
KEYS: Final = (
    "num_nodes", "edge_index", "edges", *_COLUMNS, "y", "node_y", "split", "id", "smiles"
)  # fmt: skip
MOST_EMPTY_LINES: Final = 1 << 20
_BUFFER: Final = 1 << 16  # unpacked bytes
_FREE: Final = 1 << 20  # unpacked bytes that the compression ratio does not count
# About the memory of a node and an edge while a store is made of them.
_NODE_BYTES: Final = 40
_EDGE_BYTES: Final = 100
_CHUNK: Final = 4096  # small arrays that are concatenated at a time


def read(path: Path) -> GraphStore:
    """Read a file of graphs; memory is that of the arrays."""
    reader = _Reader(path)
    number = 0
    try:
        for number, line in _lines(path):
            reader.add(line, number)
    except (OSError, EOFError, UnicodeError, zlib.error) as error:
        raise DataError(f"{path} can't be read after line {number} ({error})") from error
    return reader.store()


def from_objects(graphs: Sequence[Mapping[str, Any]]) -> GraphStore:
    """Make a store of parsed graphs, each as in a line of a file."""
    reader = _Reader()
    for graph in graphs:
        reader.add(graph)
    return reader.store()


class _Column:
    """The rows of one array, gathered in a few large arrays, and the graphs they belong to."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.joined: list[Array] = []
        self.waiting: list[Array] = []
        self.width: tuple[int, ...] | None = None
        self.graphs: list[int] = []

    def add(self, graph: int, rows: Array) -> None:
        self.graphs.append(graph)
        if not len(rows):
            return  # an array without rows has no width
        if self.width is None:
            self.width = rows.shape[1:]
        if rows.shape[1:] != self.width:
            raise DataError(
                f"'{self.name}' has rows of shape {list(rows.shape[1:])}, before {list(self.width)}"
            )
        self.waiting.append(rows)
        if len(self.waiting) >= _CHUNK:
            self._join()

    def _join(self) -> None:
        self.joined.append(np.concatenate(self.waiting))
        self.waiting = []

    def spread(self, ptr: Array, missing: float) -> Array:
        """All rows at the places of their graphs, ``[ptr[-1], …]``; ``missing`` elsewhere."""
        if self.waiting:
            self._join()
        rows = np.concatenate(self.joined) if self.joined else np.zeros(0, np.float32)
        if len(rows) == ptr[-1]:
            return rows
        out = np.full((int(ptr[-1]), *rows.shape[1:]), missing, dtype=rows.dtype)
        has = np.array(self.graphs, dtype=np.int64)
        out[ranges(ptr[has], np.diff(ptr)[has])] = rows
        return out


class _Reader:
    """Flat arrays, filled graph by graph: lines of a file, or parsed objects."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.lines: list[int] = []  # of each graph
        self.nodes, self.edges = [0], [0]  # of each graph, after a first 0
        self.columns: dict[str, _Column] = {}
        self.texts: dict[str, list[Any]] = {"id": [], "smiles": []}
        self.names: dict[str, int] = {}  # of classes, in the order of their appearance
        self.numbers = False  # whether a label was a number
        self.bytes = 0  # about the memory of the store so far
        self.limit = limits().memory

    def add(self, graph: Any, line: int = 0) -> None:
        """Check a graph and add its rows."""
        self.lines.append(line)
        try:
            self._add(_known_keys(_parsed(graph) if self.path else graph))
        except DataError as error:
            raise self._wrong(len(self.lines) - 1, str(error)) from None

    def _wrong(self, graph: int, why: str) -> DataError:
        if self.path is None:
            return DataError(f"graph {graph}: {why}")
        return DataError(f"{self.path}, line {self.lines[graph]} (graph {graph}): {why}")

    def _add(self, graph: dict[str, Any]) -> None:
        edges = _edge_list(graph)
        nodes = _num_nodes(graph, edges)
        if edges.size and (edges.min() < 0 or edges.max() >= nodes):
            u, v = edges[((edges < 0) | (edges >= nodes)).any(axis=1)][0]
            raise DataError(f"it has an edge {u} → {v}, but its {nodes} nodes are numbered from 0")
        self._reserve(_NODE_BYTES * nodes + _EDGE_BYTES * len(edges))
        self._keep("edges", edges)
        for name, (per, dimensions) in _COLUMNS.items():
            if graph.get(name) is not None:
                rows = numbers(graph[name], name, dimensions)
                check_rows(rows, name, nodes if per == "node" else len(edges), per)
                self._keep(name, to_float32(rows, f"'{name}'"))
        self._add_labels(graph, nodes)
        self._add_split(graph, nodes)
        for name, values in self.texts.items():
            values.append(identifier(graph.get(name), name))
        self.nodes.append(nodes)
        self.edges.append(len(edges))

    def _reserve(self, needed: int) -> None:
        """Count memory of the store; raise if it is more than the limit."""
        self.bytes += needed
        if self.bytes > self.limit:
            check_size(self.bytes, "the content of the file", DataError, self.limit)

    def _keep(self, name: str, rows: Array) -> None:
        self._reserve(3 * rows.nbytes)
        self.columns.setdefault(name, _Column(name)).add(len(self.lines) - 1, rows)

    def _add_labels(self, graph: dict[str, Any], nodes: int) -> None:
        if graph.get("y") is not None:
            self._keep("y", self._codes(graph["y"], "y", 1)[None])
        if graph.get("node_y") is not None:
            rows = self._codes(graph["node_y"], "node_y", 2)
            check_rows(rows, "node_y", nodes, "node")
            self._keep("node_y", rows)
        if "y" in self.columns and "node_y" in self.columns:
            raise DataError("labels are of graphs ('y') or of nodes ('node_y'), not of both")

    def _codes(self, value: Any, name: str, depth: int) -> Array:
        """Labels as numbers, NaN where missing; texts are numbered as they appear."""
        if isinstance(value, list) and depth:
            parts = [self._codes(part, name, depth - 1) for part in value]
            if len({part.shape for part in parts}) > 1:
                raise DataError(f"'{name}' contains lists of different lengths")
            return np.stack(parts) if parts else np.zeros(0)
        if value is None:
            return np.array(np.nan)
        if isinstance(value, str):
            code: float = self.names.setdefault(class_name(value, name), len(self.names))
        elif isinstance(value, (bool, int, float)):
            try:
                code, self.numbers = float(value), True
            except OverflowError:
                raise DataError(
                    f"'{name}' contains a number that is too large: {str(value)[:12]}…"
                ) from None
        else:
            raise DataError(f"'{name}' must be numbers, texts or null, not {shown(value, 60)}")
        if self.names and self.numbers:
            raise DataError(
                f"'{name}' is {shown(repr(value), 60)}; labels must be all texts or all numbers"
            )
        return np.array(code, dtype=np.float64)

    def _add_split(self, graph: dict[str, Any], nodes: int) -> None:
        value = graph.get("split")
        if value is None:
            return
        marks = value if isinstance(value, list) else [value]
        for mark in marks:
            if not isinstance(mark, (str, type(None))) or mark not in MARKS:
                raise DataError(
                    f"'split' must be one of {', '.join(NAMES)} or null, not {shown(mark, 60)}"
                )
        rows = np.array([MARKS[mark] for mark in marks], dtype=np.int64)
        if isinstance(value, list):
            check_rows(rows, "split", nodes, "node")
        self._keep("node_split" if isinstance(value, list) else "split", rows)

    def store(self) -> GraphStore:
        """Make a store of all graphs."""
        if not self.lines:
            raise DataError(f"{self.path or 'the list'} contains no graphs; at least one is needed")
        graphs, columns = len(self.lines), self.columns
        node_ptr, edge_ptr = np.cumsum(self.nodes), np.cumsum(self.edges)
        graph_ptr = np.arange(graphs + 1)
        arrays: dict[str, Array] = {}
        for name, (per, _) in _COLUMNS.items():
            if name in columns:
                ptr = node_ptr if per == "node" else edge_ptr
                without = np.setdiff1d(np.flatnonzero(np.diff(ptr)), columns[name].graphs)
                if len(without) and not name.endswith("_truth"):
                    why = f"it has no '{name}' although others have; give all or none"
                    raise self._wrong(int(without[0]), why)
                arrays[name] = columns[name].spread(ptr, 0)
        fields: dict[str, Any] = {}
        if "edge_truth" in columns and len(columns["edge_truth"].graphs) < graphs:
            fields["annotated"] = np.isin(graph_ptr[:-1], columns["edge_truth"].graphs)
        if "split" in columns:
            fields["split"] = columns["split"].spread(graph_ptr, -1)
        for name, values in self.texts.items():
            if any(value is not None for value in values):
                fields[name] = ["" if value is None else value for value in values]
        meta: dict[str, Any] = {}
        for name, ptr in (("y", graph_ptr), ("node_y", node_ptr)):
            if name in columns:
                arrays[name] = self._labels(columns[name].spread(ptr, np.nan))
                meta = {"classes": sorted(self.names)} if self.names else {}
        store = GraphStore.from_arrays(
            node_ptr=node_ptr,
            edge_ptr=edge_ptr,
            edge_index=columns["edges"].spread(edge_ptr, 0).reshape(-1, 2).T,
            graph_fields=fields,
            meta=meta,
            **arrays,
        )
        if "node_split" in columns:
            store.arrays["node_split"] = columns["node_split"].spread(node_ptr, -1)
        return store

    def _labels(self, codes: Array) -> Array:
        """Number classes alphabetically, and turn whole numbers into integers."""
        known = ~np.isnan(codes)
        if self.names:
            place = np.empty(len(self.names))
            place[[self.names[name] for name in sorted(self.names)]] = np.arange(len(self.names))
            codes[known] = place[codes[known].astype(np.int64)]
        whole = known.all() and bool((np.abs(codes) <= 2**53).all())
        whole = whole and bool((codes == np.floor(codes)).all())
        return codes.astype(np.int64) if whole else codes


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    allowed, read, empty = limits(), 0, 0
    limit = allowed.memory
    with open_file(path, error=DataError, links=True) as opened:
        file = opened
        if path.suffix == ".gz":
            file = io.BufferedReader(GzipReader(opened, str(path), DataError), _BUFFER)
        number = 0
        while line := file.readline(limit // 4 + 1):
            number += 1
            read += len(line)
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            check_size(json_bytes(line), f"{path}, line {number},", DataError, limit)
            check_size(read, f"{path}, unpacked,", DataError, limit)
            if file is not opened and read > _FREE + allowed.ratio * opened.tell():
                raise DataError(
                    f"{path} unpacks to more than {allowed.ratio} times its size; if you trust "
                    "it, unpack it first, or raise this by --limit ratio=N"
                )
            if line.strip():
                yield number, line.decode("utf-8")
            elif (empty := empty + 1) > MOST_EMPTY_LINES:
                raise DataError(f"{path} has more than {MOST_EMPTY_LINES} empty lines")


def _parsed(line: str) -> Any:
    try:
        return json.loads(line, object_pairs_hook=unique_keys)
    except RecursionError:
        raise DataError("it is not JSON of graphs: it is nested too deep") from None
    except ValueError as error:  # also a number of 4301 digits
        raise DataError(f"it is not JSON ({shown(str(error), 100)})") from None


def _known_keys(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise DataError(f"a graph must be a JSON object {{…}}, not a {type(found).__name__}")
    for key in found:
        if key not in KEYS:
            raise DataError(f"'{shown(key, 40)}' is not a key; the keys are {', '.join(KEYS)}")
    return found


def _edge_list(graph: dict[str, Any]) -> NDArray[np.int64]:
    """Sources and destinations, ``[E, 2]``."""
    if ("edges" in graph) == ("edge_index" in graph):
        raise DataError("it must have either 'edges' (a list of pairs) or 'edge_index' (two lists)")
    name = "edges" if "edges" in graph else "edge_index"
    rows = numbers(graph[name], name, 2)
    if rows.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    rows = rows.T if name == "edge_index" else rows
    if rows.shape[1] != 2:
        wanted = "[2, E]" if name == "edge_index" else "[E, 2]"
        raise DataError(f"'{name}' must have shape {wanted}, not {list(np.shape(graph[name]))}")
    if rows.dtype.kind not in "iu":
        raise DataError(f"'{name}' must contain integers from 0 on")
    return rows.astype(np.int64)


def _num_nodes(graph: dict[str, Any], edges: NDArray[np.int64]) -> int:
    given = graph.get("num_nodes")
    if given is not None:
        if not isinstance(given, int) or isinstance(given, bool) or given < 0:
            raise DataError(f"'num_nodes' must be an integer, not {shown(given, 60)}")
        return _not_too_many(given)
    for name in ("x", "node_y", "node_truth"):
        if isinstance(graph.get(name), list):
            return len(graph[name])
    return _not_too_many(int(edges.max()) + 1) if edges.size else 0


def _not_too_many(nodes: int) -> int:
    if nodes > limits().nodes:
        raise DataError(f"it has {shown(too_many(nodes, 'nodes'), 120)}")
    return nodes
