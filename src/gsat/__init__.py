"""Graph neural networks that explain which edges they used.

The names below are loaded when first used, so that ``import gsat`` is quick. ``gsat.draw`` is the
package of pictures: ``gsat.draw.draw(explanation)`` draws, and so does ``explanation.draw()``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import gsat.draw as draw
    from gsat.core.errors import GSATError
    from gsat.core.registry import Registry, register_backbone, register_dataset, register_method
    from gsat.datasets.load import Dataset, load_dataset, read_molecules
    from gsat.draw import draw_explanation, draw_grid
    from gsat.explain.post_hoc import explain_with
    from gsat.explain.pyg import GSATExplainer, PyGModel
    from gsat.explanation import Explanation
    from gsat.graphs import GraphBatch, GraphStore
    from gsat.gsat import GSAT
    from gsat.models import DMPNN, GIN, PNA, LEConvNet
    from gsat.models.ensemble import Ensemble
    from gsat.models.wrapping.wrap import wrap
    from gsat.study.tune import tune
    from gsat.tasks import Task
    from gsat.training.distillation import distill
    from gsat.training.evaluation import evaluate
    from gsat.training.list_runs import list_runs
    from gsat.training.prediction_table import PredictionTable
    from gsat.training.recipe import Recipe, make_recipe
    from gsat.training.run import Run, load, open_run
    from gsat.training.train import fit, resume, train

# Where each public name is defined; "" for a module of this package itself.
_HOMES = {
    "DMPNN": "gsat.models",
    "Dataset": "gsat.datasets.load",
    "Ensemble": "gsat.models.ensemble",
    "Explanation": "gsat.explanation",
    "GIN": "gsat.models",
    "GSAT": "gsat.gsat",
    "GSATError": "gsat.core.errors",
    "GSATExplainer": "gsat.explain.pyg",
    "GraphBatch": "gsat.graphs",
    "GraphStore": "gsat.graphs",
    "LEConvNet": "gsat.models",
    "PNA": "gsat.models",
    "PredictionTable": "gsat.training.prediction_table",
    "PyGModel": "gsat.explain.pyg",
    "Recipe": "gsat.training.recipe",
    "Registry": "gsat.core.registry",
    "Run": "gsat.training.run",
    "Task": "gsat.tasks",
    "distill": "gsat.training.distillation",
    "draw": "",
    "draw_explanation": "gsat.draw",
    "draw_grid": "gsat.draw",
    "evaluate": "gsat.training.evaluation",
    "explain_with": "gsat.explain.post_hoc",
    "fit": "gsat.training.train",
    "list_runs": "gsat.training.list_runs",
    "load": "gsat.training.run",
    "load_dataset": "gsat.datasets.load",
    "make_recipe": "gsat.training.recipe",
    "open_run": "gsat.training.run",
    "read_molecules": "gsat.datasets.load",
    "register_backbone": "gsat.core.registry",
    "register_method": "gsat.core.registry",
    "resume": "gsat.training.train",
    "train": "gsat.training.train",
    "tune": "gsat.study.tune",
    "register_dataset": "gsat.core.registry",
    "wrap": "gsat.models.wrapping.wrap",
}

__all__ = [
    "DMPNN",
    "GIN",
    "GSAT",
    "PNA",
    "Dataset",
    "Ensemble",
    "Explanation",
    "GSATError",
    "GSATExplainer",
    "GraphBatch",
    "GraphStore",
    "LEConvNet",
    "PredictionTable",
    "PyGModel",
    "Recipe",
    "Registry",
    "Run",
    "Task",
    "distill",
    "draw",
    "draw_explanation",
    "draw_grid",
    "evaluate",
    "explain_with",
    "fit",
    "list_runs",
    "load",
    "load_dataset",
    "make_recipe",
    "open_run",
    "read_molecules",
    "register_backbone",
    "register_dataset",
    "register_method",
    "resume",
    "train",
    "tune",
    "wrap",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gsat' has no attribute {name!r}")
    if not _HOMES[name]:
        return importlib.import_module(f"gsat.{name}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__"})
