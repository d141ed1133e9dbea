"""Matplotlib figures, and their files."""

from __future__ import annotations

import io
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURES: Final = (".svg", ".png", ".pdf")
_DPI: Final = 200
# The one setting an SVG needs is global in matplotlib; two threads must not set it at once.
_settings = threading.Lock()


def new_figure(width: float, height: float) -> Figure:
    """Make a white figure of this size in inches, unknown to ``pyplot``."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=100, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def render(figure: Figure, suffix: str) -> bytes:
    """Render a figure in the format of a suffix; the same figure always gives the same bytes."""
    import matplotlib

    # No dates, and ids in SVG files from a fixed salt instead of a random one.
    metadata = {
        ".svg": {"Date": None, "Creator": "gsat"},
        ".pdf": {"CreationDate": None, "Creator": "gsat"},
        ".png": {"Software": "gsat"},
    }[suffix]
    out = io.BytesIO()
    with _settings:
        salt = matplotlib.rcParams["svg.hashsalt"]
        matplotlib.rcParams["svg.hashsalt"] = "gsat"
        try:
            figure.savefig(out, format=suffix[1:], dpi=_DPI, metadata=metadata, facecolor="white")
        finally:
            matplotlib.rcParams["svg.hashsalt"] = salt
    return out.getvalue()
