"""``gsat serve``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gsat.cli.app import YOUR_DATA, app, examples
from gsat.cli.web import Hosts, Port, Token, serve_runs


@app.command(
    rich_help_panel=YOUR_DATA,
    epilog=examples(
        "gsat serve runs/x",
        "gsat serve runs/x --port 9000 --max-nodes 500",
        "gsat serve runs/x --host 0.0.0.0 --allow-host models.example.org",
    ),
)
def serve(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, or folders of them.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Port = 8000,
    token: Token = None,
    allow_host: Hosts = None,
    max_bytes: Annotated[int, typer.Option(min=1, help="Maximum size of a request, in bytes.")] = 8
    << 20,
    max_graphs: Annotated[
        int, typer.Option(min=1, help="Maximum number of graphs per request.")
    ] = 1000,
    max_nodes: Annotated[
        int, typer.Option(min=1, help="Maximum number of nodes per graph.")
    ] = 10_000,
    max_edges: Annotated[
        int, typer.Option(min=1, help="Maximum number of edges per graph.")
    ] = 100_000,
    max_seconds: Annotated[float, typer.Option(min=0.1, help="Time limit per request.")] = 60.0,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads for the model.")] = 1,
) -> None:
    """Serve predictions and explanations as a JSON API, described at /api/openapi.json.

    Concurrent requests are batched. /healthz reports health, and /metrics has counters for
    Prometheus. Pass the token as GSAT_TOKEN to keep it out of the process list. SIGTERM and Ctrl-C
    stop the server after it has answered open requests.
    """
    limits = {"body_bytes": max_bytes, "graphs": max_graphs, "nodes": max_nodes,
              "edges": max_edges, "seconds": max_seconds}  # fmt: skip
    serve_runs(runs, host, port, token, allow_host, page=False, threads=threads, limits=limits)
