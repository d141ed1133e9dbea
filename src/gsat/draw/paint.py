"""Drawing one scene in one part of a figure: lines, arrowheads, circles, labels, and the legend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gsat.draw.scene import EQUAL, Floats, Scene

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours that colour-blind people can distinguish, also in black and white: lightness differs.
INK: Final = "#1B2530"
CHOSEN: Final = "#0067A5"
TRUTH: Final = "#F08DB8"
TRUTH_HALO: Final = "#FAD4E4"
TRUTH_RIM: Final = "#A02763"
NODE: Final = "#FFFFFF"
NODE_RIM: Final = "#6B7785"
FAINT_RIM: Final = "#B4BCC5"
MARKED: Final = "#E8A200"
SHADED: Final = "#F7B64A"

SMALLEST_FONT: Final = 3.5  # points; smaller labels are left out


def paint(
    figure: Figure,
    box: tuple[float, float, float, float],
    inches: tuple[float, float],
    picture: Scene,
    title: list[str],
    sharpen: float,
    font: float = 9.5,
) -> None:
    """Draw one graph in a part of a figure.

    Args:
        figure: The figure to draw in.
        box: The part: left, bottom, width and height as fractions of the figure.
        inches: Width and height of the part in inches.
        picture: What to draw.
        title: Lines of text above it.
        sharpen: The power to which scores are raised.
        font: Size of the title in points. (default: ``9.5``)
    """
    axes = figure.add_axes(box)
    axes.set_axis_off()
    corner, size = picture.box
    # Small graphs are not blown up: an edge is never longer than 0.6 inches.
    unit = min(inches[0] / size[0], inches[1] / size[1], max(0.6, 0.1 / picture.radius))
    middle = corner + size / 2
    reach = np.array(inches) / unit / 2
    axes.set_xlim(middle[0] - reach[0], middle[0] + reach[0])
    axes.set_ylim(middle[1] - reach[1], middle[1] + reach[1])
    axes.set_title(
        "\n".join(title), fontsize=font, color=INK, pad=3, parse_math=False, linespacing=1.25
    )
    points = 72 * unit
    if len(picture.ends):
        _edges(axes, picture, points, sharpen)
    if len(picture.at):
        _nodes(axes, picture, points)


def _edges(axes: Axes, picture: Scene, points: float, sharpen: float) -> None:
    from matplotlib.collections import LineCollection, PolyCollection

    thick = float(np.clip(0.6 * picture.radius * points, 0.8, 4.2))
    count = len(picture.ends)
    rgba, width = edge_styles(picture, thick, sharpen)
    order = np.argsort(rgba[:, 3], kind="stable")  # the strongest lie on top
    lines, heads = picture.lines, [np.empty((0, 2))] * count
    if picture.directed:
        cut = [
            _with_head(line, picture.at[v], picture.radius, 0.55 * w / points)
            for line, (_, v), w in zip(lines, picture.ends, width + 0.35 * thick, strict=True)
        ]
        lines, heads = [c[0] for c in cut], [c[1] for c in cut]
    if picture.true.any():
        halo = LineCollection(
            [picture.lines[i] for i in np.flatnonzero(picture.true)],
            colors=TRUTH_HALO,
            linewidths=thick + 0.8 * picture.radius * points,
            capstyle="round",
            zorder=1,
        )
        halo.set_gid("truth")
        axes.add_collection(halo, autolim=False)
    drawn = LineCollection(
        [lines[i] for i in order],
        colors=rgba[order],
        linewidths=width[order],
        capstyle="butt" if picture.directed else "round",
        zorder=2,
    )
    drawn.set_gid("edges")
    axes.add_collection(drawn, autolim=False)
    if picture.directed:
        tips = PolyCollection(
            [heads[i] for i in order], facecolors=rgba[order], edgecolors="none", zorder=3
        )
        tips.set_gid("heads")
        axes.add_collection(tips, autolim=False)


def edge_styles(picture: Scene, thick: float, sharpen: float) -> tuple[Floats, Floats]:
    """Return colours ``[U, 4]`` and widths ``[U]`` of the lines, the widest ``thick`` points."""
    from matplotlib.colors import to_rgb

    count = len(picture.ends)
    strong = None if picture.strength is None else picture.strength**sharpen
    if strong is None:
        alpha, width = np.full(count, 0.5), np.full(count, 0.4 * thick)
    else:
        # Near parts of an image are all joined: many faint lines must not hide it.
        faint = 0.16 if picture.shade is None else 0.05
        alpha, width = faint + (1 - faint) * strong, (0.22 + 0.78 * strong) * thick
    colour = np.tile(to_rgb(INK), (count, 1))
    if picture.chosen is not None:
        # The chosen stay in order of strength among themselves, and above all others.
        alpha = np.where(picture.chosen, 0.55 + 0.45 * alpha, 0.55 * alpha)
        width = np.where(picture.chosen, np.maximum(width, 0.6 * thick), 0.6 * width)
        colour[picture.chosen] = to_rgb(CHOSEN)
    return np.column_stack([colour, alpha]), width


def _with_head(line: Floats, centre: Floats, radius: float, half: float) -> tuple[Floats, Floats]:
    """Cut a line short before its target, and make the arrowhead ``[3, 2]`` that touches it."""
    half = max(half, 0.055) * 1.5
    length = 2.2 * half
    steps = np.linspace(0, len(line) - 1, max(200, len(line)))
    dense = np.column_stack(
        [np.interp(steps, np.arange(len(line)), line[:, axis]) for axis in (0, 1)]
    )
    outside = np.flatnonzero(np.linalg.norm(dense - centre, axis=1) >= 1.08 * radius)
    tip = int(outside[-1]) if len(outside) else len(dense) - 1
    away = np.linalg.norm(dense[:tip] - dense[tip], axis=1) >= length
    base = int(np.flatnonzero(away)[-1]) if away.any() else 0
    along = dense[tip] - dense[base]
    along = along / max(float(np.linalg.norm(along)), 1e-9)
    across = half * np.array([-along[1], along[0]])
    foot = dense[tip] - length * along
    return _thinned(dense[: base + 1]), np.stack([dense[tip], foot + across, foot - across])


def _thinned(line: Floats) -> Floats:
    """Drop points that make no difference: a straight line needs two."""
    chord = line[-1] - line[0]
    off = np.abs(chord[0] * (line - line[0])[:, 1] - chord[1] * (line - line[0])[:, 0])
    if off.max(initial=0.0) < 1e-9:
        return line[[0, -1]]
    return line[np.unique(np.linspace(0, len(line) - 1, 32).round().astype(int))]


def _nodes(axes: Axes, picture: Scene, points: float) -> None:
    from matplotlib.collections import EllipseCollection

    count = len(picture.at)
    rim = np.where(picture.true_nodes, TRUTH_RIM, NODE_RIM)
    ink = np.full(count, INK)
    if picture.chosen is not None:
        rim[~picture.chosen_nodes & ~picture.true_nodes] = FAINT_RIM
        ink[~picture.chosen_nodes] = NODE_RIM
        # On an image the rim is all there is to show the truth; the chosen have blue edges.
        free = picture.chosen_nodes if picture.shade is None else ~picture.true_nodes
        rim[picture.chosen_nodes & free] = CHOSEN
    if picture.marked is not None:
        ring = EllipseCollection(
            [3.2 * picture.radius],
            [3.2 * picture.radius],
            [0.0],
            units="xy",
            offsets=picture.at[[picture.marked]],
            offset_transform=axes.transData,
            facecolors=MARKED,
            edgecolors="none",
            zorder=3.5,
        )
        ring.set_gid("marked")
        axes.add_collection(ring, autolim=False)
    across = np.full(count, 2 * picture.radius)
    thin = float(np.clip(0.03 * points, 0.5, 1.1))
    rims = np.where(picture.chosen_nodes, 1.7 * thin, thin)
    if picture.shade is None:
        faces = np.where(picture.true_nodes, TRUTH, NODE).tolist()
    else:  # ink on paper: the face shows the image, and only the rim is left for the truth
        faces = [_grey(bright) for bright in picture.shade.tolist()]
        rims = np.where(picture.true_nodes, 2 * thin, rims)
    circles = EllipseCollection(
        across,
        across,
        np.zeros(count),
        units="xy",
        offsets=picture.at,
        offset_transform=axes.transData,
        facecolors=faces,
        edgecolors=rim.tolist(),
        linewidths=rims,
        zorder=4,
    )
    circles.set_gid("nodes")
    axes.add_collection(circles, autolim=False)
    for label, (x, y), colour in zip(picture.labels, picture.at, ink.tolist(), strict=True):
        font = picture.radius * points * {1: 1.15, 2: 0.95}.get(len(label), 0.7)
        if label and font >= SMALLEST_FONT:
            style = {"fontsize": font, "color": colour, "parse_math": False, "zorder": 5}
            axes.text(x, y, label, ha="center", va="center_baseline", **style)


def _grey(bright: float) -> tuple[float, float, float]:
    level = 1 - 0.85 * bright
    return (level, level, level)


def legend(figure: Figure, scenes: Sequence[Scene], top: int | str | None, words: str = "") -> None:
    """Draw the legend.

    Args:
        figure: The figure, which gets the legend at its foot.
        scenes: What is drawn in it.
        top: The budget, if there is one.
        words: What shaded words mean, where words are drawn. (default: ``""``)
    """
    from matplotlib.lines import Line2D

    handles: list[Any] = []

    def line(label: str, **style: Any) -> None:
        handles.append(Line2D([], [], label=label, solid_capstyle="round", **style))

    ranked = [s for s in scenes if s.strength is not None and len(s.ends)]
    if ranked and top is not None:
        of = "of edges" if str(top).strip().endswith("%") else "edges"
        line(f"top {str(top).strip()} {of}", color=CHOSEN, linewidth=4)
        line("other edges", color=INK, linewidth=1, alpha=0.25)
    elif ranked and len(scenes) > 1:
        line("highest edge score of the graph", color=INK, linewidth=4)
        line("lowest", color=INK, linewidth=1, alpha=0.25)
    elif ranked:
        line(f"edge score {ranked[0].high:.2f}", color=INK, linewidth=4)
        if ranked[0].high - ranked[0].low > EQUAL:
            line(f"{ranked[0].low:.2f}", color=INK, linewidth=1, alpha=0.25)
    shaded = any(s.shade is not None for s in scenes)
    if any(s.true.any() or s.true_nodes.any() for s in scenes):
        line(
            "ground truth",
            color=TRUTH_HALO,
            linewidth=6,
            marker="o",
            markersize=7,
            markerfacecolor=NODE if shaded else TRUTH,
            markeredgecolor=TRUTH_RIM,
        )
    if shaded:
        style = {"marker": "o", "markersize": 7, "markeredgecolor": NODE_RIM}
        line("bright", linestyle="none", markerfacecolor=_grey(1.0), **style)
    if any(s.marked is not None for s in scenes):
        line("the node", color=MARKED, linestyle="none", marker="o", markersize=9)
    if words and ranked:
        line(words, linestyle="none", marker="s", markersize=8, color=SHADED)
    if handles:
        many = len(handles) > 3  # the narrowest picture has room for three in full size
        figure.legend(
            handles=handles,
            loc="lower center",
            ncols=len(handles),
            frameon=False,
            fontsize=7 if many else 8.5,
            labelcolor=INK,
            borderaxespad=0.4,
            columnspacing=1.0 if many else 1.4,
            handlelength=1.4 if many else 1.8,
        )
