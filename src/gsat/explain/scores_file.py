"""The scores of a whole split as one ``.npz`` file."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gsat.core.errors import GSATError
from gsat.core.writing import check_suffix, write_output
from gsat.graphs import GraphStore
from gsat.graphs.build import ranges


def write_scores_npz(
    path: str | Path,
    graphs: GraphStore,
    scores: ArrayLike,
    *,
    logits: ArrayLike | None = None,
    graph: ArrayLike | None = None,
    level: Literal["graph", "node"] = "graph",
) -> Path:
    """Write the scores of all edges of a split; ``numpy.load`` reads it, nothing is pickled.

    The file holds ``node_ptr`` and ``edge_ptr`` [G + 1], ``edge_index`` [2, E] numbered within each
    graph, ``scores`` [E] and, where there are any, ``truth`` [E], all in the edge order of the
    original graphs, ``graph`` [G] and ``logits`` [G, C]; at node level ``logits`` [M, C] and
    ``node`` [2, M], the graph (counted in the file) and the number of each node of the split.
    ``GraphStore.from_arrays`` accepts these arrays.
    ``scores`` [E] are given graph after graph, in the edge order of the original graphs; ``graph``
    defaults to the rows of the data set.
    """
    check_suffix(path, (".npz",))
    edges = ranges(graphs.arrays["edge_ptr"][graphs.index], graphs.edge_counts)

    def column(name: str) -> np.ndarray[Any, Any]:
        return graphs.caller_order(graphs.arrays[name][edges])

    arrays: dict[str, np.ndarray[Any, Any]] = {
        "node_ptr": np.concatenate([[0], np.cumsum(graphs.node_counts)]),
        "edge_ptr": np.concatenate([[0], np.cumsum(graphs.edge_counts)]),
        "edge_index": np.stack([column("src"), column("dst")]).astype(np.int64),
        "scores": _checked(scores, "scores", len(edges), "edges"),
        "graph": _checked(graphs.index if graph is None else graph, "graph", len(graphs), "graphs"),
    }
    if graphs.has("edge_truth"):
        arrays["truth"] = column("edge_truth")
    if logits is not None:
        arrays["logits"] = _checked(logits, "logits", graphs.count(level), f"{level}s")
    if level == "node":
        arrays["node"] = np.stack(graphs.target_places())
    out = io.BytesIO()
    np.savez_compressed(out, allow_pickle=False, **arrays)
    return write_output(path, out.getvalue())


def _checked(values: ArrayLike, name: str, count: int, what: str) -> np.ndarray[Any, Any]:
    """Return the values as an array of ``count`` rows."""
    array = np.asarray(values)
    if array.dtype == object:
        raise GSATError(f"{name} must be numbers, not objects")
    if array.ndim == 0 or len(array) != count:
        raise GSATError(f"{name} has shape {list(array.shape)} where there are {count} {what}")
    return array
