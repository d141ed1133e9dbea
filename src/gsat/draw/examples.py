"""A page of examples: a row per method (or the truth), a column per graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gsat.draw.files import check_suffix, new_figure, render, write
from gsat.draw.graph import SHARPEN, check_drawing
from gsat.draw.paint import INK, legend, paint
from gsat.draw.scene import Scene, scene
from gsat.draw.sentence import Sentence, paint_sentence, sentence
from gsat.errors import GSATError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gsat.graphs import Explanation

# Inches.
_LABEL: Final = 0.34
_TITLE: Final = 0.3
_CAPTION: Final = 0.2
_LEGEND: Final = 0.34
_GRAPH: Final = (1.9, 1.7)
_SENTENCE: Final = 3.4
_SENTENCE_FONT: Final = 9.0


@dataclass(frozen=True)
class Row:
    """Explanations of the same graphs by one method.

    Attributes:
        label: stands at the left. explanations: one per column.
        captions: a short text under each, or none at all.
    """

    label: str
    explanations: Sequence[Explanation]
    captions: Sequence[str] = ()


def draw_examples(
    rows: Sequence[Row],
    path: str | Path | None = None,
    *,
    titles: Sequence[str] | None = None,
    node_types: Sequence[str] | None = None,
    sharpen: float = SHARPEN,
) -> Figure:
    """Draw a page of examples; written when ``path`` is given (.svg, .png or .pdf).

    A graph has the same layout in all rows. Scores are stretched to [0, 1] within each graph.

    Args:
        titles: one per column, over the first row. node_types, sharpen: as in
            :func:`gsat.draw.draw_explanation`.
    """
    check_drawing(path, sharpen)
    _check(rows, titles)
    columns = len(rows[0].explanations)
    cells: list[list[Scene | Sentence]] = []
    for row in rows:
        known = [cell.at if isinstance(cell, Scene) else None for cell in cells[0]] if cells else []
        cells.append(
            [
                sentence(e, None, _SENTENCE, _SENTENCE_FONT)
                or scene(e, None, node_types, at=known[c] if known else None)
                for c, e in enumerate(row.explanations)
            ]
        )
    wide = [max(_width(row[c]) for row in cells) for c in range(columns)]
    high = [max(_height(cell) for cell in row) for row in cells]
    under = [_CAPTION if row.captions else 0.06 for row in rows]
    top = _TITLE if titles is not None else 0.08
    width, height = _LABEL + sum(wide), top + sum(high) + sum(under) + _LEGEND
    figure = new_figure(width, height)

    def words(x: float, y: float, text: str, size: float, **look: object) -> None:
        figure.text(x / width, y / height, text, fontsize=size, color=INK, parse_math=False, **look)

    for c, title in enumerate(titles or ()):
        middle = _LABEL + sum(wide[:c]) + wide[c] / 2
        words(middle, height - top + 0.08, title, 9, ha="center", va="baseline")
    floor = height - top
    for r, row in enumerate(rows):
        floor -= high[r]
        words(0.2, floor + high[r] / 2, row.label, 9.5, ha="center", va="center", rotation=90)
        for c, cell in enumerate(cells[r]):
            left = _LABEL + sum(wide[:c])
            box = (left / width, floor / height, wide[c] / width, high[r] / height)
            inches = (wide[c], high[r])
            if isinstance(cell, Sentence):
                paint_sentence(figure, box, inches, cell, (), sharpen)
            else:
                paint(figure, box, inches, cell, [], sharpen)
            if row.captions:
                words(left + wide[c] / 2, floor - 0.12, row.captions[c], 8, ha="center")
        floor -= under[r]
    flat = [cell for row in cells for cell in row]
    scenes = [cell.scene if isinstance(cell, Sentence) else cell for cell in flat]
    told = "important word" if any(isinstance(cell, Sentence) for cell in flat) else ""
    legend(figure, scenes, None, told)
    if path is not None:
        write(path, render(figure, check_suffix(path)))
    return figure


def _check(rows: Sequence[Row], titles: Sequence[str] | None) -> None:
    if not rows or not rows[0].explanations:
        raise GSATError("there is no example to draw: give at least one row with one graph")
    first = rows[0]
    count = len(first.explanations)
    if titles is not None and len(titles) != count:
        raise GSATError(f"{len(titles)} titles came for {count} columns")
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
                    f"column {c} shows one graph in row '{first.label}' and another in row "
                    f"'{row.label}'; explain the same graphs in the same order"
                )


def _width(cell: Scene | Sentence) -> float:
    return max(cell.size[0], 1.2) if isinstance(cell, Sentence) else _GRAPH[0]


def _height(cell: Scene | Sentence) -> float:
    return cell.size[1] if isinstance(cell, Sentence) else _GRAPH[1]
