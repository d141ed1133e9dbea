"""``gsat settings``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from gsat.cli.app import HOUSEKEEPING, command
from gsat.cli.options import Json
from gsat.core.terminal import echo


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
        echo(json.dumps([vars(setting) for setting in described]))
        return
    for setting in described:
        limits = f", {setting.range}" if setting.range else ""
        echo(f"{setting.name} = {setting.default}  ({setting.type}{limits})")
        if setting.description:
            echo(f"    {setting.description}")
