"""``gsat explore``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gsat.cli.app import YOUR_DATA, app, examples
from gsat.cli.web import Hosts, Port, Token, serve_runs


@app.command(
    rich_help_panel=YOUR_DATA,
    epilog=examples(
        "gsat explore runs/x",
        "gsat explore runs/x runs/y          two runs beside each other",
        "gsat explore runs                   all runs of a folder, those in training too",
        "gsat explore runs/x --port 9000 --no-browser",
    ),
)
def explore(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, or folders of them.")],
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Port = 8765,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
    token: Token = None,
    allow_host: Hosts = None,
) -> None:
    """Show runs in the browser: graphs with their explanations, comparisons, your own input.

    The page is for this machine alone. On any other address than 127.0.0.1 it needs a token.
    """
    serve_runs(runs, host, port, token, allow_host, page=True, browser=browser)
