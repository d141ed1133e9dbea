"""``gsat settings``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from gsat.cli.app import HOUSEKEEPING, command
from gsat.cli.options import Json


@command(HOUSEKEEPING, "gsat settings", "gsat settings gsat", "gsat settings pna")
def settings(
    name: Annotated[
        str | None,
        typer.Argument(help="Method, backbone, data set or key. [default: all settings]"),
    ] = None,
    json_: Json = False,
) -> None:
    """List the settings that --set changes, with default, range and meaning."""
    from gsat.training.recipe import describe_settings

    described = describe_settings(name)
    if json_:
        typer.echo(json.dumps([vars(setting) for setting in described]))
        return
    for setting in described:
        limits = f", {setting.range}" if setting.range else ""
        typer.echo(f"{setting.name} = {setting.default}  ({setting.type}{limits})")
        if setting.description:
            typer.echo(f"    {setting.description}")
