"""Pictures and files of explanations. Matplotlib is imported when something is drawn."""

from gsat.draw.export import write_explanation, write_scores_npz
from gsat.draw.graph import draw_explanation, draw_grid

__all__ = ["draw_explanation", "draw_grid", "write_explanation", "write_scores_npz"]
