"""The service as a process: concurrent clients, slow clients, graceful stop."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest
from web_harness import graph_json, serving

import gsat
from gsat.web.requests import Limits

pytestmark = pytest.mark.medium
CLIENTS, REQUESTS = 16, 200

# The command line, with a step of the service that prints a line, computes for some seconds in
# compiled code without holding the GIL, and goes on.
_BUSY = """
import time, sys, torch
import gsat.web.server as server
import gsat.web.views as views
from gsat.cli import main
from gsat.models import InterpretableModel
from gsat.training.run import Run

step, seconds = sys.argv.pop(), float(sys.argv.pop())
owner = {"score_edges": InterpretableModel, "thumbnail": views, "explain": Run}.get(step)
original = getattr(owner, step, None)

def compute(*arguments, **options):
    print("computing", flush=True)
    square, end = torch.rand(400, 400), time.monotonic() + seconds
    while time.monotonic() < end:
        square = (square @ square).clamp(0, 1)
    return original(*arguments, **options)

if owner is not None:
    setattr(owner, step, compute)
server.STOP_SECONDS = 2 if seconds > 10 else 60
main()
"""


@contextmanager
def _process(
    *command: object, step: str = "none", seconds: int = 0
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a command that serves; gives the process and its address."""
    process = subprocess.Popen(
        [sys.executable, "-c", _BUSY, *map(str, command), "--port", "0", str(seconds), step],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("http://127.0.0.1:"), (line, process.communicate(timeout=20))
        yield process, line.split()[0]
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def address(runs: Path) -> Iterator[str]:
    with _process("serve", runs / "motifs-a", runs / "mols") as (_, address):
        yield address


def test_concurrent_requests_are_answered_as_by_the_model(address: str, runs: Path) -> None:
    run = gsat.open_run(runs / "motifs-a")
    graphs = list(run.graphs(split="all"))[:50]
    bodies = [{"graph": graph_json(graph)} for graph in graphs]
    expected = run.model.explain(graphs)

    def ask(number: int) -> list[float]:
        path, body = "/api/runs/motifs-a/explanations", bodies[number % len(bodies)]
        answer = client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return [edge["score"] for edge in answer.json()["results"][0]["edges"]]

    with httpx.Client(base_url=address, timeout=60) as client, ThreadPoolExecutor(CLIENTS) as pool:
        answers = list(pool.map(ask, range(REQUESTS)))
    assert len(answers) == REQUESTS
    for number, scores in enumerate(answers):
        np.testing.assert_allclose(scores, expected[number % len(graphs)].edge_mask, atol=1e-6)


def test_the_example_client_works(address: str) -> None:
    script = Path(__file__).resolve().parents[2] / "examples" / "serve_client.py"

    def ask(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(script), "--url", address, *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    done = ask("mols", "--top", "2", "--smiles", "CCO", "C1CC")
    assert done.returncode == 0, done.stderr
    assert "0: predicted" in done.stdout
    assert "C1CC" in done.stdout
    assert "0: predicted" in ask("motifs-a").stdout
    assert ask("unknown").stderr.startswith("404: ")
    assert httpx.get(f"{address}/runs").status_code == 404, "gsat serve has no pages"


def test_a_client_with_incomplete_headers_is_disconnected(runs: Path) -> None:
    head = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    with serving(runs, Limits(header_seconds=0.4)) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall(head)
            assert client.recv(100) == b""
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall(head + b"\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("command", "path", "step", "seconds", "status"),
    [
        ("serve", "/api/runs/motifs-a/explanations/test/0", "explain", 1, 200),
        ("explore", "/runs/motifs-a/graphs?page=1", "score_edges", 100, 503),
    ],
    ids=["in-progress", "endless"],
)
def test_a_stop_waits_for_requests_but_not_forever(
    runs: Path, command: str, path: str, step: str, seconds: int, status: int
) -> None:
    options = ["--no-browser"] if command == "explore" else []
    with _process(command, runs, *options, step=step, seconds=seconds) as (process, address):
        with ThreadPoolExecutor() as pool:
            answer = pool.submit(httpx.get, f"{address}{path}", timeout=60)
            assert process.stdout is not None
            assert process.stdout.readline() == "computing\n"
            process.send_signal(signal.SIGTERM)
            assert answer.result().status_code == status
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert re.fullmatch("" if status == 200 else r"ERROR: +Cancel 1 running task.*\n", err), err


def test_the_printed_address_of_the_app_has_the_token(runs: Path) -> None:
    command = ("explore", runs / "motifs-a", "--no-browser", "--token", "a-token-of-16-letters")
    with _process(*command) as (_, address):
        assert httpx.get(address).status_code == 303
        assert httpx.get(address.partition("?")[0]).status_code == 401


def test_a_stop_while_pages_are_prepared_is_quiet(runs: Path) -> None:
    command = ("explore", runs / "motifs-a", "--no-browser")
    with _process(*command, step="thumbnail", seconds=100) as (process, _):
        assert process.stdout is not None
        assert process.stdout.readline() == "computing\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
