"""Records as runs write them, with made-up numbers, and small trained runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gsat.models import BACKBONES
from gsat.study.study import Experiment

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


def table_rows(text: str) -> dict[str, list[str]]:
    """The first table of a Markdown text, by the first cell of each line."""
    rows: dict[str, list[str]] = {}
    for row in text.splitlines():
        if row.startswith("|"):
            name, *cells = (cell.strip() for cell in row.strip("|").split(" | "))
            rows.setdefault(name, cells)
    return rows
