"""A page of examples: a row per method (or the truth), a column per graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from gsat.core.errors import GSATError
from gsat.core.writing import check_suffix
from gsat.draw.files import PICTURES
from gsat.draw.graph import finished
from gsat.draw.legend import Entry, legend_height, legend_part
from gsat.draw.molecule_picture import MoleculePicture
from gsat.draw.options import SHARPEN, DrawingOptions
from gsat.draw.paint import GraphPicture
from gsat.draw.pictures import Picture, common_scale, picture_of
from gsat.draw.sentence import Sentence
from gsat.draw.sheet import Sheet, Texts
from gsat.draw.superpixels import ImagePicture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gsat.explanation import Explanation

# Inches.
_LABEL: Final = 0.34
_TITLE: Final = 0.3
_CAPTION: Final = 0.2
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
        scored: Whether the scores are a model's; those of the ground truth need no scale in the
            legend. (default: ``True``)
    """

    label: str
    explanations: Sequence[Explanation]
    captions: Sequence[str] = ()
    scored: bool = True


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

    A graph has the same layout in all rows. The scores of a row have one scale, which is in the
    legend.

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
    if path is not None:
        check_suffix(path, PICTURES)
    options = DrawingOptions(node_types=node_types, sharpen=sharpen)
    _check(rows, titles, columns)
    count = len(rows[0].explanations)
    columns = min(columns or count, count)
    cells = _cells(rows, options)
    size = _GRAPH if node_types is None else _NAMED
    wide = [max(_width(r[g], size) for r in cells for g in range(c, count, columns))
            for c in range(columns)]  # fmt: skip
    blocks = [range(first, min(first + columns, count)) for first in range(0, count, columns)]
    top = _TITLE if titles is not None else 0.08
    under = [_CAPTION if row.captions else 0.06 for row in rows]
    high = [[max(_height(row[g], size) for g in block) for row in cells] for block in blocks]
    entries = _entries(rows, cells)
    width = _LABEL + sum(wide)
    foot = legend_height(entries, width) if entries else 0.1
    height = sum(top + sum(h) + sum(under) for h in high) + foot
    texts, parts = [], []

    def write_text(x: float, y: float, text: str, size: float, angle: float = 0.0) -> None:
        written = Texts("words", np.array([[x, y]]), [text], np.array([size]), ["ink"])
        texts.append((written, angle))

    floor = height
    for block, heights in zip(blocks, high, strict=True):
        floor -= top
        lefts = [_LABEL + sum(wide[:c]) for c in range(len(block))]
        for left, room, graph in zip(lefts, wide, block, strict=False):
            if titles is not None:
                write_text(left + room / 2, floor + 0.08, titles[graph], 9)
        for row, drawn, tall, below in zip(rows, cells, heights, under, strict=True):
            floor -= tall
            write_text(0.24, floor + tall / 2, row.label, 9.5, angle=90)
            for left, room, graph in zip(lefts, wide, block, strict=False):
                parts.append(drawn[graph].part((left + 0.03, floor, room - 0.06, tall)))
                if row.captions:
                    write_text(left + room / 2, floor - 0.12, row.captions[graph], 8)
            floor -= below
    about = f"Explanations by {', '.join(row.label for row in rows)} of {count} graphs."
    sheet = Sheet((width, height), [*parts, *legend_part(entries, width)], texts,
                  title=about.removesuffix("."), about=about)  # fmt: skip
    return finished(sheet, path)


def _cells(rows: Sequence[ExampleRow], options: DrawingOptions) -> list[list[Picture]]:
    """Prepare what is drawn, row by row; the layout is found once for each graph."""
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
                # Node numbers are no help on such a page.
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
