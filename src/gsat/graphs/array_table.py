"""Types, shapes and indices of the arrays in a saved store, and their validation.

Files may be malicious, and kernels do not check indices: every array of a file must pass
:func:`check_arrays` before it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from gsat.core.parsing import FileModel, ParseError, check_model
from gsat.graphs.build import portions
from gsat.graphs.sharded_array import Array

_VALUES: Final = ("float32", "int64", "bool")
_CHUNK: Final = 1 << 20  # edges checked at a time
_WIDEST_EMPTY: Final = 1 << 16  # columns of an array without rows, which take no bytes


class ArrayRule(NamedTuple):
    """Requirements for an array."""

    per: str  # one row per "node", "edge" or "graph"; "pointer": one row more than graphs
    types: tuple[str, ...]  # allowed dtypes
    ranks: tuple[int, ...]  # allowed numbers of axes


RULES: Final[Mapping[str, ArrayRule]] = {
    "node_ptr": ArrayRule("pointer", ("int64",), (1,)),
    "edge_ptr": ArrayRule("pointer", ("int64",), (1,)),
    "src": ArrayRule("edge", ("int32",), (1,)),
    "dst": ArrayRule("edge", ("int32",), (1,)),
    "by_src": ArrayRule("edge", ("int32",), (1,)),
    "order": ArrayRule("edge", ("int32",), (1,)),
    "undirected": ArrayRule("graph", ("bool",), (1,)),
    "x": ArrayRule("node", (*_VALUES, "float16"), (2,)),
    "edge_attr": ArrayRule("edge", _VALUES, (2,)),
    "edge_weight": ArrayRule("edge", ("float32",), (1,)),
    "edge_truth": ArrayRule("edge", _VALUES, (1,)),
    "node_truth": ArrayRule("node", _VALUES, (1,)),
    "node_sign": ArrayRule("node", _VALUES, (1,)),
    "node_y": ArrayRule("node", _VALUES, (1, 2)),
    "node_split": ArrayRule("node", ("int64",), (1,)),
    "targets": ArrayRule("node", ("bool",), (1,)),
    "y": ArrayRule("graph", _VALUES, (1, 2)),
    "graph.split": ArrayRule("graph", ("int64",), (1,)),
    "graph.annotated": ArrayRule("graph", ("bool", "int64", "float32"), (1,)),
}
TEXT: Final = ArrayRule("graph", ("uint8",), (2,))  # texts in graph.NAME
FURTHER: Final = ArrayRule("graph", (*_VALUES, "float64", "int32"), (1, 2, 3))  # other graph.NAME
EDGE_ARRAYS: Final = tuple(name for name, rule in RULES.items() if rule.per == "edge")
NODE_ARRAYS: Final = tuple(name for name, rule in RULES.items() if rule.per == "node")
REQUIRED: Final = ("node_ptr", "edge_ptr", "src", "dst", "by_src", "order", "undirected")


class StoreMeta(FileModel):
    """Plain values of a store that other modules read; a store may have more."""

    classes: list[str | int | float] | None = None
    labels: list[str] | None = None
    node_types: list[str] | None = None
    categories: list[int] | None = None
    training: int | None = None
    content: str | None = None
    matches_paper: str | None = None
    made_by: dict[str, Any] | None = None


def check_arrays(arrays: Mapping[str, Array]) -> None:
    """Raise unless every array follows its rule and every index lies within its graph."""
    if missing := [name for name in REQUIRED if name not in arrays]:
        raise ParseError(f"{', '.join(missing)} missing")
    for name in ("node_ptr", "edge_ptr"):
        _check_pointer(name, arrays[name])
    rows = {
        "node": int(arrays["node_ptr"][-1]),
        "edge": int(arrays["edge_ptr"][-1]),
        "graph": len(arrays["node_ptr"]) - 1,
        "pointer": len(arrays["node_ptr"]),
    }
    for name, values in arrays.items():
        _check_array(name, values, rows)
    _check_indices(arrays)


def check_meta(meta: Any) -> dict[str, Any]:
    """Return the plain values of a store if their types are right."""
    if not isinstance(meta, dict):
        raise ParseError("its meta is not a table")
    check_model(StoreMeta, meta)
    return meta


def _check_pointer(name: str, ptr: Array) -> None:
    valid = ptr.dtype == np.int64 and ptr.ndim == 1 and len(ptr) and ptr[0] == 0
    if not valid or (ptr[1:] < ptr[:-1]).any():
        raise ParseError(f"{name} does not start at 0, or decreases")


def _check_array(name: str, values: Array, rows: Mapping[str, int]) -> None:
    rule = RULES.get(name)
    if rule is None:
        if not name.startswith("graph."):
            raise ParseError(f"'{name[:40]}' is not an array of a store")
        rule = TEXT if values.dtype == np.uint8 else FURTHER
    expected = rows[rule.per]
    if values.ndim == 0 or len(values) != expected:
        raise ParseError(f"{name[:40]} has shape {list(values.shape)}, not {expected} rows")
    if values.dtype.name not in rule.types:
        raise ParseError(f"{name[:40]} is of {values.dtype}, not of {' or '.join(rule.types)}")
    if values.ndim not in rule.ranks:
        ranks = " or ".join(map(str, rule.ranks))
        raise ParseError(f"{name[:40]} has shape {list(values.shape)}, not {ranks} axes")
    if not values.size and max(values.shape[1:], default=0) > _WIDEST_EMPTY:
        raise ParseError(f"{name[:40]} has shape {list(values.shape)}, with nothing in it")
    if values.dtype == bool and values.size and values.view(np.uint8).max() > 1:
        raise ParseError(f"{name[:40]} holds bytes that are neither true nor false")


def _check_indices(arrays: Mapping[str, Array]) -> None:
    """Raise unless every index of an edge lies within its graph."""
    edge_ptr = arrays["edge_ptr"]
    nodes, edges = np.diff(arrays["node_ptr"]), np.diff(edge_ptr)
    if nodes.size and max(int(nodes.max()), int(edges.max())) >= 2**31:
        raise ParseError("a graph has more nodes or edges than 32-bit numbers can count")
    for graphs in portions(edges, _CHUNK):
        part, count = slice(edge_ptr[graphs.start], edge_ptr[graphs.stop]), edges[graphs]
        for sizes, names in ((nodes, ("src", "dst")), (edges, ("by_src", "order"))):
            limit = np.repeat(sizes[graphs].astype(np.uint32), count)
            for name in names:
                # As unsigned numbers, negative ones are too large as well.
                if (arrays[name][part].view(np.uint32) >= limit).any():
                    raise ParseError(f"{name} leads out of its graph")
