"""Explanations as files: a picture, JSON, CSV, a web page, or the scores of a whole split."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from gsat.core.errors import GSATError
from gsat.draw.files import PICTURES, check_suffix, write
from gsat.draw.graph import draw_explanation, explanation_svg
from gsat.draw.options import DrawingOptions
from gsat.draw.page import html_page
from gsat.graphs.build import ranges

if TYPE_CHECKING:
    from gsat.explanation import Explanation
    from gsat.graphs import GraphStore

FORMATS: Final = (*PICTURES, ".json", ".html", ".csv")


def write_explanation(explanation: Explanation, path: str | Path, **options: Any) -> Path:
    """Write one explanation in the format that the suffix names.

    Args:
        explanation: The explained graph.
        path: ``.svg``, ``.png`` or ``.pdf`` for a picture; ``.json`` for
            :meth:`Explanation.as_dict`; ``.csv`` for a line per edge; ``.html`` for a page with the
            picture and the ranked edges.
        options: The options of :func:`gsat.draw.draw_explanation`. In JSON and CSV, ``top`` marks
            the edges as ``chosen``; in JSON, ``class_names`` and ``title`` stand beside the rest.

    Returns:
        The path.

    Raises:
        GSATError: If the suffix is unknown or the file can't be written.
    """
    suffix = check_suffix(path, FORMATS)
    if suffix == ".svg":
        return write(path, explanation_svg(explanation, **options).encode())
    if suffix in PICTURES:
        draw_explanation(explanation, path, **options)
        return Path(path)
    make = {".json": _json, ".csv": _csv, ".html": html_page}[suffix]
    return write(path, make(explanation, **options).encode())


def svg_of(explanation: Explanation) -> str:
    """Draw one explanation as SVG, as a notebook shows it."""
    return explanation_svg(explanation)


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

    Args:
        path: A path that ends in ``.npz``.
        graphs: The split.
        scores: Edge scores, ``[E]``, graph after graph, in the edge order of the original graphs.
        logits: The model's outputs, ``[G, C]``, or ``[M, C]`` at node level. (default: ``None``)
        graph: Numbers to know the graphs by, ``[G]``. (default: their rows in the data set)
        level: Whether logits belong to graphs or to nodes. (default: ``"graph"``)

    Returns:
        The path.

    Raises:
        GSATError: If an array does not fit the graphs or the file can't be written.
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
    return write(path, out.getvalue())


def _checked(values: ArrayLike, name: str, count: int, what: str) -> np.ndarray[Any, Any]:
    """Return the values as an array of ``count`` rows."""
    array = np.asarray(values)
    if array.dtype == object:
        raise GSATError(f"{name} must be numbers, not objects")
    if array.ndim == 0 or len(array) != count:
        raise GSATError(f"{name} has shape {list(array.shape)} where there are {count} {what}")
    return array


def _edges(explanation: Explanation, top: int | str | None) -> list[dict[str, Any]]:
    """List the edges in the order of the graph, marked as ``chosen`` where there is a budget."""
    edges: list[dict[str, Any]] = explanation.as_dict()["edges"]
    if top is not None:
        for edge, chosen in zip(edges, explanation.in_top(top).tolist(), strict=True):
            edge["chosen"] = chosen
    return edges


def _json(explanation: Explanation, **options: Any) -> str:
    style = DrawingOptions(**options)
    values = explanation.as_dict()
    values["edges"] = _edges(explanation, style.top)
    if style.title is not None:
        values["title"] = style.title
    given = style.class_names
    class_names = explanation.get("class_names") if given is None else given
    if class_names is not None:
        values["class_names"] = list(class_names)
    return json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _csv(explanation: Explanation, **options: Any) -> str:
    edges = _edges(explanation, DrawingOptions(**options).top)
    node_id = explanation.get("node_id")
    if node_id is not None:  # numbers of the graph that was explained, as in every other format
        for edge in edges:
            edge |= {end: int(node_id[edge[end]]) for end in ("source", "target")}
    columns = ["source", "target", "score"]
    columns += [name for name in ("spread", "truth", "chosen") if edges and name in edges[0]]
    text = io.StringIO()
    table = csv.DictWriter(text, columns, lineterminator="\n")
    table.writeheader()
    rounded = ("score", "spread")
    table.writerows(
        {k: f"{v:.6g}" if k in rounded else v for k, v in edge.items()} for edge in edges
    )
    return text.getvalue()
