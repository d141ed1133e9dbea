"""Graph neural networks that say which edges they used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gsat.datasets.load import Dataset, load_dataset
    from gsat.errors import GSATError
    from gsat.explain.post_hoc import explain_with
    from gsat.explain.pyg import GSATExplainer, PyGModel
    from gsat.explanation import Explanation
    from gsat.graphs import GraphBatch, GraphStore
    from gsat.gsat import GSAT
    from gsat.models import GIN, PNA, LEConvNet
    from gsat.models.wrapping.wrap import wrap
    from gsat.registry import register_dataset
    from gsat.studies.tune import tune
    from gsat.tasks import Task
    from gsat.training.train import Run, fit, load, resume, train

# Loaded when first used: `import gsat` and `gsat --help` do not wait for torch.
_HOMES = {
    "Dataset": "gsat.datasets.load",
    "load_dataset": "gsat.datasets.load",
    "GSATError": "gsat.errors",
    "GSATExplainer": "gsat.explain.pyg",
    "PyGModel": "gsat.explain.pyg",
    "Explanation": "gsat.explanation",
    "GraphBatch": "gsat.graphs",
    "GraphStore": "gsat.graphs",
    "GSAT": "gsat.gsat",
    "explain_with": "gsat.explain.post_hoc",
    "GIN": "gsat.models",
    "LEConvNet": "gsat.models",
    "PNA": "gsat.models",
    "Task": "gsat.tasks",
    "Run": "gsat.training.train",
    "fit": "gsat.training.train",
    "load": "gsat.training.train",
    "resume": "gsat.training.train",
    "train": "gsat.training.train",
    "tune": "gsat.studies.tune",
    "register_dataset": "gsat.registry",
    "wrap": "gsat.models.wrapping.wrap",
}

__all__ = [
    "GIN",
    "GSAT",
    "PNA",
    "Dataset",
    "Explanation",
    "GSATError",
    "GSATExplainer",
    "GraphBatch",
    "GraphStore",
    "LEConvNet",
    "PyGModel",
    "Run",
    "Task",
    "explain_with",
    "fit",
    "load",
    "load_dataset",
    "register_dataset",
    "resume",
    "train",
    "tune",
    "wrap",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'gsat' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__"})
