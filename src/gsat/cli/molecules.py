"""Options of tables of molecules, and what is said about a table that was read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from gsat.core.errors import GSATError

if TYPE_CHECKING:
    from gsat.datasets.load import Dataset
    from gsat.training.recipe import Recipe


def table_settings(dataset: str, **given: Any) -> list[str]:
    """Return the settings of options of ``gsat train``, as ``key=value``.

    Args:
        dataset: Name or path of the data.
        **given: Values by option; None where it was not given.

    Raises:
        GSATError: If options of a table are given for other data.
    """
    from gsat.datasets.registry import is_own_data
    from gsat.molecules.table import is_table

    values = {name: value for name, value in given.items() if value is not None}
    allowed = set(values) if is_table(dataset) else set()
    if is_own_data(dataset):
        allowed |= {"split", "task"}
    for name in values:
        if name not in allowed:
            option = name.replace("_", "-")
            raise GSATError(
                f"--{option} is for a table of molecules (.csv, .sdf, …), which {dataset} is not"
            )
    return [f"data.{name}={json.dumps(value)}" for name, value in values.items()]


def read_own_data(recipe: Recipe) -> Dataset | None:
    """Read a user's own data, and print what was found in it and what can't be used.

    Returns None, and reads nothing, for a named data set.
    """
    from gsat.datasets.registry import is_own_data
    from gsat.graphs.validation import ONE_WAY, one_way
    from gsat.molecules.table import is_table
    from gsat.training.recipe import load_data

    if not is_own_data(recipe.data.name):
        return None
    data = load_data(recipe)
    if not is_table(recipe.data.name):
        if one_way(data.store):
            typer.echo(f"note: {ONE_WAY}", err=True)
        return data
    for note in data.notes:
        typer.echo(note, err=True)
    sizes = ", ".join(f"{len(part)} {name}" for name, part in data.splits.items())
    typer.echo(f"{len(data.store)} molecules; {data.options['split']} split: {sizes}", err=True)
    if data.rejected:
        typer.echo(f"{data.rejected.summary()} · rejected.csv", err=True)
    return data
