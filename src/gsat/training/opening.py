"""Opening runs that there are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gsat.core.errors import GSATError
from gsat.datasets.load import Dataset
from gsat.gsat import GSAT
from gsat.models.ensemble import Ensemble
from gsat.training.run import Run
from gsat.training.run_files import check_run
from gsat.training.train import load


def open_run(
    path: str | Path | Sequence[str | Path],
    *,
    model: GSAT | None = None,
    data: Dataset | None = None,
) -> Run:
    """Open a run directory, or several as one ensemble.

    Args:
        path: The run directory. Of several runs on one split of one data set, the predictions and
            explanations are means, with the spread over the runs.
        model: The model that was given to :func:`gsat.fit`, made again, where its backbone is a
            network of your own (:func:`gsat.wrap`); it gets the weights of the run.
            (default: ``None``)
        data: The data that was given to :func:`gsat.fit`, where it is at no path.
            (default: ``None``)

    Returns:
        The run; nothing is loaded yet, unless there are several.

    Raises:
        RunError: If there is no run.
        GSATError: If several runs do not fit together.
    """
    if not isinstance(path, str | Path):
        if model is not None:
            raise GSATError("model=… is for one run; make an ensemble by gsat.Ensemble([…])")
        return _open_several(path, data)
    folder = check_run(path)
    return Run(folder, model=None if model is None else load(folder, model), data=data)


def _open_several(paths: Sequence[str | Path], data: Dataset | None) -> Run:
    opened = [Run(check_run(path)) for path in paths]
    if not opened:
        raise GSATError("at least one run directory was needed, and none was given")
    first = opened[0].recipe
    for run in opened[1:]:
        if (run.recipe.data.name, run.recipe.split_seed) != (first.data.name, first.split_seed):
            raise GSATError(
                f"{run.path} is of {run.recipe.data.label} split by seed {run.recipe.split_seed}, "
                f"{opened[0].path} of {first.data.label} split by {first.split_seed}: what one was "
                "trained on would test another; train them with one data.split_seed"
            )
    return Run(model=Ensemble([run.model for run in opened]), recipe=first, data=data)
