"""The job of a worker process of :mod:`gsat.training.many_runs`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from gsat.core.errors import DiskError, RunExistsError, StopAllError
from gsat.core.registry import load_file
from gsat.core.writing import check_writable
from gsat.ops.numba.compile import compile_quietly
from gsat.training.loop import TrainOptions
from gsat.training.many_runs import check_same_recipe
from gsat.training.members import member_recipes
from gsat.training.recipe import Recipe, from_tables
from gsat.training.run import Run
from gsat.training.run_directory import RunDirectory
from gsat.training.train import resume_run, train_recipe


def train_job(payload: dict[str, Any]) -> dict[str, Any]:
    """Train one run, or resume it where another worker has begun it."""
    torch.set_num_threads(1)
    for file in payload.get("plug_ins", ()):  # those that the caller has loaded
        load_file(file)
    compile_quietly()  # the terminal shows the caller's bar
    recipe, out = from_tables(payload["recipe"]), Path(payload["out"])
    try:
        check_same_recipe(out, recipe)  # the caller may not see this folder
        run = _train_or_resume(recipe, out, payload["patience"], payload["pretrained_cache"])
    except DiskError as error:
        if is_everywhere(error, out):
            raise StopAllError(str(error)) from error
        raise
    return {"result": run.result, "record": run.record()}


def is_everywhere(error: DiskError, out: Path) -> bool:
    """Whether other runs would fail with a disk error, too.

    That is so if the disk is full, or if the folder beside this run can't be written to either.
    """
    try:
        check_writable(out.parent)
    except DiskError:
        return True
    return error.full


def _train_or_resume(
    recipe: Recipe, out: Path, patience: float, pretrained_cache: str | None
) -> Run:
    """Train or resume; wait ``patience`` seconds for another process to leave the folder."""
    folder = RunDirectory(out)
    options = TrainOptions(
        pretrained_cache=pretrained_cache,
        member_runs=() if recipe.members is None else _member_runs(recipe, out.parent.parent),
    )
    if not folder.is_run():
        try:
            return train_recipe(recipe, out, options)
        except RunExistsError:  # another process has begun it since
            check_same_recipe(out, recipe)
    if not folder.result_path.is_file():
        folder.await_lock(patience)
    return resume_run(out, options)


def _member_runs(recipe: Recipe, folder: Path) -> list[Path]:
    """Run directories in a folder, named by :func:`run_name`, that may be members' own runs."""
    return [
        path
        for member in member_recipes(recipe).values()
        for path in sorted(folder.glob(f"*-{member.hash()}-*/seed-{member.seed}"))
        if RunDirectory(path).is_run()
    ]
