"""Pictures and files of explanations; curves. Matplotlib is imported when something is drawn."""

from gsat.draw.curves import Line, Panel, draw_curves
from gsat.draw.examples import Row, draw_examples
from gsat.draw.export import write_explanation, write_scores_npz
from gsat.draw.graph import draw_explanation, draw_grid

__all__ = [
    "Line",
    "Panel",
    "Row",
    "draw_curves",
    "draw_examples",
    "draw_explanation",
    "draw_grid",
    "write_explanation",
    "write_scores_npz",
]
