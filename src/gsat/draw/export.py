"""Explanations as files: a picture, JSON, a page, or the scores of a whole split."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gsat.draw.caption import answer
from gsat.draw.files import PICTURES, check_suffix, render, write
from gsat.draw.graph import draw_explanation
from gsat.draw.scene import scene
from gsat.errors import GSATError
from gsat.graphs.texts import explanation_words

if TYPE_CHECKING:
    from gsat.explanation import Explanation
    from gsat.graphs import GraphStore

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1b2530; background: #fff;
       max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.25rem; margin: 0; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: #55606c; padding-bottom: .4rem; }
th, td { text-align: right; padding: .15rem .9rem .15rem 0; border-bottom: 1px solid #e4e8ec; }
th.e, td.e { text-align: left; } tr.chosen td { font-weight: 600; color: #0067a5; }
meter { width: 8rem; }
"""


def write_explanation(explanation: Explanation, path: str | Path, **drawing: Any) -> Path:
    """Write one explanation in the form the suffix names; returns the path.

    Args:
        path: ``.svg``, ``.png``, ``.pdf`` for a picture, ``.json`` for
            :meth:`Explanation.as_dict`, ``.html`` for a page with the picture and the ranked edges.
        drawing: the options of :func:`gsat.draw.draw_explanation`. In JSON, ``top`` marks the
            edges as ``chosen`` and ``class_names`` and ``title`` stand beside the rest.
    """
    suffix = check_suffix(path, (*PICTURES, ".json", ".html"))
    if suffix == ".json":
        return write(path, _json(explanation, **drawing).encode())
    if suffix == ".html":
        return write(path, _html(explanation, **drawing).encode())
    draw_explanation(explanation, path, **drawing)
    return Path(path)


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
    graph, ``scores`` [E] and, where there are any, ``truth`` [E], all in the caller's edge order,
    ``graph`` [G] and ``logits`` [G, C]; at node level ``logits`` [M, C] and ``node`` [2, M], the
    graph (counted in the file) and the number of each node asked for. ``GraphStore.from_arrays``
    takes them as they are.

    Args:
        path: must end in ``.npz``.
        graphs: the split. scores: [E], graph after graph, in the caller's edge order.
        logits: [G, C], the model's answers, or [M, C], when they are for the split's nodes.
        graph: [G], numbers to know the graphs by; by default their rows in the data set.
        level: what the logits answer for.
    """
    check_suffix(path, (".npz",))
    from gsat.graphs.build import ranges

    edges = ranges(graphs.arrays["edge_ptr"][graphs.index], graphs.edge_counts)

    def column(name: str) -> np.ndarray[Any, Any]:
        return graphs.caller_order(graphs.arrays[name][edges])

    arrays: dict[str, np.ndarray[Any, Any]] = {
        "node_ptr": np.concatenate([[0], np.cumsum(graphs.node_counts)]),
        "edge_ptr": np.concatenate([[0], np.cumsum(graphs.edge_counts)]),
        "edge_index": np.stack([column("src"), column("dst")]).astype(np.int64),
        "scores": _long(scores, "scores", len(edges), "edges"),
        "graph": _long(graphs.index if graph is None else graph, "graph", len(graphs), "graphs"),
    }
    if graphs.has("edge_truth"):
        arrays["truth"] = column("edge_truth")
    if logits is not None:
        arrays["logits"] = _long(logits, "logits", graphs.count(level), f"{level}s")
    if level == "node":
        arrays["node"] = np.stack(graphs.target_places())
    out = io.BytesIO()
    np.savez_compressed(out, allow_pickle=False, **arrays)
    return write(path, out.getvalue())


def _long(values: ArrayLike, name: str, count: int, what: str) -> np.ndarray[Any, Any]:
    array = np.asarray(values)
    if array.dtype == object:
        raise GSATError(f"{name} must be numbers, not objects")
    if array.ndim == 0 or len(array) != count:
        raise GSATError(f"{name} has shape {list(array.shape)} where there are {count} {what}")
    return array


def _json(
    explanation: Explanation,
    *,
    top: int | str | None = None,
    title: str | None = None,
    class_names: Sequence[str] | None = None,
    node_types: Sequence[str] | None = None,  # these two are for pictures
    sharpen: float | None = None,
) -> str:
    out = explanation.as_dict()
    if top is not None:
        chosen = explanation.in_top(top).tolist()
        for edge, is_chosen in zip(out["edges"], chosen, strict=True):
            edge["chosen"] = is_chosen
    if title is not None:
        out["title"] = title
    if class_names is not None:
        out["class_names"] = list(class_names)
    return json.dumps(out, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _html(explanation: Explanation, **drawing: Any) -> str:
    title = drawing.pop("title", None)
    said = answer(explanation, drawing.get("class_names"))
    svg = render(draw_explanation(explanation, **drawing), ".svg").decode()
    svg = svg[svg.index("<svg") :]  # without the prolog, which has no place inside a page
    heading = escape(title or said or "Explained graph")
    answered = f"<p>{escape(said)}</p>\n" if title and said else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{heading}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{heading}</h1>
{answered}<p>{escape(explanation.message)}</p>
<figure role="img" aria-label="{escape(said or "explained graph")}">
{svg}</figure>
{_table(explanation, drawing.get("top"), drawing.get("node_types"))}
</body>
</html>
"""


def _table(
    explanation: Explanation, top: int | str | None, node_types: Sequence[str] | None
) -> str:
    """The edges from the highest score down, both directions of an undirected one in one row."""
    picture = scene(explanation, top, node_types)
    scores = explanation.units()[1].tolist()
    numbers = explanation.get("node_id")
    number = (lambda i: i) if numbers is None else numbers.tolist().__getitem__
    words = explanation_words(explanation)
    truth = explanation.get("edge_truth") is not None
    joint = "→" if picture.directed else "–"
    rows = []
    for rank, line in enumerate(sorted(range(len(scores)), key=lambda i: -scores[i]), start=1):
        u, v = picture.ends[line].tolist()
        if words is not None:
            edge = f"{number(u)} {words[u]} {joint} {number(v)} {words[v]}"
        elif node_types is not None:
            edge = f"{picture.labels[u]}{number(u)} {joint} {picture.labels[v]}{number(v)}"
        else:
            edge = f"{number(u)} {joint} {number(v)}"
        mark = ' class="chosen"' if picture.chosen is not None and picture.chosen[line] else ""
        true = f"<td>{'yes' if picture.true[line] else ''}</td>" if truth else ""
        rows.append(
            f'<tr{mark}><td>{rank}</td><td class="e">{escape(edge)}</td>'
            f"<td>{scores[line]:.4f}</td>"
            f'<td class="e"><meter value="{scores[line]:.4f}"></meter></td>{true}</tr>'
        )
    body = "\n".join(rows)
    head = "<th>rank</th><th class=e>edge</th><th>score</th><th></th>"
    head += "<th>ground truth</th>" if truth else ""
    return (
        f"<table>\n<caption>{len(rows)} edges by score</caption>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
    )
