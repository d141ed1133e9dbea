"""Pictures and files of explanations, and curves.

``gsat.draw`` is this package, whether or not it was imported by name: :func:`gsat.draw.draw` draws
one explanation or several. ``gsat.draw_explanation`` and ``gsat.draw_grid`` are public names as
well, and an explanation draws itself: ``explanation.draw()``, ``explanation.save("x.svg")``.
Matplotlib is imported when something is drawn.
"""

from gsat.draw.curves import Line, Panel, draw_curves
from gsat.draw.explanations import (
    ExampleRow,
    draw,
    draw_examples,
    draw_explanation,
    draw_grid,
    explanation_svg,
)
from gsat.draw.export import write_explanation
from gsat.draw.options import DrawingOptions
from gsat.explain.scores_file import write_scores_npz

__all__ = [
    "DrawingOptions",
    "ExampleRow",
    "Line",
    "Panel",
    "draw",
    "draw_curves",
    "draw_examples",
    "draw_explanation",
    "draw_grid",
    "explanation_svg",
    "write_explanation",
    "write_scores_npz",
]
