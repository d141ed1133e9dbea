"""Which picture an explanation gets: a formula, a sentence, an image, or a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

import torch

from gsat.draw.graph import WIDEST, GraphPicture
from gsat.draw.legend import Entry
from gsat.draw.molecule import molecule_picture
from gsat.draw.options import DrawingOptions
from gsat.draw.scales import EQUAL, ColourScale, score_range
from gsat.draw.scene import Scene, scene
from gsat.draw.sentence import sentence
from gsat.draw.shapes import Floats, Part
from gsat.draw.superpixels import image_picture

if TYPE_CHECKING:
    from gsat.explanation import Explanation

_CROPPED: Final = 30  # edges that a picture is cropped to, at most, without a budget
_NEIGHBOURS: Final = 6  # of a node that a cropped picture shows, at most


class Picture(Protocol):
    """A picture of one explanation, not yet placed on a sheet."""

    @property
    def scene(self) -> Scene | None:
        """Positions, lines and marks; None for a formula."""

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches that suit it."""

    def part(self, box: tuple[float, float, float, float], **text: Any) -> Part:
        """Fit it into a part of a sheet; ``text`` are the part's title, note and font."""

    def entries(self, scores_of: str = "") -> list[Entry]:
        """Return its legend; ``scores_of`` names the method where there are several."""


def picture_of(
    explanation: Explanation,
    options: DrawingOptions,
    *,
    width: float = WIDEST,
    font: float = 11.0,
    at: Floats | None = None,
    colours: ColourScale | None = None,
) -> Picture:
    """Choose and prepare the picture of an explanation."""
    molecule = molecule_picture(explanation, options, colours)
    if molecule is not None:
        return molecule
    text = sentence(explanation, options, width, font)
    if text is not None:
        return text
    picture = scene(explanation, options, at=at)
    return image_picture(picture) or GraphPicture(picture)


def common_scale(
    explanations: Sequence[Explanation], options: DrawingOptions
) -> tuple[DrawingOptions, ColourScale]:
    """Return the options with one scale for several explanations, and one for their molecules."""
    scale = options.scale or score_range(explanations)
    return replace(options, scale=scale), ColourScale.of(explanations)


def cropped(
    explanation: Explanation, options: DrawingOptions
) -> tuple[Explanation, DrawingOptions, str]:
    """Keep the explanation and its neighbourhood; sentences, molecules and images stay whole.

    Without a budget, the explanation is the upper half of the scale, at most 30 edges.
    """
    itself = any(explanation.get(name) is not None for name in ("words", "smiles", "shade"))
    if not options.crop or not explanation.found or itself:
        return explanation, options, ""
    _, score = explanation.units()
    low, high = options.scale or score_range([explanation])
    if options.top is None:
        best = int((score >= (low + high) / 2).sum()) if high - low > EQUAL else len(score)
        count = max(1, min(best, _CROPPED))
    else:
        count = explanation.top(options.top).num_units
    whole = explanation.clone()
    if (spread := options.spread_of(explanation)) is not None:
        whole.edge_spread = torch.from_numpy(spread)
    rest = whole.near(whole.in_top(count), int(options.crop), most=_NEIGHBOURS)
    top = None if options.top is None else count
    hops = int(options.crop)
    options = replace(options, top=top, scale=(low, high), spread=None, crop=False)
    if rest.num_nodes == explanation.num_nodes:
        return explanation, options, ""
    around = f"{hops} hop{'s' if hops > 1 else ''} around the explanation"
    return rest, options, f"{rest.num_nodes} of {explanation.num_nodes} nodes, {around}"
