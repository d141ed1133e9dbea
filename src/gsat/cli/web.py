"""Options and server start of ``gsat explore`` and ``gsat serve``."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from gsat.cli.options import set_threads
from gsat.core.errors import GSATError, MissingExtraError

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


def serve_runs(
    runs: list[Path],
    host: str,
    port: int,
    token: str | None,
    allow_host: list[str] | None,
    *,
    page: bool,
    browser: bool = False,
    threads: int = 1,
    limits: dict[str, Any] | None = None,
) -> None:
    """Serve the API, and with ``page`` the web app, until the process is asked to stop."""
    try:
        import fastapi
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(str(error.name), "web", "the page") from None
    del fastapi
    from gsat.web.app import make_app
    from gsat.web.fair_lock import COMPUTING
    from gsat.web.guard import Policy, check_token
    from gsat.web.library import RunLibrary
    from gsat.web.requests import Limits
    from gsat.web.server import STOP_SECONDS, bind, run_server

    set_threads(threads)
    policy = Policy(host, frozenset(name.lower() for name in allow_host or ()),
                    check_token(host, token))  # fmt: skip
    library = RunLibrary(runs, Limits(**(limits or {})))
    opened = bind(host, port)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{opened.getsockname()[1]}"

    def prepare() -> None:
        """Score the first run and draw a graph while the user reads the overview."""
        from gsat.web.views import thumbnail

        with contextlib.suppress(GSATError, OSError):
            loaded = library.open(library.entries()[0].name)
            loaded.split("test")
            thumbnail(loaded, "test", 0)

    preparing = threading.Thread(target=prepare, daemon=True)

    def ready() -> None:
        count = len(library.entries())
        typer.echo(f"{address}  ({count} run{'' if count == 1 else 's'}; Ctrl-C stops)")
        if page and not library.is_folder:
            preparing.start()
        if browser:
            webbrowser.open(address + (f"/?token={token}" if token else ""))

    app = make_app(library, policy, pages=page)
    run_server(app, opened, library.limits, ready=ready, stopping=library.stopping.set)
    # A daemon thread in compiled code aborts the process at exit, and Python waits for all other
    # threads: threads still running after the timeout are abandoned.
    if preparing.ident is not None:
        preparing.join(STOP_SECONDS)
    if preparing.is_alive() or not COMPUTING.acquire(timeout=STOP_SECONDS):
        sys.stdout.flush()
        os._exit(0)
    COMPUTING.release()  # Python would wait forever for a thread that waits for it
