"""Pictures of one explanation, of several, and of the same graphs by several methods.

Darker and wider lines are the edges that the model used; the ground truth, where it is known, is a
pink halo.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gsat.core.errors import GSATError
from gsat.core.writing import check_suffix, write_output
from gsat.draw.figure import PICTURES, render, sheet_figure
from gsat.draw.graph import NARROWEST, GraphPicture
from gsat.draw.legend import Entry, legend_height, legend_part
from gsat.draw.molecule import MoleculePicture
from gsat.draw.options import SHARPEN, DrawingOptions
from gsat.draw.pictures import Picture, common_scale, cropped, picture_of
from gsat.draw.sentence import Sentence
from gsat.draw.shapes import LINE, Floats, Part, Sheet, Texts
from gsat.draw.superpixels import ImagePicture
from gsat.draw.svg import sheet_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gsat.explanation import Explanation

# Inches.
_HEAD: Final = 0.12
_CELL: Final = (2.6, 2.1)
# Pages of examples.
_LABEL: Final = 0.34
_TITLE: Final = 0.3
_CAPTION: Final = 0.2
_GRAPH: Final = (2.0, 1.7)
_NAMED: Final = (2.9, 2.3)  # names of nodes need room
_SENTENCE: Final = 4.4
_SENTENCE_FONT: Final = 9.0


def draw(
    explanations: Explanation | Sequence[Explanation],
    path: str | Path | None = None,
    **options: Any,
) -> Figure:
    """Draw one explanation, or several in one picture.

    Args:
        explanations: One explanation or a sequence of them.
        path: A file to write: ``.svg``, ``.png`` or ``.pdf``. (default: ``None``)
        options: The options of :func:`draw_explanation` or, for a sequence, of :func:`draw_grid`.

    Returns:
        The matplotlib figure.

    Example:
        >>> import gsat, torch
        >>> explanation = gsat.Explanation(
        ...     edge_index=torch.tensor([[0, 1], [1, 2]]), edge_mask=torch.tensor([0.9, 0.1]),
        ...     num_nodes=3, undirected=False,
        ... )
        >>> figure = gsat.draw.draw(explanation, top=1)
    """
    if isinstance(explanations, Sequence):
        return draw_grid(explanations, path, **options)
    return draw_explanation(explanations, path, **options)


def draw_explanation(
    explanation: Explanation, path: str | Path | None = None, **options: Any
) -> Figure:
    """Draw one explained graph.

    The opacity and width of an edge follow its score, stretched to ``scale`` and raised to the
    power ``sharpen``; the legend has the numbers. Both directions of an undirected edge are one
    line; directed edges have arrowheads where there is room, and two of them, there and back, are
    the halves of one line. The ground truth is a halo behind nodes and edges. A sentence is drawn
    as its words in rows with arcs, superpixels (``shade``) as an image with the scores as heat over
    it, a molecule (``smiles``) as a structural formula with the scores as colours behind it, and
    the graph of one node's prediction around that node. When no edge stands out
    (``explanation.found`` is False) all lines are alike and the title says so.

    Args:
        explanation: The explained graph.
        path: A file to write: ``.svg``, ``.png`` or ``.pdf``. In an SVG, edges and nodes have
            ``data-`` attributes (``data-edge``, ``data-score``, …). (default: ``None``)
        options: The fields of :class:`gsat.draw.DrawingOptions`, such as ``title`` and ``top``.

    Returns:
        The matplotlib figure.

    Raises:
        GSATError: If an option is out of range or the file can't be written.
    """
    if path is not None:
        check_suffix(path, PICTURES)
    return _finished(explanation_sheet(explanation, DrawingOptions(**options)), path)


def explanation_svg(
    explanation: Explanation, *, bare: bool = False, at: Floats | None = None, **options: Any
) -> str:
    """Draw one explanation as SVG.

    Args:
        explanation: The explained graph.
        bare: Leave out the title and the legend, which a page can show by itself.
            (default: ``False``)
        at: Positions of the nodes, ``[N, 2]``, such as ``gsat.draw.scene.scene(explanation).at`` of
            an earlier picture; without ``crop``. (default: computed)
        options: The options of :func:`draw_explanation`.

    Returns:
        The text of an ``<svg>`` element, which can be a file or a part of a page.

    Example:
        >>> import gsat, torch
        >>> explanation = gsat.Explanation(
        ...     edge_index=torch.tensor([[0], [1]]), edge_mask=torch.tensor([0.9]), num_nodes=2,
        ...     undirected=False,
        ... )
        >>> svg = gsat.draw.explanation_svg(explanation)
        >>> svg[:4], svg.count('data-score="0.9000"')
        ('<svg', 1)
    """
    return sheet_svg(explanation_sheet(explanation, DrawingOptions(**options), bare, at))


def explanation_sheet(
    explanation: Explanation,
    options: DrawingOptions,
    bare: bool = False,
    at: Floats | None = None,
) -> Sheet:
    """Compose the picture of one explanation."""
    rest, chosen, left_out = cropped(explanation, options)
    picture = picture_of(rest, chosen, at=at if rest is explanation else None)
    wide, high = picture.size
    if bare:
        title = explanation.caption(options.class_names) or "explained graph"
        part = picture.part((0.0, 0.0, wide, high))
        return Sheet((wide, high), [part], title=title, about=describe(explanation))
    width = max(wide, NARROWEST)
    lines = _title(explanation, options.title, options.class_names, width=int(14 * width))
    uncertain = picture.uncertain if isinstance(picture, MoleculePicture) else ""
    remarks = [left_out, uncertain, _doubt(explanation, options), explanation.reliability]
    notes = _wrapped(remarks, int(14 * width))
    entries = picture.entries()
    foot = legend_height(entries, width) if entries else _HEAD
    head = _HEAD + LINE * (len(lines) + len(notes))
    part = picture.part(((width - wide) / 2, foot, wide, high), title=lines, note=notes)
    return Sheet(
        (width, foot + high + head),
        [part, *legend_part(entries, width)],
        title=" · ".join(lines) or "explained graph",
        about=describe(explanation),
    )


def describe(explanation: Explanation) -> str:
    """Describe an explanation in words, with its best edges, for readers who can't see."""
    names = explanation.node_names()
    joint = "–" if explanation.undirected else "→"
    count = int(explanation.num_nodes or 0)
    out = f"A graph of {count} nodes and {explanation.num_units} edges. {explanation.message}."
    if measured := explanation.reliability:
        out += f" {measured[0].upper()}{measured[1:]}."
    if not explanation.found:
        return out
    best = [
        f"{names[edge.source]} {joint} {names[edge.target]} ({edge.score:.2f})"
        for edge in explanation.ranked_edges()[:5]
    ]
    return f"{out} Highest scores: {', '.join(best)}."


def draw_grid(
    explanations: Sequence[Explanation],
    path: str | Path | None = None,
    columns: int = 4,
    *,
    titles: Sequence[str] | None = None,
    **options: Any,
) -> Figure:
    """Draw several explained graphs row by row in one picture, with one scale and one legend.

    Args:
        explanations: The explained graphs.
        path: A file to write: ``.svg``, ``.png`` or ``.pdf``. (default: ``None``)
        columns: How many graphs stand side by side. (default: ``4``)
        titles: One line per graph. (default: ``None``)
        options: The options of :func:`draw_explanation`, but for ``title``.

    Returns:
        The matplotlib figure.

    Raises:
        GSATError: If there is nothing to draw, or an option is out of range.
    """
    style = DrawingOptions(**options)
    if path is not None:
        check_suffix(path, PICTURES)
    if not explanations:
        raise GSATError("there is no explanation to draw: a grid needs at least one")
    if columns < 1:
        raise GSATError(f"a grid needs at least 1 column, not {columns}")
    if titles is not None and len(titles) != len(explanations):
        raise GSATError(f"{len(titles)} titles came for {len(explanations)} explanations")
    style, colours = common_scale(explanations, style)
    cells: list[_Cell] = []
    for i, explanation in enumerate(explanations):
        rest, own, left_out = cropped(explanation, style)
        own = replace(own, scale=style.scale)
        picture = picture_of(rest, own, width=_CELL[0] - 0.1, font=7.5, colours=colours)
        name = titles[i] if titles is not None else None
        title = _title(explanation, name, style.class_names, width=38, short=True)
        note = _wrapped([left_out, _doubt(explanation, style)], 42)
        cells.append(_Cell(picture, title, note))
    rows = []
    for first in range(0, len(cells), columns):
        row = cells[first : first + columns]
        head = _HEAD + LINE * max(len(cell.title) + len(cell.note) for cell in row)
        rows.append(_Row(row, head, max(_height(cell.picture, _CELL) for cell in row)))
    entries = [entry for cell in cells for entry in cell.picture.entries()]
    about = " ".join(describe(explanation) for explanation in explanations[:4])
    wide = [_CELL[0]] * min(columns, len(cells))
    sheet = _table(rows, wide, entries, f"{len(explanations)} explained graphs", about)
    return _finished(sheet, path)


@dataclass(frozen=True)
class _Cell:
    """A picture of a table, with the lines above it and a short text below it."""

    picture: Picture
    title: Sequence[str] = ()
    note: Sequence[str] = ()
    caption: str = ""


@dataclass(frozen=True)
class _Row:
    """A row of a table; heights are in inches."""

    cells: Sequence[_Cell]
    head: float  # height of the titles
    height: float  # height of the pictures
    foot: float = 0.0  # height of the captions
    label: str = ""  # text at its left


def _table(
    rows: Sequence[_Row], wide: Sequence[float], entries: Sequence[Entry], title: str, about: str
) -> Sheet:
    """Compose rows of pictures, given the widths of the columns, with one legend."""
    indent = _LABEL if any(row.label for row in rows) else 0.0
    width = indent + sum(wide)
    floor = legend_height(entries, width) if entries else _HEAD
    floor = height = floor + sum(row.head + row.height + row.foot for row in rows)
    parts: list[Part] = []
    texts: list[Texts] = []
    for row in rows:
        floor -= row.head + row.height
        if row.label:
            at = np.array([[0.24, floor + row.height / 2]])
            texts.append(Texts("words", at, [row.label], 9.5, angle=90))
        left = indent
        for cell, room in zip(row.cells, wide, strict=False):
            box = (left + 0.04, floor, room - 0.08, row.height)
            parts.append(cell.picture.part(box, title=cell.title, note=cell.note, font=8.5))
            if cell.caption:
                at = np.array([[left + room / 2, floor - 0.12]])
                texts.append(Texts("words", at, [cell.caption], 8))
            left += room
        floor -= row.foot
    return Sheet((width, height), [*parts, *legend_part(entries, width)], texts, title, about)


def _finished(sheet: Sheet, path: str | Path | None) -> Figure:
    """Make a figure, and write it where a path is given."""
    figure = sheet_figure(sheet)
    if path is not None:
        suffix = check_suffix(path, PICTURES)
        svg = suffix == ".svg"
        write_output(path, sheet_svg(sheet).encode() if svg else render(figure, suffix))
    return figure


def _doubt(explanation: Explanation, options: DrawingOptions) -> str:
    reason = options.doubt_of(explanation)
    return f"unreliable: {reason}" if reason else ""


def _wrapped(texts: Sequence[str], width: int) -> list[str]:
    return [line for text in texts for line in textwrap.wrap(text, width)]


def _title(
    explanation: Explanation,
    title: str | None,
    names: Sequence[str] | None,
    width: int,
    short: bool = False,
) -> list[str]:
    """Compose the lines of a title."""
    out = [title] if title else []
    text = explanation.caption(names)
    # Too long for a line, it breaks between the prediction and the truth.
    out += [text] if len(text) <= width else text.replace(", true ", ",\ntrue ").split("\n")
    if not explanation.found:
        what, _, why = explanation.message.partition(": ")
        whole = f"{what}: {why}"
        out += [what] if short else [whole] if len(whole) <= width else [f"{what}:", why]
    return _wrapped(out, width)


@dataclass(frozen=True)
class ExampleRow:
    """Explanations of the same graphs by one method."""

    label: str  # text at the left of the row
    explanations: Sequence[Explanation]  # one per column
    captions: Sequence[str] = ()  # short texts below the pictures
    scored: bool = True  # whether scores have a scale in the legend; not so for the ground truth


def draw_examples(
    rows: Sequence[ExampleRow],
    path: str | Path | None = None,
    *,
    titles: Sequence[str] | None = None,
    node_types: Sequence[str] | None = None,
    columns: int | None = None,
    sharpen: float = SHARPEN,
) -> Figure:
    """Draw a page of examples: rows are methods, and columns are graphs with one title each.

    A graph has the same layout in all rows. The scores of a row have one scale, which is in the
    legend. At most ``columns`` graphs stand side by side, and the others follow below.
    """
    if path is not None:
        check_suffix(path, PICTURES)
    options = DrawingOptions(node_types=node_types, sharpen=sharpen)
    _check(rows, titles, columns)
    count = len(rows[0].explanations)
    columns = min(columns or count, count)
    cells = _pictures(rows, options)
    size = _GRAPH if node_types is None else _NAMED
    wide = [max(_width(r[g], size) for r in cells for g in range(c, count, columns))
            for c in range(columns)]  # fmt: skip
    placed = []
    for first in range(0, count, columns):
        block = range(first, min(first + columns, count))
        names, head = titles, 0.08 if titles is None else _TITLE  # above the first row
        for row, pictures in zip(rows, cells, strict=True):
            listed = [
                _Cell(
                    pictures[graph],
                    title=[] if names is None else [names[graph]],
                    caption=row.captions[graph] if row.captions else "",
                )
                for graph in block
            ]
            height = max(_height(pictures[graph], size) for graph in block)
            foot = _CAPTION if row.captions else 0.06
            placed.append(_Row(listed, head, height, foot, row.label))
            names, head = None, 0.0
    about = f"Explanations by {', '.join(row.label for row in rows)} of {count} graphs."
    sheet = _table(placed, wide, _entries(rows, cells), about.removesuffix("."), about)
    return _finished(sheet, path)


def _pictures(rows: Sequence[ExampleRow], options: DrawingOptions) -> list[list[Picture]]:
    """Prepare the pictures row by row; each graph is laid out once."""
    out: list[list[Picture]] = []
    for row in rows:
        cells: list[Picture] = []
        own, colours = common_scale(row.explanations, options)
        for graph, explanation in enumerate(row.explanations):
            known = out[0][graph] if out else None
            at = known.scene.at if isinstance(known, GraphPicture) else None
            picture = picture_of(
                explanation, own, width=_SENTENCE, font=_SENTENCE_FONT, at=at, colours=colours
            )
            if isinstance(picture, GraphPicture) and options.node_types is None:
                # Node numbers do not help on a page of examples.
                bare = replace(picture.scene, labels=[""] * len(picture.scene.at))
                picture = replace(picture, scene=bare)
            if isinstance(picture, ImagePicture) and not row.scored:
                picture = replace(picture, score=None)  # its outline is the truth
            cells.append(picture)
        out.append(cells)
    return out


def _entries(rows: Sequence[ExampleRow], cells: Sequence[Sequence[Picture]]) -> list[Entry]:
    """Return the legend: the scale of each row, then what all of them share."""
    scored = [row for row in rows if row.scored]
    out = []
    for row, pictures in zip(rows, cells, strict=True):
        for picture in pictures:
            found = picture.entries(row.label if len(scored) > 1 else "")
            scales = ("scale", "heat", "formula")
            out += [entry for entry in found if row.scored or entry.kind not in scales]
    return sorted(out, key=lambda entry: entry.kind not in ("scale", "heat", "formula"))


def _check(rows: Sequence[ExampleRow], titles: Sequence[str] | None, columns: int | None) -> None:
    if not rows or not rows[0].explanations:
        raise GSATError("there is no example to draw: give at least one row with one graph")
    if columns is not None and columns < 1:
        raise GSATError(f"a page of examples needs at least 1 column, not {columns}")
    first = rows[0]
    count = len(first.explanations)
    if titles is not None and len(titles) != count:
        raise GSATError(f"{len(titles)} titles came for {count} graphs")
    for row in rows:
        if len(row.explanations) != count:
            raise GSATError(
                f"row '{row.label}' has {len(row.explanations)} graphs, row '{first.label}' "
                f"{count}; give as many in all"
            )
        if row.captions and len(row.captions) != count:
            raise GSATError(
                f"row '{row.label}' has {len(row.captions)} captions for {count} graphs"
            )
        for c, (one, other) in enumerate(zip(first.explanations, row.explanations, strict=True)):
            if one.num_nodes != other.num_nodes or not one.edge_index.equal(other.edge_index):
                raise GSATError(
                    f"graph {c} of row '{first.label}' is another one in row "
                    f"'{row.label}'; explain the same graphs in the same order"
                )


def _width(cell: Picture, size: tuple[float, float]) -> float:
    return max(cell.size[0] + 0.1, 1.6) if isinstance(cell, Sentence) else size[0]


def _height(cell: Picture, size: tuple[float, float]) -> float:
    if isinstance(cell, MoleculePicture):
        wide, high = cell.size
        return float(np.clip(high * min(1.0, size[0] / wide) + 0.1, 0.9, size[1]))
    return cell.size[1] if isinstance(cell, Sentence) else size[1]
