"""``gsat explore`` and ``gsat serve``."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from gsat.cli.app import YOUR_DATA, command
from gsat.cli.options import limit_option, own_classes, set_threads
from gsat.core.errors import GSATError, MissingExtraError
from gsat.core.terminal import echo
from gsat.web.requests import Limits

Runs = Annotated[list[Path], typer.Argument(help="Run directories, or folders of them.")]
Host = Annotated[str, typer.Option(help="Address to listen on.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any free one.")]
Token = Annotated[
    str | None,
    typer.Option(
        envvar="GSAT_TOKEN",
        help="Secret that every request must carry; required with --host.",
    ),
]
Hosts = Annotated[
    list[str] | None,
    typer.Option(help="Additional host name of the service. Repeatable."),
]


@command(
    YOUR_DATA,
    "gsat explore runs/x",
    "gsat explore runs/x runs/y          compare two runs",
    "gsat explore runs                   all runs in a folder, also while they train",
    "gsat explore runs/x --port 9000 --no-browser",
)
@limit_option
@own_classes
def explore(
    runs: Runs,
    host: Host = "127.0.0.1",
    port: Port = 8765,
    browser: Annotated[bool, typer.Option(help="Open the app in your browser.")] = True,
    token: Token = None,
    allow_host: Hosts = None,
) -> None:
    """Browse runs in a local web app: explanations, comparisons, your own molecules and graphs.

    Other machines can't reach it unless you give --host, which requires a token.
    """
    set_threads(1)
    _serve(runs, host, port, token, allow_host, pages=True, browser=browser)


@command(
    YOUR_DATA,
    "gsat serve runs/x",
    "gsat serve runs/x --port 9000 --max-nodes 500",
    "gsat serve runs/x --host 0.0.0.0 --allow-host models.example.org",
)
@limit_option
@own_classes
def serve(
    runs: Runs,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token: Token = None,
    allow_host: Hosts = None,
    max_bytes: Annotated[
        int, typer.Option(min=1, help="Maximum size of a request, in bytes.")
    ] = Limits.body_bytes,
    max_graphs: Annotated[
        int, typer.Option(min=1, help="Maximum number of graphs per request.")
    ] = Limits.graphs,
    max_nodes: Annotated[
        int, typer.Option(min=1, help="Maximum number of nodes per graph.")
    ] = Limits.nodes,
    max_edges: Annotated[
        int, typer.Option(min=1, help="Maximum number of edges per graph.")
    ] = Limits.edges,
    max_seconds: Annotated[
        float, typer.Option(min=0.1, help="Time limit per request.")
    ] = Limits.seconds,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads for the model.")] = 1,
) -> None:
    """Serve predictions and explanations as a JSON API, described at /api/openapi.json.

    Concurrent requests are batched. /healthz and /readyz report health, and /metrics has counters
    for Prometheus. Pass the token as GSAT_TOKEN to keep it out of the process list. SIGTERM and
    Ctrl-C stop the server after it has answered open requests.
    """
    set_threads(threads)
    limits = Limits(
        body_bytes=max_bytes,
        graphs=max_graphs,
        nodes=max_nodes,
        edges=max_edges,
        seconds=max_seconds,
    )
    _serve(runs, host, port, token, allow_host, limits=limits)


def _serve(
    runs: list[Path],
    host: str,
    port: int,
    token: str | None,
    names: list[str] | None,
    *,
    pages: bool = False,
    browser: bool = False,
    limits: Limits | None = None,
) -> None:
    """Serve the API, and with ``pages`` the web app, until the process is asked to stop."""
    try:
        from gsat.web.app import make_app
        from gsat.web.guard import Policy, check_token
        from gsat.web.library import RunLibrary
        from gsat.web.rdkit_process import READER, SEARCHER
        from gsat.web.server import Server, bind, killed_after_signal
        from gsat.web.views import thumbnail
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), "web", "the page") from None

    policy = Policy(host, frozenset(map(str.lower, names or ())), check_token(host, token))
    library = RunLibrary(runs, limits)
    opened = bind(host, port)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{opened.getsockname()[1]}"
    # A browser can't send the token as a header: the first address has it, then a cookie.
    page = f"{address}/?token={token}" if token and pages else address

    def prepare() -> None:
        """Score the first run and draw a graph while the user reads the overview."""
        with contextlib.suppress(GSATError, OSError):
            loaded = library.open(library.entries()[0].name)
            loaded.split("test")
            thumbnail(loaded, "test", 0)

    preparing = threading.Thread(target=prepare, daemon=True)

    def ready() -> None:
        gc.freeze()  # modules need not be searched for garbage
        count = len(library.entries())
        echo(f"{page}  ({count} run{'' if count == 1 else 's'}; Ctrl-C stops)")
        if pages and not library.is_folder:
            preparing.start()
        if browser:
            webbrowser.open(page)

    app = make_app(library, policy, pages=pages)
    server = Server(app, ready=ready, stopping=library.stopping.set)
    with killed_after_signal():
        server.run(sockets=[opened])
        if threading.active_count() > 1:
            # Python would wait for threads that still compute; and a daemon thread in compiled
            # code aborts the process at exit.
            READER.close()
            SEARCHER.close()
            sys.stdout.flush()
            os._exit(0)
