"""Sheets as matplotlib figures, for bitmaps, PDF files and notebooks."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gsat.draw.files import new_figure
from gsat.draw.molecule import formula_png
from gsat.draw.palette import light
from gsat.draw.sheet import (
    Areas,
    Boxes,
    Floats,
    Layer,
    Molecule,
    Part,
    Sheet,
    Strokes,
    Texts,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ZOOM: Final = 3.0  # pixels of a formula's bitmap per pixel of its SVG
_ALIGN: Final = {"start": "left", "middle": "center", "end": "right"}


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
        lines = [*part.title, *part.note]
        if lines:
            style: dict[str, Any] = {"pad": 3, "parse_math": False, "linespacing": 1.25}
            axes.set_title("\n".join(lines), fontsize=part.font, color=light("ink"), **style)
        for place, layer in enumerate(part.layers):
            _layer(axes, layer, part, zorder=1 + place)
    for layer, angle in sheet.texts:
        for (x, y), word, size, colour in _rows(layer):
            figure.text(
                *(x / wide, y / high, word),
                fontsize=size,
                color=light(colour),
                rotation=angle,
                rotation_mode="anchor",
                parse_math=False,
                ha=_ALIGN[layer.anchor],
                va="baseline",
            )
    return figure


def _layer(axes: Axes, layer: Layer, part: Part, zorder: int) -> None:
    from matplotlib.collections import EllipseCollection, LineCollection, PolyCollection

    if isinstance(layer, Molecule):
        _molecule(axes, layer, part, zorder)
        return
    if isinstance(layer, Texts):
        for (x, y), word, size, colour in _rows(layer):
            text = axes.text(
                *(x, y, word),
                fontsize=size,
                color=light(colour),
                parse_math=False,
                clip_on=False,
                ha=_ALIGN[layer.anchor],
                va="baseline",
                zorder=zorder,
            )
            text.set_gid(layer.name)
        return
    if isinstance(layer, Boxes):
        _boxes(axes, layer, zorder)
        return
    drawn: Any
    if isinstance(layer, Strokes):
        drawn = LineCollection(
            layer.paths,
            colors=_rgba(layer.colours, layer.opacity),
            linewidths=layer.widths,
            linestyles=[(0, dash) if dash else "solid" for dash in layer.dashes] or "solid",
            zorder=zorder,
        )
        # Dashes with round ends would run together.
        dashed = any(layer.dashes)
        drawn.set_capstyle("round" if layer.round and not dashed else "butt")
    elif isinstance(layer, Areas):
        colours = _rgba(layer.colours, layer.opacity)
        drawn = PolyCollection(
            layer.outlines, facecolors=colours, edgecolors="none", zorder=zorder, antialiased=True
        )
    else:
        across = 2 * layer.radius
        drawn = EllipseCollection(
            *(across, across, np.zeros(len(across))),
            units="xy",
            offsets=layer.at,
            offset_transform=axes.transData,
            facecolors=_rgba(layer.colours, layer.opacity),
            edgecolors=[light(rim) for rim in layer.rims],
            linewidths=layer.rim_widths,
            zorder=zorder,
        )
    drawn.set_gid(layer.name)
    axes.add_collection(drawn, autolim=False)


def _boxes(axes: Axes, layer: Boxes, zorder: int) -> None:
    from matplotlib.patches import FancyBboxPatch

    colours = _rgba(layer.colours, layer.opacity)
    for i, ((x, y), (wide, high)) in enumerate(zip(layer.at, layer.size, strict=True)):
        corner = layer.corner
        patch = FancyBboxPatch(
            (x - wide / 2 + corner, y - high / 2 + corner),
            wide - 2 * corner,
            high - 2 * corner,
            boxstyle=f"round,pad={corner}",
            facecolor=tuple(colours[i]),
            edgecolor=light(layer.rims[i]),
            linewidth=layer.rim_widths[i],
            zorder=zorder,
        )
        patch.set_gid(f"{layer.name} {i}")
        axes.add_patch(patch)


def _molecule(axes: Axes, layer: Molecule, part: Part, zorder: int) -> None:
    from matplotlib.image import imread

    size = (round(part.box[2] * 100 * _ZOOM), round(part.box[3] * 100 * _ZOOM))
    bitmap = formula_png(layer.formula, layer.scale, size, zoom=_ZOOM, **layer.options)
    x, y, wide, high = part.limits
    image = axes.imshow(
        imread(io.BytesIO(bitmap), format="png"),
        interpolation="antialiased",
        extent=(x, x + wide, y, y + high),
        aspect="auto",
        zorder=zorder,
    )
    image.set_gid(layer.name)


def _rows(layer: Texts) -> list[tuple[tuple[float, float], str, float, str]]:
    places = [(float(x), float(y)) for x, y in layer.at]
    return list(zip(places, layer.words, layer.size.tolist(), layer.colours, strict=True))


def _rgba(colours: Sequence[str], opacity: Floats) -> Floats:
    from matplotlib.colors import to_rgb

    rgb = np.array([to_rgb(light(colour)) for colour in colours]).reshape(-1, 3)
    return np.column_stack([rgb, opacity])
