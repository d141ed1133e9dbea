"""A page of examples: a row per method (or the truth), a column per graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gsat.draw.files import check_suffix, new_figure, render, write
from gsat.draw.graph import SHARPEN, check_drawing
from gsat.draw.paint import INK, legend, paint
from gsat.draw.scene import Scene, scene
from gsat.draw.sentence import Sentence, paint_sentence, sentence
from gsat.errors import GSATError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gsat.explanation import Explanation

# Inches.
_LABEL: Final = 0.34
_TITLE: Final = 0.3
_CAPTION: Final = 0.2
_LEGEND: Final = 0.34
_GRAPH: Final = (2.0, 1.7)
_NAMED: Final = (2.9, 2.3)  # names of nodes need room
_SENTENCE: Final = 4.4
_SENTENCE_FONT: Final = 9.0


@dataclass(frozen=True)
class ExampleRow:
    """Explanations of the same graphs by one method.

    Attributes:
        label: Text at the left of the row.
        explanations: One per column.
        captions: A short text under each, or none at all.
    """

    label: str
    explanations: Sequence[Explanation]
    captions: Sequence[str] = ()


def draw_examples(
    rows: Sequence[ExampleRow],
    path: str | Path | None = None,
    *,
    titles: Sequence[str] | None = None,
    node_types: Sequence[str] | None = None,
    columns: int | None = None,
    sharpen: float = SHARPEN,
) -> Figure:
    """Draw a page of examples.

    A graph has the same layout in all rows. Scores are stretched to [0, 1] within each graph.

    Args:
        rows: One row per method; all rows hold the same graphs in the same order.
        path: A file to write: ``.svg``, ``.png`` or ``.pdf``. (default: ``None``)
        titles: One title per graph, above the first row. (default: ``None``)
        node_types: As in :func:`gsat.draw.draw_explanation`. (default: ``None``)
        columns: How many graphs stand side by side; the others follow below. (default: all)
        sharpen: As in :func:`gsat.draw.draw_explanation`. (default: ``2.0``)

    Returns:
        The matplotlib figure.

    Raises:
        GSATError: If there is nothing to draw, or rows hold different graphs.
    """
    check_drawing(path, sharpen)
    _check(rows, titles, columns)
    count = len(rows[0].explanations)
    columns = min(columns or count, count)
    cells = _cells(rows, node_types)
    size = _GRAPH if node_types is None else _NAMED
    wide = [max(_width(r[g], size) for r in cells for g in range(c, count, columns))
            for c in range(columns)]  # fmt: skip
    blocks = [range(first, min(first + columns, count)) for first in range(0, count, columns)]
    top = _TITLE if titles is not None else 0.08
    under = [_CAPTION if row.captions else 0.06 for row in rows]
    high = [[max(_height(row[g], size) for g in block) for row in cells] for block in blocks]
    width = _LABEL + sum(wide)
    height = sum(top + sum(h) + sum(under) for h in high) + _LEGEND
    figure = new_figure(width, height)

    def write_text(x: float, y: float, text: str, size: float, **style: Any) -> None:
        style = {"ha": "center", "color": INK, "parse_math": False, **style}
        figure.text(x / width, y / height, text, fontsize=size, **style)

    floor = height
    for block, heights in zip(blocks, high, strict=True):
        floor -= top
        lefts = [_LABEL + sum(wide[:c]) for c in range(len(block))]
        for left, room, graph in zip(lefts, wide, block, strict=False):
            if titles is not None:
                write_text(left + room / 2, floor + 0.08, titles[graph], 9)
        for row, drawn, tall, below in zip(rows, cells, heights, under, strict=True):
            floor -= tall
            write_text(0.2, floor + tall / 2, row.label, 9.5, va="center", rotation=90)
            for left, room, graph in zip(lefts, wide, block, strict=False):
                box = (left / width, floor / height, room / width, tall / height)
                cell = drawn[graph]
                if isinstance(cell, Sentence):
                    paint_sentence(figure, box, (room, tall), cell, (), sharpen)
                else:
                    paint(figure, box, (room, tall), cell, [], sharpen)
                if row.captions:
                    write_text(left + room / 2, floor - 0.12, row.captions[graph], 8)
            floor -= below
    flat = [cell for row in cells for cell in row]
    words = "important word" if any(isinstance(cell, Sentence) for cell in flat) else ""
    legend(figure, [c.scene if isinstance(c, Sentence) else c for c in flat], None, words)
    if path is not None:
        write(path, render(figure, check_suffix(path)))
    return figure


def _cells(
    rows: Sequence[ExampleRow], node_types: Sequence[str] | None
) -> list[list[Scene | Sentence]]:
    """Prepare what is drawn, row by row; the layout is found once for each graph."""
    out: list[list[Scene | Sentence]] = []
    for row in rows:
        cells: list[Scene | Sentence] = []
        for graph, explanation in enumerate(row.explanations):
            text = sentence(explanation, None, _SENTENCE, _SENTENCE_FONT)
            if text is not None:
                cells.append(text)
                continue
            known = out[0][graph] if out else None
            at = known.at if isinstance(known, Scene) else None
            picture = scene(explanation, None, node_types, at=at)
            # Node numbers are no help on such a page.
            named = picture.labels if node_types is not None else [""] * len(picture.at)
            cells.append(replace(picture, labels=named))
        out.append(cells)
    return out


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


def _width(cell: Scene | Sentence, size: tuple[float, float]) -> float:
    return max(cell.size[0] + 0.1, 1.6) if isinstance(cell, Sentence) else size[0]


def _height(cell: Scene | Sentence, size: tuple[float, float]) -> float:
    return cell.size[1] if isinstance(cell, Sentence) else size[1]
