"""What ``gsat explore`` and ``gsat serve`` share."""

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

Port = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any that is free.")]
Token = Annotated[
    str | None,
    typer.Option(
        envvar="GSAT_TOKEN",
        help="What every request has to bring; needed on other addresses than 127.0.0.1.",
    ),
]
Hosts = Annotated[
    list[str] | None,
    typer.Option(help="A further name that the service is reached by; may be repeated."),
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
    """Serve runs until the process is asked to stop.

    Args:
        runs: Run directories, or folders of them.
        host: The address to listen on.
        port: The port; 0 for any that is free.
        token: What every request has to bring, if anything.
        allow_host: Further names that the service is reached by.
        page: Whether there is the page beside the API.
        browser: Whether it is opened in the browser. (default: ``False``)
        threads: CPU threads of the model. (default: ``1``)
        limits: Limits that are not the usual ones. (default: none)
    """
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
        """Score the first run and draw a graph while its overview is looked at."""
        from gsat.web.views import thumbnail

        with contextlib.suppress(GSATError, OSError):
            loaded = library.open(library.entries()[0].name)
            loaded.split("test")
            thumbnail(loaded, "test", 0)

    preparing = threading.Thread(target=prepare, daemon=True)

    def ready() -> None:
        count = len(library.entries())
        what = f"{count} run{'' if count == 1 else 's'}"
        typer.echo(f"{address}  ({what}; Ctrl-C stops)")
        if page and not library.is_folder:
            preparing.start()
        if browser:
            webbrowser.open(address + (f"/?token={token}" if token else ""))

    app = make_app(library, policy, pages=page)
    run_server(app, opened, library.limits, ready=ready, stopping=library.stopping.set)
    # A daemon thread that is in compiled code when Python ends aborts the process, and Python waits
    # for all others: whoever does not come out of it in time is left there.
    if preparing.ident is not None:
        preparing.join(STOP_SECONDS)
    if preparing.is_alive() or not COMPUTING.acquire(timeout=STOP_SECONDS):
        sys.stdout.flush()
        os._exit(0)
    COMPUTING.release()  # Python would wait for ever for a thread that still wants it
