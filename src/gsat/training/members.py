"""Ensembles trained as one run: a directory with the run of each member in it.

All members are trained on one split; everything else that is random has a seed of its own. Member k
of an ensemble of M with seed s has the seed s · M + k, so ensembles of other seeds have other
members. ``DIR/members/seed-K`` is a run directory as any other; ``DIR/result.json`` is written when
all are finished.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gsat.core import system, writing
from gsat.core.errors import RunError
from gsat.core.files import is_regular, read_file
from gsat.core.limits import memory_limit
from gsat.models import InterpretableModel
from gsat.models.ensemble import MEMBERS, Ensemble
from gsat.models.saved import load_model
from gsat.training.evaluation import evaluate_model
from gsat.training.recipe import Recipe, with_settings
from gsat.training.run_directory import RunDirectory
from gsat.training.run_files import check_run
from gsat.training.train import (
    TrainingResult,
    complete_recipe,
    load_data,
    resume,
    train,
)

# Trains recipes by name, each in folder/NAME, and resumes those that were begun.
TrainMembers = Callable[[Mapping[str, Recipe], Path], Any]


def member_recipes(recipe: Recipe) -> dict[str, Recipe]:
    """The recipes of the members of an ensemble."""
    count = recipe.members or 1
    single = recipe.model_copy(update={"members": None})
    found = {}
    for seed in range(recipe.seed * count, (recipe.seed + 1) * count):
        found[f"seed-{seed}"] = with_settings(
            single, {"seed": seed, "data.split_seed": recipe.split_seed}
        )
    return found


def train_ensemble(
    recipe: Recipe,
    out: str | Path | None,
    train_members: TrainMembers | None = None,
    *,
    known: Sequence[Path] = (),
    **how: Any,
) -> TrainingResult:
    """Train an ensemble."""
    recipe = complete_recipe(recipe, load_data(recipe))
    if out is None:
        results = {k: train(member, **how) for k, member in member_recipes(recipe).items()}
        models = [result.model for result in results.values()]
        return _finish(recipe, models, {k: result.result for k, result in results.items()}, None)
    run = RunDirectory.create(out, recipe)
    return _train_in(run, recipe, train_members, known, how)


def resume_ensemble(
    path: str | Path,
    train_members: TrainMembers | None = None,
    *,
    known: Sequence[Path] = (),
    **how: Any,
) -> TrainingResult:
    """Resume an ensemble: members that are finished are left, others are resumed or begun."""
    run = RunDirectory.open(path)
    if is_regular(run.result_path):
        return TrainingResult(load_ensemble(path), run.recipe, run.result, run.path)
    run.check_recipe()
    return _train_in(run, run.recipe, train_members, known, how)


def load_ensemble(path: str | Path) -> Ensemble:
    """Load the models of an ensemble."""
    folder = RunDirectory(check_run(path))
    if not is_regular(folder.result_path):
        raise RunError(f"{path} is not finished; resume it with: gsat resume {path}")
    return Ensemble([load_model(member) for member in member_folders(folder)])


def member_folders(run: RunDirectory) -> list[Path]:
    """The run directories of the members of an ensemble."""
    return [run.path / MEMBERS / name for name in member_recipes(run.recipe)]


def is_ensemble(path: str | Path) -> bool:
    """Whether a run directory is that of an ensemble."""
    return RunDirectory.open(path).recipe.members is not None


def _train_in(
    run: RunDirectory,
    recipe: Recipe,
    train_members: TrainMembers | None,
    known: Sequence[Path],
    how: Mapping[str, Any],
) -> TrainingResult:
    """Train the members in the folder of an ensemble and measure it."""
    recipes, folder = member_recipes(recipe), run.path / MEMBERS
    with run.locked():
        run.clear_partial_files()
        copy_members(known, recipes, folder, load_data(recipe).hash)
        if train_members is not None:
            train_members(recipes, folder)
        else:
            for name, member in recipes.items():
                train_or_resume(member, folder / name, how)
        finished = [RunDirectory.open(folder / name) for name in recipes]
        results = {name: one.result for name, one in zip(recipes, finished, strict=True)}
        models = [load_model(one.path) for one in finished]
        ended = _finish(recipe, models, results, run)
    return ended


def copy_members(
    known: Sequence[Path], recipes: Mapping[str, Recipe], folder: Path, data_hash: str
) -> None:
    """Copy finished runs that are members of an ensemble into its folder."""
    for path in known:
        source = RunDirectory.open(path)
        names = [name for name, recipe in recipes.items() if recipe == source.recipe]
        if not names or not is_regular(source.result_path):
            continue
        target = folder / names[0]
        if source.result.get("data_hash") == data_hash and not RunDirectory(target).is_run():
            files = [file for file in path.rglob("*") if file.is_file() and file.name != ".lock"]
            # Last the recipe, with which a folder is a run.
            for file in sorted(files, key=lambda file: file.name == "recipe.toml"):
                system.make_folders((target / file.relative_to(path)).parent)
                content = read_file(file, error=RunError, limit=memory_limit())
                writing.write_bytes(target / file.relative_to(path), content)


def train_or_resume(recipe: Recipe, out: Path, how: Mapping[str, Any]) -> TrainingResult:
    """Begin a run, or resume the one that its folder holds."""
    if not RunDirectory(out).is_run():
        return train(recipe, out, **how)
    if RunDirectory(out).recipe != recipe:
        raise RunError(f"{out} holds a run with another recipe; choose another folder")
    return resume(out, **how)


def _finish(
    recipe: Recipe,
    models: list[InterpretableModel],
    results: Mapping[str, dict[str, Any]],
    run: RunDirectory | None,
) -> TrainingResult:
    """Measure an ensemble, and write its result if it has a run directory."""
    ensemble, each, data = Ensemble(models), list(results.values()), load_data(recipe)
    kept = ("seed", "best_epoch", "valid", "test")
    first = each[0]
    result = {
        "dataset": recipe.data.name,
        "method": recipe.method,
        "backbone": recipe.backbone.name,
        "seed": recipe.seed,
        "best_epoch": max(one["best_epoch"] for one in each),
        "selected": "members",
        "members": [{name: one[name] for name in kept} for one in each],
        "valid": evaluate_model(ensemble, data.split("valid")),
        "test": evaluate_model(ensemble, data.split("test")),
        "seconds": round(sum(one["seconds"] for one in each), 3),
        "matches_paper": first.get("matches_paper"),
        "recipe_hash": recipe.hash(),
        "data_hash": data.hash,
        "results_version": first.get("results_version"),
    }
    if run is not None:
        run.write_result(result)
    return TrainingResult(ensemble, recipe, result, run.path if run else None)
