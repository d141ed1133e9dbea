"""Ensembles trained as one run: a directory with the run of each member in it.

All members are trained on one split; everything else that is random has its own seed. Member k of
an ensemble of M with seed s has the seed s · M + k, so no two ensembles share members.
``DIR/members/seed-K`` is an ordinary run directory; ``DIR/result.json`` is written last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from gsat.core import system, writing
from gsat.core.errors import RunError
from gsat.core.files import is_regular, read_file
from gsat.core.limits import memory_limit
from gsat.datasets.load import Dataset
from gsat.models import InterpretableModel
from gsat.models.ensemble import MEMBERS
from gsat.training.evaluation import evaluate
from gsat.training.recipe import Recipe, with_settings
from gsat.training.run_directory import RunDirectory
from gsat.training.time_spent import Spent


def member_recipes(recipe: Recipe) -> dict[str, Recipe]:
    """The recipes of the members of an ensemble, by the names of their folders."""
    count = recipe.members or 1
    single = recipe.model_copy(update={"members": None})
    return {
        f"seed-{seed}": with_settings(single, {"seed": seed, "data.split_seed": recipe.split_seed})
        for seed in range(recipe.seed * count, (recipe.seed + 1) * count)
    }


def member_folders(run: RunDirectory) -> list[Path]:
    """The run directories of the members of an ensemble."""
    return [run.path / MEMBERS / name for name in member_recipes(run.recipe)]


def find_members(recipe: Recipe, folder: Path) -> list[Path]:
    """Runs in a folder, named by :func:`run_name`, that an ensemble may copy as its members."""
    if recipe.members is None:
        return []
    return [
        path
        for member in member_recipes(recipe).values()
        for path in sorted(folder.glob(f"*-{member.hash()}-*/seed-{member.seed}"))
        if RunDirectory(path).is_run()
    ]


def copy_members(
    runs: Sequence[Path], recipes: Mapping[str, Recipe], folder: Path, data_hash: str
) -> None:
    """Copy finished runs that are members of an ensemble into its folder."""
    for path in runs:
        source = RunDirectory.open(path)
        names = [name for name, recipe in recipes.items() if recipe == source.recipe]
        if not names or not is_regular(source.result_path):
            continue
        target = folder / names[0]
        if source.result.get("data_hash") == data_hash and not RunDirectory(target).is_run():
            files = [file for file in path.rglob("*") if file.is_file() and file.name != ".lock"]
            # recipe.toml last: it marks a complete copy.
            for file in sorted(files, key=lambda file: file.name == "recipe.toml"):
                system.make_folders((target / file.relative_to(path)).parent)
                content = read_file(file, error=RunError, limit=memory_limit())
                writing.write_bytes(target / file.relative_to(path), content)


def ensemble_result(
    recipe: Recipe,
    model: InterpretableModel,
    members: Sequence[Mapping[str, Any]],
    data: Dataset,
) -> dict[str, Any]:
    """Measure an ensemble and combine the results of its members."""
    columns = ("seed", "best_epoch", "valid", "test")
    return {
        "dataset": recipe.data.name,
        "method": recipe.method,
        "backbone": recipe.backbone.name,
        "seed": recipe.seed,
        "best_epoch": max(one["best_epoch"] for one in members),
        "selected": "members",
        "members": [{name: one[name] for name in columns} for one in members],
        "valid": evaluate(model, data, "valid"),
        "test": evaluate(model, data, "test"),
        **reduce(Spent.and_also, map(Spent.read, members)).values(),
        "matches_paper": members[0].get("matches_paper"),
        "recipe_hash": recipe.hash(),
        "data_hash": data.hash,
        "results_version": members[0].get("results_version"),
    }
