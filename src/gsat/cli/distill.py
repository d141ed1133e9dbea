"""``gsat distill``."""

from __future__ import annotations

from gsat.cli.app import YOUR_DATA, command
from gsat.cli.options import (
    Device,
    Epochs,
    Json,
    Out,
    Quiet,
    RunFolder,
    Set,
    Threads,
    all_settings,
    limit_option,
    own_classes,
    set_threads,
)
from gsat.cli.output import print_ending


@command(
    YOUR_DATA,
    "gsat distill runs/ensemble --out runs/one",
    "gsat distill runs/ensemble --set distill_coef=5",
)
@limit_option
@own_classes
def distill(
    run: RunFolder,
    epochs: Epochs = None,
    set_: Set = None,
    out: Out = None,
    device: Device = "cpu",
    threads: Threads = None,
    quiet: Quiet = False,
    json_: Json = False,
) -> None:
    """Train a single model that imitates the explanations of an ensemble.

    It uses the ensemble's data, split and recipe, and runs as fast as one member.
    """
    set_threads(threads)
    from gsat.core.settings import parse_setting
    from gsat.training.distillation import distillation_recipe
    from gsat.training.run_directory import new_run_folder
    from gsat.training.train import train

    settings = dict(parse_setting(text) for text in all_settings(set_, epochs))
    recipe = distillation_recipe(run, settings)
    folder = out or new_run_folder(recipe)
    finished = train(recipe, folder, device=device, progress=not quiet)
    print_ending(finished, folder, json_, audited=False, quiet=quiet)
