"""Opening runs that there are."""

from __future__ import annotations

from pathlib import Path

from gsat.datasets.load import Dataset
from gsat.gsat import GSAT
from gsat.runs.run import Run
from gsat.training.run_files import check_run
from gsat.training.train import load


def open_run(path: str | Path, *, model: GSAT | None = None, data: Dataset | None = None) -> Run:
    """Open a run directory.

    Args:
        path: The run directory.
        model: The model that was given to :func:`gsat.fit`, made again, where its backbone is a
            network of your own (:func:`gsat.wrap`); it gets the weights of the run.
            (default: ``None``)
        data: The data that was given to :func:`gsat.fit`, where it is at no path.
            (default: ``None``)

    Returns:
        The run; nothing is loaded yet.

    Raises:
        RunError: If there is no run.
    """
    folder = check_run(path)
    return Run(folder, model=None if model is None else load(folder, model), data=data)
