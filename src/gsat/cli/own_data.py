"""Options of the user's own data, and messages about data that was read."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gsat.cli.app import Command
from gsat.core.errors import GSATError
from gsat.core.terminal import echo
from gsat.datasets.own_options import MoleculeOptions, OwnDataOptions

if TYPE_CHECKING:
    from gsat.datasets.load import Dataset
    from gsat.training.recipe import Recipe


def table_options(*names: str) -> Callable[[Command], Command]:
    """Replace ``**table`` of a command by options, generated from the declarations of settings."""

    def add(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        kept = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        options = [_option(name) for name in names]
        command.__signature__ = signature.replace(parameters=[*kept, *options])  # type: ignore[attr-defined]
        return command

    return add


def _option(name: str) -> inspect.Parameter:
    """Make the parameter of a setting; without a value, the setting has its default."""
    field = MoleculeOptions.model_fields[name]
    kinds: dict[Any, Any] = {bool: bool, list[str]: list[str] | None}
    kind = kinds.get(field.annotation, str | None)
    data = "Own data" if name in OwnDataOptions.model_fields else "Molecules"
    option = typer.Option(
        f"--{name.replace('_', '-')}", help=f"{data}: {field.description}.", show_default=False
    )
    default = False if kind is bool else None
    only = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, only, default=default, annotation=Annotated[kind, option])


def table_settings(dataset: str, given: dict[str, Any]) -> list[str]:
    """Return the given options of a table as settings, ``key=value``."""
    from gsat.datasets.registry import is_own_data
    from gsat.molecules.table import is_table

    values = {name: value for name, value in given.items() if value}
    allowed = set(values) if is_table(dataset) else set()
    if is_own_data(dataset):
        allowed |= set(OwnDataOptions.model_fields)
    for name in values:
        if name not in allowed:
            option = name.replace("_", "-")
            raise GSATError(
                f"--{option} is for a table of molecules (.csv, .sdf, …), which {dataset} is not"
            )
    return [f"data.{name}={json.dumps(value)}" for name, value in values.items()]


def read_own_data(recipe: Recipe) -> Dataset | None:
    """Load the user's own data and print notes on it; None for a named data set."""
    from gsat.datasets.registry import is_own_data
    from gsat.graphs.validation import ONE_WAY, one_way
    from gsat.molecules.table import is_table
    from gsat.training.recipe import load_data

    if not is_own_data(recipe.data.name):
        return None
    data = load_data(recipe)
    if not is_table(recipe.data.name):
        if one_way(data.store):
            echo(f"note: {ONE_WAY}", err=True)
        return data
    for note in data.notes:
        echo(note, err=True)
    sizes = ", ".join(f"{len(part)} {name}" for name, part in data.splits.items())
    echo(f"{len(data.store)} molecules; {data.options['split']} split: {sizes}", err=True)
    if data.rejected:
        echo(f"{data.rejected.summary()} · rejected.csv", err=True)
    return data
