"""An image of superpixels: cells in the grey of the image, with their scores as heat over them.

A data set keeps the middle of a superpixel and its brightness, not its pixels. A cell is what is
nearer to its middle than to any other, which is close to how superpixels are found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gsat.draw.legend import Entry, spread_entries
from gsat.draw.marks import FADED, edge_strokes, line_styles, node_tags
from gsat.draw.paint import line_entries
from gsat.draw.scene import Floats, Scene
from gsat.draw.sheet import Areas, Layer, Part, Strokes

_SIDE: Final = 3.4  # inches
_INK: Final = 0.75  # opacity of the brightest superpixel
_HEAT: Final = 0.85  # opacity of the highest score
_THICK: Final = 2.6  # points, of edges over an image


@dataclass(frozen=True)
class ImagePicture:
    """An image.

    Attributes:
        scene: What to draw.
        cells: The cell of each node, ``[k, 2]`` each.
        score: Scores of the cells, ``[N]``; None if no edge stands out.
        sharpen: The power to which scores are raised.
        top: The budget, if there is one.
        edges: Whether all edges are drawn.
        scale: The lowest and the highest score of the heat; None for those of the image.
    """

    scene: Scene
    cells: list[Floats]
    score: Floats | None
    sharpen: float
    top: int | str | None = None
    edges: bool = False
    scale: tuple[float, float] | None = None

    @property
    def _range(self) -> tuple[float, float]:
        assert self.score is not None
        return self.scale or (float(self.score.min()), float(self.score.max()))

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches that suit the image."""
        low, high = self._corners
        wide, tall = high - low
        return (_SIDE * wide / max(wide, tall), _SIDE * tall / max(wide, tall))

    @property
    def _corners(self) -> tuple[Floats, Floats]:
        points = np.vstack(self.cells)
        return points.min(axis=0), points.max(axis=0)

    def part(
        self,
        box: tuple[float, float, float, float],
        title: Sequence[str] = (),
        note: Sequence[str] = (),
        font: float = 9.5,
    ) -> Part:
        """Fit the image into a part of a sheet; arguments as the fields of :class:`Part`."""
        low, high = self._corners
        unit = 0.97 * min(box[2] / (high - low)[0], box[3] / (high - low)[1])
        reach = np.array(box[2:]) / unit
        corner = (low + high - reach) / 2
        limits = (float(corner[0]), float(corner[1]), float(reach[0]), float(reach[1]))
        return Part("image", box, limits, self._layers(), title, note, font)

    def _layers(self) -> list[Layer]:
        picture, count = self.scene, len(self.cells)
        assert picture.shade is not None
        bare = np.zeros(count) if self.score is None else self._heat()
        out: list[Layer] = [
            Areas("image", self.cells, ["ink"] * count, _INK * picture.shade),
            Areas("heat", self.cells, ["heat"] * count, bare, node_tags(picture, self.score)),
            Strokes(
                "frame",
                [self._frame()],
                *(["faint"], np.ones(1), np.full(1, 0.8)),
                round=False,
            ),
        ]
        if picture.true_nodes.any():
            lines = self._outline()
            wide = np.full(len(lines), 1.6)
            out.append(Strokes("truth", lines, ["truth"] * len(lines), np.ones(len(lines)), wide))
        shown = np.full(len(picture.ends), self.edges)
        if picture.chosen is not None:
            shown |= picture.chosen
        if shown.any():
            styles = line_styles(picture, _THICK, self.sharpen, faint=0.08)
            order = np.argsort(styles[1], kind="stable")
            out.append(edge_strokes(picture, order[shown[order]], styles))
        return out

    def _heat(self) -> Floats:
        assert self.score is not None
        low, high = self._range
        share = (self.score - low) / (high - low) if high > low else self.score
        share = share.clip(0, 1)
        faded = FADED if self.scene.doubted else 1.0
        return np.asarray(faded * _HEAT * share**self.sharpen, np.float64)

    def _frame(self) -> Floats:
        (x, y), (right, top) = (corner.tolist() for corner in self._corners)
        return np.array([[x, y], [right, y], [right, top], [x, top], [x, y]])

    def _outline(self) -> list[Floats]:
        """Return the borders between cells of the truth and others, ``[2, 2]`` each."""
        count: dict[tuple[tuple[float, float], ...], int] = {}
        for node in np.flatnonzero(self.scene.true_nodes):
            cell = self.cells[node].round(3).tolist()
            for a, b in zip(cell, [*cell[1:], cell[0]], strict=True):
                side = tuple(sorted((tuple(a), tuple(b))))
                if side[0] != side[1]:
                    count[side] = count.get(side, 0) + 1
        return [np.array(side) for side, times in count.items() if times == 1]

    def entries(self, scores_of: str = "") -> list[Entry]:
        """Return the legend; ``scores_of`` names the method where there are several."""
        out: list[Entry] = []
        picture = self.scene
        if self.score is not None:
            what = "superpixel score" if picture.node_score is not None else "mean edge score"
            what = f"{scores_of}: {what}" if scores_of else what
            low, high = self._range
            full = _HEAT * (FADED if picture.doubted else 1.0)
            out.append(Entry("heat", f"{what} {low:.2f}", f"{high:.2f}", (("full", full),)))
        if self.edges or picture.chosen is not None:
            chosen = line_entries(picture, self.sharpen, self.top, scores_of)
            out += chosen if self.edges else chosen[:1]
            if picture.spread is not None:
                out += spread_entries()
        out.append(Entry("image", after="the image", options=(("full", _INK / 0.75),)))
        if picture.true_nodes.any():
            out.append(Entry("outline", after="ground truth"))
        return out


def image_picture(
    picture: Scene,
    sharpen: float,
    top: int | str | None = None,
    edges: bool = False,
    scale: tuple[float, float] | None = None,
) -> ImagePicture | None:
    """Prepare the picture of superpixels; None if the graph is no image."""
    if picture.shade is None or len(np.unique(picture.at, axis=0)) < len(picture.at):
        return None
    if len(picture.at) < 4:
        return None
    score = None
    if picture.node_score is not None and picture.strength is not None:
        score = picture.node_score
    elif picture.strength is not None:
        total, degree = np.zeros(len(picture.at)), np.zeros(len(picture.at))
        np.add.at(total, picture.ends.reshape(-1), np.repeat(picture.score, 2))
        np.add.at(degree, picture.ends.reshape(-1), 1.0)
        score = np.where(degree > 0, total / np.maximum(degree, 1), picture.low)
    return ImagePicture(picture, _cells(picture.at), score, sharpen, top, edges, scale)


def _cells(at: Floats) -> list[Floats]:
    """Return what is nearest to each point within the image, ``[k, 2]`` each, counter-clockwise."""
    from scipy.spatial import Voronoi

    margin = 0.5  # half of the distance to the next superpixel
    low, high = at.min(axis=0) - margin, at.max(axis=0) + margin
    # Mirrored at the four sides, the points make the sides borders of cells.
    mirrored = [at]
    for axis in (0, 1):
        for side in (low, high):
            other = at.copy()
            other[:, axis] = 2 * side[axis] - at[:, axis]
            mirrored.append(other)
    found = Voronoi(np.vstack(mirrored))
    out = []
    for node in range(len(at)):
        corners = found.vertices[found.regions[found.point_region[node]]]
        gap = corners - at[node]
        turn = np.argsort(np.arctan2(gap[:, 1], gap[:, 0]), kind="stable")
        out.append(corners[turn].clip(low, high))
    return out
