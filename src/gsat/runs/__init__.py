"""Runs: training returns one, and a run directory is opened as one.

The command line, notebooks and the web page all use a run through this package.
"""

from __future__ import annotations

from gsat.runs.distillation import distill
from gsat.runs.evaluation import evaluate
from gsat.runs.opening import open_run
from gsat.runs.run import Run
from gsat.runs.training import fit, resume, train

__all__ = ["Run", "distill", "evaluate", "fit", "open_run", "resume", "train"]
