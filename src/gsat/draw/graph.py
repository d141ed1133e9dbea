"""Explained graphs as pictures.

Darker and wider lines are the edges the model used; the ground truth, where known, is a pink halo.
Only ``matplotlib.figure.Figure`` is used, never ``pyplot``: nothing is global, so threads may draw.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gsat.core.errors import GSATError
from gsat.core.writing import check_suffix, write_output
from gsat.draw.files import PICTURES, render
from gsat.draw.legend import legend_height, legend_part
from gsat.draw.matplotlib_figure import sheet_figure
from gsat.draw.options import SHARPEN, DrawingOptions
from gsat.draw.paint import NARROWEST
from gsat.draw.pictures import Picture, common_scale, cropped, note_of, picture_of
from gsat.draw.sentence import Sentence
from gsat.draw.sheet import LINE, Floats, Sheet
from gsat.draw.svg import sheet_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gsat.explanation import Explanation

# Inches.
_HEAD: Final = 0.12
_CELL: Final = (2.6, 2.1)


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
    explanation: Explanation,
    path: str | Path | None = None,
    *,
    title: str | None = None,
    top: int | str | None = None,
    node_types: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    sharpen: float = SHARPEN,
    aromatic: bool = False,
    numbers: bool = False,
    truth: bool = True,
    crop: bool | int = False,
    edges: bool = False,
    spread: Any = None,
    doubt: str | None = None,
    scale: tuple[float, float] | None = None,
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
        title: A line above the prediction. (default: ``None``)
        top: Emphasise this many edges, or this share of them (``"20%"``); the others become faint.
            (default: ``None``)
        node_types: Names by which nodes are labelled, in the order of the columns of a one-hot
            ``x``. Without them nodes of small graphs show their number.
            (default: the explanation's own ``node_types``, if any)
        class_names: Names of the classes (or labels) for the title.
            (default: the explanation's own ``class_names``, if any)
        sharpen: Above 1 raises the contrast between high and low scores. (default: ``2.0``)
        aromatic: In a molecule, draw aromatic bonds dashed, instead of single and double bonds in
            turn. (default: ``False``)
        numbers: In a molecule, write the number of its node beside each atom.
            (default: ``False``)
        truth: Show the ground truth, where it is known. (default: ``True``)
        crop: Leave out what is farther than so many hops (``True``: 1) from the explanation: the
            edges of ``top`` or, without it, the upper half of the scale. (default: ``False``)
        edges: Draw the edges over an image, too. (default: ``False``)
        spread: How uncertain each score is, ``[E]``, such as the standard deviation over an
            ensemble; lines of uncertain scores are dashed.
            (default: the explanation's own ``edge_spread``, if any)
        doubt: Why the explanation is unreliable: it is drawn pale, and the reason stands over it.
            (default: the explanation's own ``doubt``, if any)
        scale: The lowest and the highest score of the scale, so that pictures can be compared.
            (default: those of the graph)

    Returns:
        The matplotlib figure.

    Raises:
        GSATError: If an option is out of range or the file can't be written.
    """
    given = locals()
    options = DrawingOptions(**{field.name: given[field.name] for field in fields(DrawingOptions)})
    if path is not None:
        check_suffix(path, PICTURES)
    return finished(explanation_sheet(explanation, options), path)


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
    lines = title_lines(explanation, options.title, options.class_names, width=int(14 * width))
    note = [left_out, note_of(picture), _doubt(explanation, options), explanation.reliability]
    notes = [part for text in note for part in textwrap.wrap(text, int(14 * width))]
    entries = picture.entries()
    foot = legend_height(entries, width) if entries else _HEAD
    head = _HEAD + LINE * (len(lines) + len(notes))
    part = picture.part(((width - wide) / 2, foot, wide, high), lines, notes)
    return Sheet(
        (width, foot + high + head),
        [part, *legend_part(entries, width)],
        title=" · ".join(lines) or "explained graph",
        about=describe(explanation),
    )


def describe(explanation: Explanation) -> str:
    """Describe an explanation for readers who can't see its picture: the best edges in words."""
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
    top: int | str | None = None,
    node_types: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    sharpen: float = SHARPEN,
    **options: Any,
) -> Figure:
    """Draw several explained graphs row by row in one picture, with one scale and one legend.

    Args:
        explanations: The explained graphs.
        path: A file to write: ``.svg``, ``.png`` or ``.pdf``. (default: ``None``)
        columns: How many graphs stand side by side. (default: ``4``)
        titles: One line per graph. (default: ``None``)
        top: As in :func:`draw_explanation`. (default: ``None``)
        node_types: As in :func:`draw_explanation`. (default: ``None``)
        class_names: As in :func:`draw_explanation`. (default: ``None``)
        sharpen: As in :func:`draw_explanation`. (default: ``2.0``)
        options: The other options of :func:`draw_explanation`.

    Returns:
        The matplotlib figure.

    Raises:
        GSATError: If there is nothing to draw, or an option is out of range.
    """
    style = DrawingOptions(
        top=top, node_types=node_types, class_names=class_names, sharpen=sharpen, **options
    )
    if path is not None:
        check_suffix(path, PICTURES)
    if not explanations:
        raise GSATError("there is no explanation to draw: a grid needs at least one")
    if columns < 1:
        raise GSATError(f"a grid needs at least 1 column, not {columns}")
    if titles is not None and len(titles) != len(explanations):
        raise GSATError(f"{len(titles)} titles came for {len(explanations)} explanations")
    columns = min(columns, len(explanations))
    rows = -(-len(explanations) // columns)
    style, colours = common_scale(explanations, style)
    pictures: list[Picture] = []
    words: list[tuple[list[str], list[str]]] = []
    for i, explanation in enumerate(explanations):
        rest, own, left_out = cropped(explanation, style)
        own = replace(own, scale=style.scale)
        pictures.append(picture_of(rest, own, width=_CELL[0] - 0.1, font=7.5, colours=colours))
        name = titles[i] if titles is not None else None
        lines = title_lines(explanation, name, class_names, width=38, short=True)
        notes = [left_out, _doubt(explanation, style)]
        words.append((lines, [part for text in notes for part in textwrap.wrap(text, 42)]))
    wide = _CELL[0]
    heads, heights = [], []
    for row in range(rows):
        own_row = slice(row * columns, (row + 1) * columns)
        heads.append(_HEAD + LINE * max(len(lines) + len(notes) for lines, notes in words[own_row]))
        high = [p.size[1] for p in pictures[own_row] if isinstance(p, Sentence)]
        heights.append(max([*high, _CELL[1]] if len(high) < len(words[own_row]) else high))
    entries = [entry for picture in pictures for entry in picture.entries()]
    width = columns * wide
    foot = legend_height(entries, width) if entries else _HEAD
    height = foot + sum(heads) + sum(heights)
    parts = []
    for i, picture in enumerate(pictures):
        row, column = divmod(i, columns)
        bottom = height - sum(heads[: row + 1]) - sum(heights[: row + 1])
        box = (column * wide + 0.04, bottom, wide - 0.08, heights[row])
        parts.append(picture.part(box, *words[i], font=8.5))
    about = " ".join(describe(explanation) for explanation in explanations[:4])
    sheet = Sheet((width, height), [*parts, *legend_part(entries, width)],
                  title=f"{len(explanations)} explained graphs", about=about)  # fmt: skip
    return finished(sheet, path)


def finished(sheet: Sheet, path: str | Path | None) -> Figure:
    """Make a figure, and write it where a path is given."""
    figure = sheet_figure(sheet)
    if path is not None:
        suffix = check_suffix(path, PICTURES)
        write_output(
            path, sheet_svg(sheet).encode() if suffix == ".svg" else render(figure, suffix)
        )
    return figure


def _doubt(explanation: Explanation, options: DrawingOptions) -> str:
    reason = options.doubt_of(explanation)
    return f"not to be relied on: {reason}" if reason else ""


def title_lines(
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
    return [line for text in out for line in textwrap.wrap(text, width)]
