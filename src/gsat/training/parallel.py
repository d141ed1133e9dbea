"""Several runs side by side in worker processes, one thread each.

Workers are spawned, never forked (a fork after OpenMP has run can hang); they share the data set's
memory-mapped arrays through the page cache. A run that is finished is not run again; one that was
cut short is resumed.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch

from gsat.errors import GSATError, RunError
from gsat.training.recipe import Recipe, Tables, from_tables
from gsat.training.results import record_once
from gsat.training.rundir import RunDirectory
from gsat.training.train import resume, train


def train_all(
    recipes: Sequence[Recipe],
    folder: str | Path,
    *,
    jobs: int = 1,
    record: str | Path | None = None,
    done: Callable[[dict[str, Any]], None] | None = None,
) -> list[dict[str, Any]]:
    """Train every recipe in its own run directory ``folder/seed-N``.

    Args:
        recipes: which differ by seed. jobs: how many processes.
        record: a file to which each finished run is appended, once.
        done: called with each result as it comes.

    Returns:
        The results in the order of the recipes.
    """
    outs = [Path(folder) / f"seed-{recipe.seed}" for recipe in recipes]
    for recipe, out in zip(recipes, outs, strict=True):
        _check_same_run(recipe, out)
    results: dict[int, dict[str, Any]] = {}
    failures: list[str] = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(recipes)), mp_context=context) as pool:
        waiting = {
            pool.submit(_work, recipe.tables(), str(out), str(record) if record else None): i
            for i, (recipe, out) in enumerate(zip(recipes, outs, strict=True))
        }
        try:
            for future in as_completed(waiting):
                index = waiting[future]
                try:
                    results[index] = future.result()
                except Exception as error:  # one broken run must not stop the others
                    failures.append(f"seed {recipes[index].seed}: {error}")
                    continue
                if done:
                    done(results[index])
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise GSATError(f"stopped; the same command goes on with {folder}") from None
    if failures:
        raise RunError(f"{len(failures)} of {len(recipes)} runs failed: {'; '.join(failures)}")
    return [results[i] for i in range(len(recipes))]


def _check_same_run(recipe: Recipe, out: Path) -> None:
    run = RunDirectory(out)
    if run.is_run() and run.recipe != recipe:
        raise RunError(f"{out} holds a run with another recipe; choose another --out")


def _work(tables: Tables, out: str, record: str | None) -> dict[str, Any]:
    torch.set_num_threads(1)
    recipe = from_tables(tables)
    run = resume(out) if RunDirectory(out).is_run() else train(recipe, out)
    if record is not None:
        record_once(record, run.record())
    return run.result
