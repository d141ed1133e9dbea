"""``gsat methods``."""

from __future__ import annotations

import json

from gsat.cli.app import HOUSEKEEPING, command
from gsat.cli.options import Json
from gsat.core.terminal import echo


@command(HOUSEKEEPING, "gsat methods", "gsat methods --json")
def methods(json_: Json = False) -> None:
    """List the training methods and the papers they come from."""
    from gsat.methods import METHODS

    if json_:
        rows = [
            {"name": m.name, "title": m.title, "summary": m.summary, "paper": m.paper}
            for m in METHODS.values()
        ]
        echo(json.dumps(rows))
        return
    width = max(len(name) for name in METHODS)
    for method in METHODS.values():
        echo(f"{method.name:<{width}}  {method.title}: {method.summary}")
        echo(f"{'':<{width}}  {method.paper}")
