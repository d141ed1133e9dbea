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
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Port = 8000,
    token: Token = None,
    allow_host: Hosts = None,
    max_bytes: Annotated[int, typer.Option(min=1, help="Bytes of a request.")] = 8 << 20,
    max_graphs: Annotated[int, typer.Option(min=1, help="Graphs of a request.")] = 1000,
    max_nodes: Annotated[int, typer.Option(min=1, help="Nodes of a graph.")] = 10_000,
    max_edges: Annotated[int, typer.Option(min=1, help="Edges of a graph.")] = 100_000,
    max_seconds: Annotated[float, typer.Option(min=0.1, help="Time for an answer.")] = 60.0,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads of the model.")] = 1,
) -> None:
    """Serve predictions and explanations as a JSON API, described at /api/openapi.json.

    Concurrent requests are computed together. /healthz says whether it is up, /metrics has
    counters for Prometheus. The token is best given as GSAT_TOKEN. SIGTERM and Ctrl-C stop it once
    running requests are answered.
    """
    limits = {"body_bytes": max_bytes, "graphs": max_graphs, "nodes": max_nodes,
              "edges": max_edges, "seconds": max_seconds}  # fmt: skip
    serve_runs(runs, host, port, token, allow_host, page=False, threads=threads, limits=limits)
