"""Records as runs write them, with made-up numbers, and small runs trained in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gsat
from gsat.launch.pool import PoolResult
from gsat.models import BACKBONES
from gsat.study.study import Experiment
from gsat.training.recipe import Recipe
from gsat.training.results import record_once

# Small enough to be trained in a test.
SMALL = (("graphs", 30), ("epochs", 2), ("hidden", 8), ("layers", 1))
GSAT = Experiment("houses", "gsat", settings=SMALL)
ERM = Experiment("houses", "erm", settings=SMALL)


def line(experiment: Experiment, seed: int = 0, **changed: Any) -> dict[str, Any]:
    """A finished run of an experiment; ``changed`` keys go over those it has."""
    recipe = experiment.recipe(seed)
    return {
        "dataset": experiment.dataset,
        "method": experiment.method,
        "backbone": experiment.backbone,
        "seed": seed,
        "test": {"accuracy": 0.5, "explanation_auc": 0.7, "precision_at_5": 0.4},
        "matches_paper": "yes",
        "recipe_hash": recipe.hash(),
        "data_hash": "graphs",
        "recipe": recipe.tables(),
        "results_version": BACKBONES[experiment.backbone].results_version,
        **changed,
    }


def failure(experiment: Experiment, seed: int = 0, **changed: Any) -> dict[str, Any]:
    """The record of a run that failed: it has no metrics."""
    failed = line(experiment, seed, failed="it broke", **changed)
    del failed["test"], failed["matches_paper"]
    return failed


def lines(experiment: Experiment, aucs: Mapping[int, float | None]) -> list[dict[str, Any]]:
    """Runs with these explanation AUCs by seed, and the accuracies half as high."""
    return [
        line(experiment, seed, test={"accuracy": (auc or 0) / 2, "explanation_auc": auc})
        for seed, auc in aucs.items()
    ]


def train_here(started: list[str]) -> Callable[..., PoolResult]:
    """A stand-in for ``train_each`` that trains in this process, and lists the names of runs."""

    def train_each(runs: Mapping[str, Recipe], folder: Path, **how: Any) -> PoolResult:
        results = {}
        for name, recipe in runs.items():
            started.append(name)
            if (folder / name / "recipe.toml").exists():
                run = gsat.resume(folder / name)
            else:
                options = {"checkpoint_seconds": 0, "pretrained_cache": how["pretrained_cache"]}
                run = gsat.train(recipe, folder / name, **options)
            if "record" in how:
                record_once(how["record"], run.record())
            how["done"](name, run.result)
            results[name] = run.result
        return PoolResult(results)

    return train_each


def table_rows(text: str) -> dict[str, list[str]]:
    """The first table of a Markdown text, by the first cell of each line."""
    rows: dict[str, list[str]] = {}
    for row in text.splitlines():
        if row.startswith("|"):
            name, *cells = (cell.strip() for cell in row.strip("|").split(" | "))
            rows.setdefault(name, cells)
    return rows
