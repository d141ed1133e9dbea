"""Explained graphs as pictures.

Darker and wider lines are the edges the model used; the ground truth, where known, is pink. Only
``matplotlib.figure.Figure`` is used, never ``pyplot``: nothing is global, so threads may draw.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gsat.draw.caption import answer
from gsat.draw.files import check_suffix, new_figure, render, write
from gsat.draw.molecule import ColourScale, formula
from gsat.draw.molecule_picture import picture_figure
from gsat.draw.paint import legend, paint
from gsat.draw.scene import scene
from gsat.draw.sentence import Sentence, paint_sentence, sentence
from gsat.errors import GSATError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gsat.explanation import Explanation

SHARPEN: Final = 2.0
# Inches.
_LEGEND: Final = 0.34
_NARROWEST, _WIDEST = 3.8, 7.0
MOLECULE_TITLE: Final = 52  # characters


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
) -> Figure:
    """Draw one explained graph.

    The opacity and width of an edge follow its score, stretched to the graph's own range and raised
    to the power ``sharpen``. Both directions of an undirected edge are one line; directed edges
    have arrowheads. Nodes and edges of the ground truth are pink. A sentence is drawn as its words
    in rows, superpixels (``shade``) at their positions (``pos``), and a molecule (``smiles``) as a
    structural formula with the scores as colours behind it. When no edge stands out
    (``explanation.found`` is False) all lines are alike and the title says so.

    Args:
        explanation: The explained graph.
        path: A file to write: ``.svg``, ``.png`` or ``.pdf``. (default: ``None``)
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

    Returns:
        The matplotlib figure.

    Raises:
        GSATError: If ``sharpen`` or ``top`` is out of range or the file can't be written.
    """
    check_drawing(path, sharpen)
    molecule = formula(explanation, top)
    if molecule is not None:
        scale = ColourScale.of([explanation])
        lines = title_lines(explanation, title, class_names, width=MOLECULE_TITLE)
        figure = picture_figure(
            *(molecule, scale, lines),
            label=scale_label(explanation, top),
            aromatic=aromatic,
            numbers=numbers,
        )
        if path is not None:
            write(path, render(figure, check_suffix(path)))
        return figure
    text = sentence(explanation, top, _WIDEST)
    if text is not None:
        return _draw_sentence(explanation, text, path, title, top, class_names, sharpen)
    picture = scene(explanation, top, node_types)
    # An edge is half an inch, or more where crowded nodes would become too small.
    unit = max(0.5, 0.07 / picture.radius)
    wide, high = np.clip(unit * picture.box[1], (_NARROWEST, 1.2), (_WIDEST, 7.0))
    lines = title_lines(explanation, title, class_names, width=int(14 * wide))
    head = 0.12 + 0.19 * len(lines)
    figure = new_figure(wide, high + head + _LEGEND)
    box = (0, _LEGEND / (high + head + _LEGEND), 1, high / (high + head + _LEGEND))
    paint(figure, box, (wide, high), picture, lines, sharpen)
    legend(figure, [picture], top)
    if path is not None:
        write(path, render(figure, check_suffix(path)))
    return figure


def _draw_sentence(
    explanation: Explanation,
    text: Sentence,
    path: str | Path | None,
    title: str | None,
    top: int | str | None,
    class_names: Sequence[str] | None,
    sharpen: float,
) -> Figure:
    wide, high = max(text.size[0], 4.8), max(text.size[1], 0.7)
    lines = title_lines(explanation, title, class_names, width=int(14 * wide))
    head = 0.12 + 0.19 * len(lines)
    whole = high + head + _LEGEND
    figure = new_figure(wide, whole)
    box = (0, _LEGEND / whole, 1, high / whole)
    paint_sentence(figure, box, (wide, high), text, lines, sharpen)
    on_nodes = explanation.get("node_mask") is not None
    legend(
        figure, [text.scene], top, "word, by its score" if on_nodes else "word, by its highest edge"
    )
    if path is not None:
        write(path, render(figure, check_suffix(path)))
    return figure


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
) -> Figure:
    """Draw several explained graphs row by row in one picture with one legend.

    Args:
        explanations: The explained graphs.
        path: A file to write: ``.svg``, ``.png`` or ``.pdf``. (default: ``None``)
        columns: How many graphs stand side by side. (default: ``4``)
        titles: One line per graph. (default: ``None``)
        top: As in :func:`draw_explanation`. (default: ``None``)
        node_types: As in :func:`draw_explanation`. (default: ``None``)
        class_names: As in :func:`draw_explanation`. (default: ``None``)
        sharpen: As in :func:`draw_explanation`. (default: ``2.0``)

    Returns:
        The matplotlib figure.

    Raises:
        GSATError: If there is nothing to draw, or an option is out of range.
    """
    check_drawing(path, sharpen)
    if not explanations:
        raise GSATError("there is no explanation to draw: a grid needs at least one")
    if columns < 1:
        raise GSATError(f"a grid needs at least 1 column, not {columns}")
    if titles is not None and len(titles) != len(explanations):
        raise GSATError(f"{len(titles)} titles came for {len(explanations)} explanations")
    columns = min(columns, len(explanations))
    rows = -(-len(explanations) // columns)
    scenes = [scene(explanation, top, node_types) for explanation in explanations]
    words = [
        title_lines(
            explanation,
            titles[i] if titles is not None else None,
            class_names,
            width=38,
            short=True,
        )
        for i, explanation in enumerate(explanations)
    ]
    wide, high = 2.6, 2.1
    heads = [
        0.12 + 0.19 * max(len(w) for w in words[r * columns : (r + 1) * columns])
        for r in range(rows)
    ]
    width, height = columns * wide, rows * high + sum(heads) + _LEGEND
    figure = new_figure(width, height)
    for i, picture in enumerate(scenes):
        row, column = divmod(i, columns)
        bottom = height - sum(heads[: row + 1]) - (row + 1) * high
        box = (column / columns, bottom / height, 1 / columns, high / height)
        paint(figure, box, (wide, high), picture, words[i], sharpen, font=8.5)
    legend(figure, scenes, top)
    if path is not None:
        write(path, render(figure, check_suffix(path)))
    return figure


def check_drawing(path: str | Path | None, sharpen: float) -> None:
    """Raise a :class:`GSATError` for an unknown suffix or a wrong ``sharpen`` before drawing."""
    if path is not None:
        check_suffix(path)
    if not sharpen > 0:
        raise GSATError(f"sharpen must be above 0 (1 leaves the scores as they are), not {sharpen}")


def title_lines(
    explanation: Explanation,
    title: str | None,
    names: Sequence[str] | None,
    width: int,
    short: bool = False,
) -> list[str]:
    """Compose the lines of a title.

    Args:
        explanation: The explained graph.
        title: A line above the prediction.
        names: Names of the classes.
        width: The most characters of a line.
        short: Leave out why nothing stands out, or why it is no finding. (default: ``False``)
    """
    out = [title] if title else []
    text = answer(explanation, names)
    # Too long for a line, it breaks between the prediction and the truth.
    out += [text] if len(text) <= width else text.replace(", true ", ",\ntrue ").split("\n")
    if not explanation.found:
        what, _, why = explanation.message.partition(": ")
        whole = f"{what}: {why}"
        out += [what] if short else [whole] if len(whole) <= width else [f"{what}:", why]
    elif explanation.get("doubt"):
        out.append("no finding" if short else explanation.message)
    return [line for text in out for line in textwrap.wrap(text, width)]


def scale_label(explanation: Explanation, top: int | str | None) -> str:
    """Say what the colours of a molecule mean; empty if nothing is coloured."""
    if not explanation.found:
        return ""
    if top is not None:
        return f"score of the top {str(top).strip()} bonds"
    return "bond score" if explanation.get("node_mask") is None else "atom score"
