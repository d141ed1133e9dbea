"""From scores to colours, and to widths, opacities and dashes of lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from gsat.draw.shapes import Floats

if TYPE_CHECKING:
    from gsat.explanation import Explanation

EQUAL: Final = 1e-6  # scores closer than this count as equal
THICK: Final = 4.2  # width of the widest line in points
FADED: Final = 0.4  # opacity factor of unreliable explanations
SPREADS: Final = (0.1, 0.2)  # standard deviations from which a score is dashed, and dotted
DASHES: Final[tuple[tuple[float, ...], ...]] = ((), (2.6, 1.1), (0.9, 0.9))  # in line widths
# From white to the full colour: letters of elements stay readable on all of them.
_STOPS: Final = ((255, 255, 255), (255, 234, 190), (253, 191, 99), (236, 121, 27))
_STEP: Final = 0.05  # a colour scale is at least this wide

Colour = tuple[float, float, float]


def line_opacity(strong: Floats, faint: float = 0.16) -> Floats:
    """Return the opacities of lines of strengths from 0 to 1, from ``faint`` to 1."""
    return faint + (1 - faint) * strong


def line_widths(strong: Floats, thick: float) -> Floats:
    """Return the widths in points of lines of strengths from 0 to 1, up to ``thick``."""
    return (0.22 + 0.78 * strong) * thick


def score_range(explanations: Iterable[Explanation]) -> tuple[float, float]:
    """Return the lowest and the highest score of an edge in all explanations; 0 and 0 if none."""
    scores = [e.units()[1] for e in explanations if len(e.edge_mask)]
    if not scores:
        return 0.0, 0.0
    return min(float(s.min()) for s in scores), max(float(s.max()) for s in scores)


def stretched(values: Floats, low: float, high: float) -> Floats:
    """Stretch values to [0, 1]; a range of one value leaves them as they are."""
    if high - low < EQUAL:
        return values.clip(0, 1)
    return np.asarray(((values - low) / (high - low)).clip(0, 1), np.float64)


@dataclass(frozen=True)
class ColourScale:
    """Scores to colours: white up to ``low``, the full colour from ``high``."""

    low: float
    high: float
    fade: float = 1.0  # opacity factor

    @classmethod
    def of(cls, explanations: Iterable[Explanation]) -> ColourScale:
        """Choose the scale of one or several explanations.

        It reaches from the middle between the lowest and the highest score (or from r, the prior,
        if that is higher) to the highest score. Scores are those of atoms where the model attends
        to nodes, else those of bonds.
        """
        found = [e for e in explanations if len(e.edge_mask)]
        if not found:
            return cls(0.0, 1.0)
        scores = [e.edge_mask if e.get("node_mask") is None else e.node_mask for e in found]
        lowest = min(float(values.min()) for values in scores)
        highest = max(float(values.max()) for values in scores)
        prior = max((float(e.r) for e in found if e.get("r") is not None), default=0.0)
        low = max((lowest + highest) / 2, min(prior, highest))
        high = max(highest, low + _STEP)
        if highest <= 1 < high:  # no score is above 1: the scale widens downwards
            return cls(1 - _STEP, 1.0)
        return cls(low, high)

    def share(self, score: float) -> float:
        """Return the position of a score on the scale, from 0 (no colour) to 1."""
        # NaN, the score of a bond that has none, is not above anything.
        return min((score - self.low) / (self.high - self.low), 1.0) if score > self.low else 0.0

    def colour(self, score: float) -> Colour:
        """Return the colour of a score: red, green and blue from 0 to 1."""
        red, green, blue = (1 - self.fade * (1 - part) for part in _mixed(self.share(score)))
        return red, green, blue


def _mixed(share: float) -> Colour:
    places = np.linspace(0, 1, len(_STOPS))
    red, green, blue = (
        float(np.interp(share, places, part)) / 255 for part in np.transpose(_STOPS)
    )
    return red, green, blue


def scale_colours(count: int) -> list[str]:
    """List colours at equal distances on a colour scale, such as ``#ffbf63``, the lowest first."""
    return [hexadecimal(_mixed(share)) for share in np.linspace(0, 1, count).tolist()]


def hexadecimal(colour: Colour) -> str:
    """Write a colour as HTML does."""
    return "#" + "".join(f"{round(255 * part):02x}" for part in colour)
