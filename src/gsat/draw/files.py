"""Figures as bytes, and files that are written whole or not at all."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gsat.core.errors import GSATError
from gsat.core.writing import write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURES: Final = (".svg", ".png", ".pdf")
_DPI: Final = 200
# The one setting an SVG needs is global in matplotlib; two threads must not set it at once.
_settings = threading.Lock()


def check_suffix(path: str | Path, known: tuple[str, ...] = PICTURES) -> str:
    """Check what kind of file a path names."""
    suffix = Path(path).suffix.lower()
    if suffix not in known:
        had = f"'{suffix}'" if suffix else "nothing"
        raise GSATError(f"can't write {path}: its name must end in {', '.join(known)}, not {had}")
    return suffix


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


def write(path: str | Path, content: bytes) -> Path:
    """Write a file in one step: beside ``path`` first, then renamed; missing folders are made."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, content)
    except OSError as error:
        raise GSATError(f"can't write {path}: {error.strerror or error}") from error
    return path
