"""Helpers of the tests of the web app and the API."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from gsat.web.app import make_app
from gsat.web.guard import Policy
from gsat.web.library import LoadedRun, RunLibrary
from gsat.web.requests import Limits
from gsat.web.server import Server, bind

TOKEN = "a-token-of-16-letters"
LIMITS = Limits(body_bytes=20_000, graphs=5, nodes=50, edges=200, characters=60, body_seconds=0.3)
EVIL = "<script>alert(1)</script>'\"&"
_PARTS = ("C", "CC", "CCC", "c1ccccc1", "C(=O)O", "N", "CN", "O", "CO", "Cl", "C#N", "[N+](=O)[O-]")


def molecules_table(rows: int = 60) -> str:
    """A table of molecules with a class and a number; some names contain markup."""
    draw = random.Random(0)
    lines, seen = ["name,smiles,active,value"], set()
    while len(lines) <= rows:
        smiles = "C" + "".join(f"C({draw.choice(_PARTS)})" for _ in range(draw.randint(1, 5)))
        if smiles in seen:
            continue
        seen.add(smiles)
        nitro = "[N+]" in smiles
        name = f"mol-{len(lines)}" if len(lines) % 7 else f"{EVIL}-{len(lines)}"
        quoted = '"' + name.replace('"', '""') + '"'
        lines.append(f"{quoted},{smiles},{'yes' if nitro else 'no'},{len(smiles) / 10}")
    return "\n".join(lines) + "\n"


MOLECULES = molecules_table()


def open_run(runs: Path, name: str, **limits: Any) -> LoadedRun:
    """Open a run as the service does, without anything cached."""
    return RunLibrary([runs], Limits(**limits)).open(name)


def make_client(
    *paths: Path, limits: Limits | None = None, token: str | None = None, **options: Any
) -> TestClient:
    """A client of a service of runs at paths."""
    app = make_app(RunLibrary(paths, limits), Policy(token=token), **options)
    return TestClient(app, base_url="http://127.0.0.1:8765", raise_server_exceptions=False)


@contextmanager
def serving(runs: Path, limits: Limits | None = None, token: str | None = None) -> Iterator[int]:
    """Serve pages and API from a thread of this process; gives the port."""
    opened, ready = bind("127.0.0.1", 0), threading.Event()
    server = Server(make_app(RunLibrary([runs], limits), Policy(token=token)), ready=ready.set)
    server.capture_signals = nullcontext  # signals belong to the main thread
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
    thread.start()
    try:
        assert ready.wait(60)
        yield opened.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(30)


def graph_json(data: Any) -> dict[str, Any]:
    """A PyG graph as the API takes it."""
    out = {"edge_index": data.edge_index.tolist(), "num_nodes": int(data.num_nodes)}
    for name in ("x", "edge_attr"):
        if data.get(name) is not None:
            out[name] = data[name].tolist()
    return out
