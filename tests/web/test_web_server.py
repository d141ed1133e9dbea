"""The service as a process: concurrent clients, slow clients, graceful stop."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from web_harness import graph_json, serving

import gsat
from gsat.web.requests import Limits

pytestmark = pytest.mark.medium
GSAT = str(Path(sys.executable).with_name("gsat"))
CLIENTS, REQUESTS = 16, 300


def _start(*arguments: object, **environment: str) -> tuple[subprocess.Popen[str], int]:
    """Start a command, and read the port that it prints."""
    process = subprocess.Popen(
        [GSAT, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("http://127.0.0.1:"), (line, process.communicate(timeout=20))
    return process, int(line.split()[0].rpartition(":")[2])


@pytest.fixture(scope="module")
def served(runs: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    process, port = _start("serve", runs / "motifs-a", runs / "mols", "--port", 0)
    yield process, port
    process.kill()
    process.communicate()


def test_concurrent_requests_are_answered_as_by_the_model(
    served: tuple[subprocess.Popen[str], int], runs: Path
) -> None:
    _, port = served
    run = gsat.open_run(runs / "motifs-a")
    graphs = list(run.graphs(split="all"))[:50]
    bodies = [json.dumps({"graph": graph_json(graph)}) for graph in graphs]
    expected = [run.model.explain(graph) for graph in graphs]
    local = threading.local()

    def ask(number: int) -> tuple[int, list[float]]:
        if not hasattr(local, "connection"):
            local.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        path, body = "/api/runs/motifs-a/explanations", bodies[number % len(bodies)]
        local.connection.request("POST", path, body, {"content-type": "application/json"})
        answer = local.connection.getresponse()
        content = answer.read()
        assert answer.status == 200, content
        return number, [edge["score"] for edge in json.loads(content)["results"][0]["edges"]]

    with ThreadPoolExecutor(CLIENTS) as pool:
        answers = dict(pool.map(ask, range(REQUESTS)))
    assert len(answers) == REQUESTS
    for number, scores in answers.items():
        np.testing.assert_allclose(scores, expected[number % len(graphs)].edge_mask, atol=1e-6)
    batches, graphs_done = _batches(port)
    assert graphs_done >= REQUESTS
    assert batches < REQUESTS, "concurrent requests are computed together"


def _batches(port: int) -> tuple[float, float]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    found = dict(line.split() for line in lines if line.startswith("gsat_batch_graphs_"))
    return float(found["gsat_batch_graphs_count"]), float(found["gsat_batch_graphs_sum"])


def test_an_invalid_request_does_not_affect_concurrent_ones(
    served: tuple[subprocess.Popen[str], int],
) -> None:
    _, port = served

    def ask(smiles: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        body = json.dumps({"smiles": smiles})
        connection.request("POST", "/api/runs/mols/predictions", body)
        return connection.getresponse().status

    smiles = ["CCO", "C1CC", "CCN", "c1ccccc1", "not a molecule", "CO"] * 8
    with ThreadPoolExecutor(16) as pool:
        statuses = list(pool.map(ask, smiles))
    assert statuses == [200, 422, 200, 200, 422, 200] * 8


def test_the_example_client_works(served: tuple[subprocess.Popen[str], int]) -> None:
    _, port = served
    script = Path(__file__).resolve().parents[2] / "examples" / "serve_client.py"

    def ask(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(script), "--url", f"http://127.0.0.1:{port}", *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    done = ask("mols", "--top", "2", "--smiles", "CCO", "C1CC")
    assert done.returncode == 0, done.stderr
    assert "0: predicted" in done.stdout
    assert "C1CC" in done.stdout
    assert "0: predicted" in ask("motifs-a").stdout
    assert ask("unknown").stderr.startswith("404: ")


def test_the_service_has_no_pages(served: tuple[subprocess.Popen[str], int]) -> None:
    _, port = served
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/runs")
    assert connection.getresponse().status == 404


def test_a_client_with_incomplete_headers_is_disconnected(runs: Path) -> None:
    head = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    with serving(runs, Limits(header_seconds=0.4)) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall(head)
            assert client.recv(100) == b""
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall(head + b"\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 200")


def test_requests_in_progress_end_before_a_stop(
    served: tuple[subprocess.Popen[str], int], runs: Path
) -> None:
    process, port = served  # the last test that uses it
    before, _ = _batches(port)
    graph = graph_json(gsat.open_run(runs / "motifs-a").graphs()[0])
    body = json.dumps({"graphs": [graph] * 900})
    statuses = []

    def ask() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", "/api/runs/motifs-a/explanations", body)
        answer = connection.getresponse()
        statuses.append((answer.status, len(json.loads(answer.read())["results"])))

    asking = threading.Thread(target=ask)
    asking.start()
    deadline = time.monotonic() + 30
    while _batches(port)[0] == before and time.monotonic() < deadline and asking.is_alive():
        time.sleep(0.005)
    process.send_signal(signal.SIGTERM)
    asking.join(60)
    assert statuses == [(200, 900)]
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, ""), (out, err)


# A page that computes in compiled code for a while, without holding the GIL.
_BUSY = """
import sys, time, torch
import gsat.web.server as server
import gsat.web.views as views
from gsat.cli import main
from gsat.models import InterpretableModel

work, seconds = sys.argv.pop(), float(sys.argv.pop())

def compute(*_):
    print("computing", flush=True)
    square, end = torch.rand(400, 400), time.monotonic() + seconds
    while time.monotonic() < end:
        square = (square @ square).clamp(0, 1)
    raise SystemExit

if work == "scores":
    InterpretableModel.score_edges = compute
else:
    views.thumbnail = compute
server.STOP_SECONDS = 2
main()
"""


@pytest.mark.parametrize(("work", "seconds"), [("scores", 1), ("draws", 100)])
def test_a_stop_during_computation_is_quiet(runs: Path, work: str, seconds: int) -> None:
    command = ["explore", runs / "motifs-a", "--no-browser", "--port", 0, seconds, work]
    process = subprocess.Popen(
        [sys.executable, "-c", _BUSY, *map(str, command)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        assert process.stdout.readline() == "computing\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, err) == (0, "")


def test_a_stop_does_not_wait_for_an_endless_request(runs: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _BUSY, "explore", str(runs), "--no-browser", "--port", "0", "100",
         "scores"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline().split()[0].rsplit(":", 1)[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/runs/motifs-a/graphs")
        assert process.stdout.readline() == "computing\n"
        process.send_signal(signal.SIGINT)
        answer = connection.getresponse()
        assert answer.status == 503
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0
    assert re.fullmatch(r"ERROR: +Cancel 1 running task.*\n", err), err
