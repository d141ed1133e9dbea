"""An image of superpixels: cells in the grey of the image, with their scores as heat over them.

A data set keeps the centre of a superpixel and its brightness, not its pixels. A cell is the region
that is nearer to its centre than to any other, which is close to how superpixels are found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gsat.draw.legend import Entry
from gsat.draw.scene import Scene
from gsat.draw.shapes import Areas, Floats, Layer, Part, Strokes

_SIDE: Final = 3.4  # inches
_INK: Final = 0.75  # opacity of the brightest superpixel
_HEAT: Final = 0.85  # opacity of the highest score
_THICK: Final = 2.6  # width of edges over an image in points


@dataclass(frozen=True)
class ImagePicture:
    """An image."""

    scene: Scene
    cells: list[Floats]  # outline of each node's cell, [k, 2] each
    score: Floats | None  # of the cells [N]; None if no edge stands out

    @property
    def _range(self) -> tuple[float, float]:
        """The lowest and the highest score of the heat."""
        assert self.score is not None
        return self.scene.options.scale or (float(self.score.min()), float(self.score.max()))

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

    def part(self, box: tuple[float, float, float, float], **text: Any) -> Part:
        """Fit the image into a part of a sheet; ``text`` as for graphs."""
        low, high = self._corners
        unit = 0.97 * min(box[2] / (high - low)[0], box[3] / (high - low)[1])
        reach = np.array(box[2:]) / unit
        corner = (low + high - reach) / 2
        limits = (float(corner[0]), float(corner[1]), float(reach[0]), float(reach[1]))
        return Part("image", box, limits, self._layers(), **text)

    def _layers(self) -> list[Layer]:
        scene, cells = self.scene, self.cells
        assert scene.shade is not None
        (x, y), (right, top) = (corner.tolist() for corner in self._corners)
        frame = np.array([[x, y], [right, y], [right, top], [x, top], [x, y]])
        out: list[Layer] = [
            Areas("image", cells, "ink", _INK * scene.shade),
            Areas("heat", cells, "heat", self._heat(), tags=scene.node_tags(self.score)),
            Strokes("frame", [frame], "faint", widths=0.8, round=False),
        ]
        if scene.true_nodes.any():
            out.append(Strokes("truth", self._outline(), "truth", widths=1.6))
        shown = np.full(len(scene.ends), scene.options.edges)
        if scene.chosen is not None:
            shown |= scene.chosen
        if shown.any():
            styles = scene.line_styles(_THICK, faint=0.08)
            order = np.argsort(styles[1], kind="stable")
            out.append(scene.strokes(order[shown[order]], styles))
        return out

    def _heat(self) -> Floats | float:
        if self.score is None:
            return 0.0
        low, high = self._range
        share = (self.score - low) / (high - low) if high > low else self.score
        heat = share.clip(0, 1) ** self.scene.options.sharpen
        return np.asarray(self.scene.fade * _HEAT * heat, np.float64)

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
        scene, edges = self.scene, self.scene.options.edges
        if self.score is not None:
            what = "superpixel score" if scene.node_score is not None else "mean edge score"
            what = f"{scores_of}: {what}" if scores_of else what
            low, high = self._range
            out.append(Entry("heat", f"{what} {low:.2f}", f"{high:.2f}", _HEAT * scene.fade))
        if edges or scene.chosen is not None:
            chosen = scene.line_entries(scores_of)
            out += chosen if edges else chosen[:1]
            out += scene.spread_entries()
        out.append(Entry("image", after="the image", full=_INK / 0.75))
        if scene.true_nodes.any():
            out.append(Entry("outline", after="ground truth"))
        return out


def image_picture(scene: Scene) -> ImagePicture | None:
    """Prepare the picture of superpixels; None if the graph is not an image."""
    if scene.shade is None or len(scene.at) < 4:
        return None
    if len(np.unique(scene.at, axis=0)) < len(scene.at):
        return None
    score = None
    if scene.node_score is not None and scene.strength is not None:
        score = scene.node_score
    elif scene.strength is not None:
        total, degree = np.zeros(len(scene.at)), np.zeros(len(scene.at))
        np.add.at(total, scene.ends.reshape(-1), np.repeat(scene.score, 2))
        np.add.at(degree, scene.ends.reshape(-1), 1.0)
        score = np.where(degree > 0, total / np.maximum(degree, 1), scene.low)
    return ImagePicture(scene, _cells(scene.at), score)


def _cells(at: Floats) -> list[Floats]:
    """Return the Voronoi cell of each point within the image, ``[k, 2]``, counter-clockwise."""
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
