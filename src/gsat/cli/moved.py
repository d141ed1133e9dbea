"""Commands that moved to ``python -m paper`` in a checkout of the repository."""

from __future__ import annotations

import typer

from gsat.cli.app import app
from gsat.cli.bench import bench
from gsat.core.errors import GSATError


def _add_moved(commands: typer.Typer, name: str, old: str, new: str) -> None:
    """Register a hidden command that accepts any arguments and says where it moved."""

    @commands.command(
        name,
        hidden=True,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def moved() -> None:
        raise GSATError(f"'{old}' has moved: in a checkout of the repository, run: {new}")


_add_moved(app, "results", "gsat results", "python -m paper results")
_add_moved(bench, "audit", "gsat bench audit", "python -m paper audit")
_add_moved(bench, "defaults", "gsat bench defaults", "python -m paper defaults")
