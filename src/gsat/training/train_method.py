"""Train a method on data: open its run directory, run the loop, write the result."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from gsat.core.writing import write_text
from gsat.datasets.load import Dataset
from gsat.datasets.molecule_tables import input_of
from gsat.methods import METHODS, Method
from gsat.models import BACKBONES, Backbone
from gsat.models.weights import outline
from gsat.training.loop import Loop, TrainOptions
from gsat.training.pretrained_cache import pretrained_entry
from gsat.training.recipe import Recipe
from gsat.training.run_directory import RunDirectory

REJECTED = "rejected.csv"  # in a run directory: the rows of a table that were not used


def make_method(recipe: Recipe, data: Dataset, kind: type[Method] | None = None) -> Method:
    """Make the method of a recipe, or one of another class, on a new backbone for the data."""
    settings = recipe.backbone.model_dump(exclude_none=True)
    network = BACKBONES[settings.pop("name")]

    def build() -> Backbone:
        return network.for_data(data, seed=recipe.seed, **settings)

    outline(build)  # first without memory: a recipe may ask for any size
    backbone = build()
    kind = METHODS[recipe.method] if kind is None else kind
    method = kind.create(backbone, recipe.settings, recipe.training, recipe.seed)
    method.prepare(data)
    return method


def train_method(
    method: Method,
    data: Dataset,
    recipe: Recipe,
    run: RunDirectory | None,
    options: TrainOptions,
    *,
    resuming: bool = False,
    save_start: bool = False,
) -> dict[str, Any]:
    """Train a method, in its run directory if there is one; returns the result."""
    group, pretrained = options.group, None
    method.model.input = input_of(data.store)
    if run and not resuming and data.rejected and group.is_main:
        write_text(run.path / REJECTED, data.rejected.to_csv())
    with group.share_errors():
        # A run may be resumed on another device: only pretraining on the CPU is shared.
        if options.pretrained_cache and run and group.size == 1 and options.device == "cpu":
            cache = options.pretrained_cache
            pretrained = pretrained_entry(cache, run, recipe, method, data.hash)
    with ExitStack() as locks:
        with group.share_errors():
            loop = Loop(
                method,
                data,
                batch_size=recipe.training.batch_size,
                seed=recipe.seed,
                run=run,
                options=options,
                pretrained=pretrained,
                label=f"{recipe.data.label} seed {recipe.seed}",
            )
            if loop.run:
                locks.enter_context(loop.run.locked())
            problems = loop.resume() if resuming else []
            if save_start and run is not None:
                loop.save_start()
        group.check_same(
            "the recipe, the data or the checkpoint", [recipe.hash(), data.hash, loop.done]
        )
        if resuming:  # all processes have read the checkpoint by now
            if options.warn and group.is_main:
                for problem in problems:
                    options.warn(f"{problem}; resuming from the checkpoint before it")
            with group.share_errors():
                loop.clean()
        result = {
            "dataset": recipe.data.name,
            "method": recipe.method,
            "backbone": recipe.backbone.name,
            "seed": recipe.seed,
            **loop.train(),
            "matches_paper": data.matches_paper,
            "recipe_hash": recipe.hash(),
            "data_hash": data.hash,
            "results_version": method.model.backbone.results_version,
        }
        if loop.run:
            loop.run.write_result(result)
    return result
