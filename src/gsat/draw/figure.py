"""Sheets as matplotlib figures, for bitmaps, PDF files and notebooks, and figures as bytes.

Only ``matplotlib.figure.Figure`` is used, never ``pyplot``: nothing is global, so threads may draw.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gsat.draw.shapes import (
    INK,
    Areas,
    Circles,
    Colours,
    Floats,
    Inset,
    Layer,
    Part,
    Sheet,
    Sizes,
    Strokes,
    Texts,
    each,
    light,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURES: Final = (".svg", ".png", ".pdf")
_DPI: Final = 200
# The one setting an SVG needs is global in matplotlib; two threads must not set it at once.
_settings = threading.Lock()
_ZOOM: Final = 3.0  # pixels of an inset's bitmap per pixel of its SVG
_ALIGN: Final = {"start": "left", "middle": "center", "end": "right"}


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


def sheet_figure(sheet: Sheet) -> Figure:
    """Draw a sheet as a matplotlib figure."""
    figure = new_figure(*sheet.size)
    wide, high = sheet.size
    for part in sheet.parts:
        left, bottom, across, up = part.box
        axes = figure.add_axes((left / wide, bottom / high, across / wide, up / high))
        axes.set_gid(part.name)
        axes.set_axis_off()
        x, y, x_size, y_size = part.limits
        axes.set_xlim(x, x + x_size)
        axes.set_ylim(y, y + y_size)
        if lines := [*part.title, *part.note]:
            style: dict[str, Any] = {"pad": 3, "parse_math": False, "linespacing": 1.25}
            axes.set_title("\n".join(lines), fontsize=part.font, color=INK, **style)
        for place, layer in enumerate(part.layers):
            _layer(axes, layer, part, zorder=1 + place)
    for layer in sheet.texts:
        for x, y, word, style in _words(layer):
            figure.text(x / wide, y / high, word, **style)
    return figure


def _layer(axes: Axes, layer: Layer, part: Part, zorder: int) -> None:
    from matplotlib.collections import EllipseCollection, LineCollection, PolyCollection

    drawn: Any
    if isinstance(layer, Inset):
        drawn = _inset(axes, layer, part)
    elif isinstance(layer, Texts):
        for x, y, word, style in _words(layer):
            axes.text(x, y, word, clip_on=False, zorder=zorder, gid=layer.name, **style)
        return
    elif isinstance(layer, Strokes):
        drawn = LineCollection(
            layer.paths,
            colors=_rgba(layer.colours, layer.opacity, len(layer.paths)),
            linewidths=layer.widths,
            linestyles=[(0, dash) if dash else "solid" for dash in layer.dashes] or "solid",
        )
        # Dashes with round ends would run together.
        drawn.set_capstyle("round" if layer.round and not any(layer.dashes) else "butt")
    elif isinstance(layer, Areas):
        drawn = PolyCollection(layer.outlines, **_filling(layer, len(layer.outlines)))
    else:
        count = len(layer.at)
        across = 2 * np.array(each(layer.radius, count))
        drawn = EllipseCollection(
            *(across, across, np.zeros(count)),
            units="xy",
            offsets=layer.at,
            offset_transform=axes.transData,
            **_filling(layer, count),
        )
    drawn.set(gid=layer.name, zorder=zorder)
    if not isinstance(layer, Inset):
        axes.add_collection(drawn, autolim=False)


def _filling(layer: Areas | Circles, count: int) -> dict[str, Any]:
    """Return the colours and rims of shapes."""
    return {
        "facecolors": _rgba(layer.colours, layer.opacity, count),
        "edgecolors": [light(rim) for rim in each(layer.rims, count)],
        "linewidths": layer.rim_widths,
    }


def _inset(axes: Axes, layer: Inset, part: Part) -> Any:
    from matplotlib.image import imread

    size = (round(part.box[2] * 100 * _ZOOM), round(part.box[3] * 100 * _ZOOM))
    x, y, wide, high = part.limits
    return axes.imshow(
        imread(io.BytesIO(layer.png(size, _ZOOM)), format="png"),
        interpolation="antialiased",
        extent=(x, x + wide, y, y + high),
        aspect="auto",
    )


def _words(layer: Texts) -> Iterator[tuple[float, float, str, dict[str, Any]]]:
    count = len(layer.words)
    rows = zip(
        layer.at, layer.words, each(layer.size, count), each(layer.colours, count), strict=True
    )
    for (x, y), word, size, colour in rows:
        style = {"fontsize": size, "color": light(colour), "ha": _ALIGN[layer.anchor]}
        style |= {"rotation": layer.angle, "rotation_mode": "anchor", "va": "baseline"}
        yield float(x), float(y), word, {**style, "parse_math": False}


def _rgba(colours: Colours, opacity: Sizes, count: int) -> Floats:
    from matplotlib.colors import to_rgb

    rgb = np.array([to_rgb(light(colour)) for colour in each(colours, count)]).reshape(-1, 3)
    return np.column_stack([rgb, each(opacity, count)])
