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
        "gsat explore runs/x runs/y          compare two runs",
        "gsat explore runs                   all runs in a folder, also while they train",
        "gsat explore runs/x --port 9000 --no-browser",
    ),
)
def explore(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, or folders of them.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Port = 8765,
    browser: Annotated[bool, typer.Option(help="Open the app in your browser.")] = True,
    token: Token = None,
    allow_host: Hosts = None,
) -> None:
    """Browse runs in a local web app: explanations, comparisons, your own molecules and graphs.

    Other machines can't reach it unless you give --host, which requires a token.
    """
    serve_runs(runs, host, port, token, allow_host, page=True, browser=browser)
