"""Colours of pictures, by the part they play: one for light paper and one for dark.

They can be distinguished by colour-blind people, and in black and white: lightness differs.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Shade(NamedTuple):
    """A colour on light and on dark paper, as HTML writes it."""

    light: str
    dark: str


PALETTE: Final = {
    "paper": Shade("#FFFFFF", "#15191E"),
    "ink": Shade("#1B2530", "#E6EAEE"),
    "soft": Shade("#55606C", "#A7B1BC"),
    "chosen": Shade("#0067A5", "#5CB3EC"),
    "halo": Shade("#FAD4E4", "#5C2440"),
    "truth": Shade("#A02763", "#F284B4"),
    "node": Shade("#FFFFFF", "#15191E"),
    "rim": Shade("#6B7785", "#8D98A4"),
    "faint": Shade("#B4BCC5", "#4A545F"),
    "marked": Shade("#E8A200", "#E8A200"),
    "heat": Shade("#EC791B", "#F58A2E"),
    "note": Shade("#8A4B00", "#F0B860"),
}


def light(colour: str) -> str:
    """Return the colour of a part on light paper; a colour that is written out, as it is."""
    return PALETTE[colour].light if colour in PALETTE else colour


INK: Final = light("ink")
