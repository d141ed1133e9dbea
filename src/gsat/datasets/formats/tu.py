"""Graphs in the text tables of the TU collection, in a folder or a zip.

``NAME_A.txt`` lists edges, ``NAME_graph_indicator.txt`` the graph of each node; nodes and graphs
are numbered from 1. Labels, attributes and the truth (``NAME_edge_gt.txt``) are in further tables,
with one row per graph, node or edge.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gsat.core.errors import DataError, shown
from gsat.core.files import read_file
from gsat.core.limits import check_count, check_size, memory_limit, too_many
from gsat.datasets.fetch.archive import open_zip, read_member
from gsat.graphs import GraphStore
from gsat.graphs.build import offsets, to_float32

Tables = dict[str, NDArray[Any]]

# Tables, and the part of the data that each row describes.
TABLES: Final = {
    "A": "edge",
    "graph_indicator": "node",
    "graph_labels": "graph",
    "graph_attributes": "graph",
    "node_labels": "node",
    "node_attributes": "node",
    "edge_labels": "edge",
    "edge_attributes": "edge",
    "edge_gt": "edge",
}
_NEEDED: Final = ("A", "graph_indicator")


def is_tu(path: Path) -> bool:
    """Whether a path is a folder with TU tables."""
    return path.is_dir() and any(path.glob("*_A.txt"))


def files(path: Path) -> list[Path]:
    """List the files that the graphs are read from."""
    if not path.is_dir():
        return [path]
    name = _name([file.name for file in path.iterdir()])
    known = (path / f"{name}_{table}.txt" for table in TABLES)
    return [file for file in known if file.is_file()]


def read(path: Path) -> GraphStore:
    """Read the graphs of a folder or zip.

    ``x`` is node attributes, then one-hot node labels; ``edge_attr`` likewise; ``y`` is graph
    attributes if there are any, else graph labels.
    """
    try:
        tables = read_tables(path, TABLES)
        x = _features(tables, "node")
        edge_attr = _features(tables, "edge", 0 if x is None else x.nbytes)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    y = tables.get("graph_attributes", tables.get("graph_labels"))
    truth = tables.get("edge_gt")
    return GraphStore.from_arrays(
        node_ptr=tables["node_ptr"],
        edge_ptr=tables["edge_ptr"],
        edge_index=tables["edge_index"],
        x=x,
        edge_attr=edge_attr,
        y=None if y is None else (y[:, 0] if y.shape[1] == 1 else y),
        edge_truth=None if truth is None else truth[:, 0].astype(np.float32),
    )


def read_tables(path: Path, wanted: Collection[str]) -> Tables:
    """Read tables and check them against each other.

    ``A`` and ``graph_indicator`` are returned as ``edge_index`` ``[2, E]`` (numbered from 0 within
    each graph), ``node_ptr`` and ``edge_ptr`` ``[G + 1]``. Rows of edges are sorted by graph, and
    within a graph as in the file.
    """
    tables = _parse(path, wanted)
    graph_of = _numbered(tables.pop("graph_indicator"), "graph_indicator")[:, 0]
    src, dst = ends = _numbered(tables.pop("A"), "A").T
    nodes, edges = len(graph_of), ends.shape[1]
    sizes = [len(rows) for name, rows in tables.items() if TABLES[name] == "graph"]
    graphs = sizes[0] if sizes else int(graph_of.max(initial=-1)) + 1
    if not sizes and graphs > nodes:
        raise _unfit(f"graph_indicator names a graph {graphs}, but there are {nodes} nodes")
    counts = {"node": nodes, "edge": edges, "graph": graphs}
    for name, rows in tables.items():
        if len(rows) != counts[TABLES[name]]:
            raise _unfit(
                f"{name} has {len(rows)} rows, but there are {counts[TABLES[name]]} {TABLES[name]}s"
            )
    _check_lines(
        "graph_indicator",
        (graph_of < 0) | (graph_of >= graphs),
        lambda row: f"there is no graph {graph_of[row] + 1}, graphs are 1 to {graphs}",
    )
    _check_lines(
        "graph_indicator",
        np.diff(graph_of, prepend=graph_of[:1]) < 0,
        lambda row: "the nodes of a graph must be consecutive",
    )
    _check_lines(
        "A",
        ((ends < 0) | (ends >= nodes)).any(axis=0),
        lambda row: f"edge {src[row] + 1}, {dst[row] + 1}, but nodes are 1 to {nodes}",
    )
    first, last = graph_of[ends]
    _check_lines(
        "A",
        first != last,
        lambda row: f"an edge connects graph {first[row] + 1} and graph {last[row] + 1}",
    )
    order = np.argsort(first, kind="stable")
    node_ptr = offsets(np.bincount(graph_of, minlength=graphs))
    return {
        **{n: rows[order] if TABLES[n] == "edge" else rows for n, rows in tables.items()},
        "node_ptr": node_ptr,
        "edge_ptr": offsets(np.bincount(first, minlength=graphs)),
        "edge_index": ends[:, order] - node_ptr[first[order]],
    }


def _parse(path: Path, wanted: Collection[str]) -> Tables:
    tables: Tables = {}
    needed = 0
    with ExitStack() as stack:
        archive = None if path.is_dir() else stack.enter_context(open_zip(path, "it"))
        try:
            members = archive.namelist() if archive else [file.name for file in path.iterdir()]
        except OSError as error:
            raise DataError(f"it can't be read ({error.strerror or error})") from error
        name = _name([Path(member).name for member in members])
        for table in wanted:
            file = f"{name}_{table}.txt"
            member = next((m for m in members if Path(m).name == file), None)
            if member is None:
                continue
            if archive:
                raw = read_member(archive, member, "it")
            else:
                raw = read_file(path / member, error=DataError, limit=memory_limit())
            # About the memory of all its numbers, also while they are sorted.
            needed += len(raw) + 32 * (raw.count(b",") + raw.count(b"\n") + raw.count(b"\r"))
            check_size(needed, "the content of the tables", DataError)
            tables[table] = _table(raw, shown(file, 60))
    for table in _NEEDED:
        if table not in tables:
            raise DataError(f"there is no {name}_{table}.txt in it")
    if tables["A"].shape[1] != 2:
        raise _unfit(f"A has {tables['A'].shape[1]} columns, not 2")
    for table in ("graph_indicator", "graph_labels", "edge_gt"):
        if table in tables and tables[table].shape[1] != 1:
            raise _unfit(f"{table} has {tables[table].shape[1]} columns, not 1")
    return tables


def _table(raw: bytes, file: str) -> NDArray[Any]:
    """Parse a table, ``[rows, columns]``: int64, or float64 if a number has a fraction."""
    try:
        text = raw.decode("ascii")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file} is not a text of numbers: byte {error.start} is not ASCII"
        ) from None
    if not text.strip():
        return np.zeros((0, 2 if file.endswith("_A.txt") else 1), dtype=np.int64)
    for kind in (np.int64, np.float64):
        try:
            with warnings.catch_warnings():
                # Some versions of numpy truncate 0.5 to 0, and warn.
                warnings.simplefilter("error")
                return np.loadtxt(io.StringIO(text), dtype=kind, delimiter=",", ndmin=2)
        except (ValueError, OverflowError, Warning):
            continue
    raise _first_bad_line(text, file)


def _first_bad_line(text: str, file: str) -> DataError:
    columns = 0
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        values = line.split(",")
        columns = columns or len(values)
        if len(values) != columns:
            return DataError(f"{file}, line {number}: {len(values)} columns, not {columns}")
        for value in values:
            try:
                float(value)
            except ValueError:
                text = shown(repr(value.strip()[:80]))
                return DataError(f"{file}, line {number}: {text} is not a number")
    return DataError(f"{file} is not a table of numbers")


def _name(members: list[str]) -> str:
    # macOS adds a ._NAME_A.txt, which is not a table.
    tables = [m for m in members if m.endswith("_A.txt") and not m.startswith("._")]
    names = sorted({m.removesuffix("_A.txt") for m in tables})
    if len(names) != 1:
        found = f"those of {shown(', '.join(names), 100)}" if names else "none (no NAME_A.txt)"
        raise DataError(f"it must contain the tables of one data set, not {found}")
    return names[0]


def _features(tables: Tables, of: str, used: int = 0) -> NDArray[np.float32] | None:
    """Attributes and one-hot labels, beside ``used`` bytes of other features."""
    parts = []
    if f"{of}_attributes" in tables:
        parts.append(to_float32(tables[f"{of}_attributes"], f"{of}_attributes"))
    if f"{of}_labels" in tables:
        labels = _whole(tables[f"{of}_labels"], f"{of}_labels")
        parts.append(_one_hot(labels, of, sum(part.shape[1] for part in parts), used))
    return np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0] if parts else None


def _one_hot(labels: NDArray[np.int64], of: str, others: int, used: int) -> NDArray[np.float32]:
    """Encode each column of labels one-hot, beside ``others`` columns of attributes."""
    lowest = [int(column.min()) if len(column) else 0 for column in labels.T]
    highest = [int(column.max()) if len(column) else 0 for column in labels.T]
    # Python's numbers do not overflow.
    spans = [most - least + 1 for least, most in zip(lowest, highest, strict=True)]
    for kinds in spans:
        if why := too_many(kinds, "kinds"):
            raise _unfit(
                f"{of}_labels span {why}, since each would be a feature: give them as "
                f"{of}_attributes"
            )
    width = sum(spans)
    cells, what = len(labels) * (others + width), f"the features made of {of}_labels"
    # The features exist twice while they are joined with the attributes.
    check_size(used + (8 if others else 4) * cells, what, DataError)
    check_count(cells + used // 4, "cells", what, DataError)
    out = np.zeros((len(labels), width), dtype=np.float32)
    first = 0
    for column, least, kinds in zip(labels.T, lowest, spans, strict=True):
        out[np.arange(len(labels)), first + column - least] = 1
        first += kinds
    return out


def _numbered(rows: NDArray[Any], table: str) -> NDArray[np.int64]:
    """Numbers that count from 1, as numbers from 0; what is out of any range becomes −1."""
    whole = _whole(rows, table)
    return np.where((whole < 1) | (whole > 2**53), 0, whole) - 1


def _whole(rows: NDArray[Any], table: str) -> NDArray[np.int64]:
    fine = np.isfinite(rows) & (rows == np.floor(rows))
    if rows.dtype.kind == "f":
        fine &= np.abs(rows) <= 2**53  # beyond, neighbours can't be told apart
    _check_lines(table, ~fine.all(axis=1), lambda row: "it must be an integer")
    return rows.astype(np.int64)


def _check_lines(table: str, wrong: ArrayLike, why: Callable[[int], str]) -> None:
    """Raise for the first line that is wrong."""
    rows = np.flatnonzero(wrong)
    if len(rows):
        row = int(rows[0])
        raise _unfit(f"{table}, line {row + 1}: {why(row)}")


def _unfit(why: str) -> DataError:
    return DataError(f"the tables do not fit together: {why}")
