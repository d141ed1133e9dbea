"""Requests that cost much: heads, trailers, bodies, connections, computation, stop."""

from __future__ import annotations

import gc
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from web_harness import TOKEN, make_client, serving

from gsat.core.files import checksum
from gsat.web import rdkit_process
from gsat.web.app import make_app
from gsat.web.cancellation import cancellable, check_cancelled
from gsat.web.fair_lock import COMPUTING
from gsat.web.library import LoadedRun, RunLibrary
from gsat.web.rdkit_process import KillableProcess, TimeLimitError, WorkerBusyError
from gsat.web.requests import Limits, RequestError, read_question, without_folders
from waiting import wait_until

pytestmark = pytest.mark.medium
HEAD = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POST = b"POST /api/runs/mols/predictions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
SMALL = Limits(head_bytes=4096, connections=20, header_seconds=5, body_seconds=5)


@contextmanager
def _connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        yield client


def _received(client: socket.socket) -> bytes:
    """What is received until the server closes the connection."""
    parts = []
    try:
        while part := client.recv(65536):
            parts.append(part)
    except ConnectionResetError:  # the server has closed with unread data
        pass
    return b"".join(parts)


def _send(client: socket.socket, parts: Iterator[bytes]) -> int:
    """Send until the server closes the connection; returns the number of bytes."""
    sent = 0
    try:
        for part in parts:
            client.sendall(part)
            sent += len(part)
    except (ConnectionError, BrokenPipeError):
        pass
    return sent


def _is_healthy(port: int) -> bool:
    client = HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        client.request("GET", "/healthz")
        return client.getresponse().status == 200
    finally:
        client.close()


@pytest.fixture(scope="module")
def port(runs: Path) -> Iterator[int]:
    with serving(runs, SMALL) as port:
        yield port


@pytest.mark.parametrize(
    "parts",
    [
        [HEAD + b"X: " + b"y" * 5000 + b"\r\n\r\n"],
        [HEAD, *(b"X%d: y\r\n" % i for i in range(1000)), b"\r\n"],
        [HEAD + b"X: "] + [b"y" * 1000] * 100_000,  # a value without an end
        [b"GET /" + b"y" * 5000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"],
    ],
    ids=["value", "many", "endless", "address"],
)
def test_a_head_beyond_the_limit_is_refused(port: int, parts: list[bytes]) -> None:
    with _connected(port) as client:
        sent = _send(client, iter(parts))
        assert sent < 20_000_000
        answer = _received(client)
    assert not answer or answer.startswith(b"HTTP/1.1 431")  # empty: closed while data came
    if sent == sum(map(len, parts)):
        assert b"connection: close" in answer


@pytest.mark.parametrize(
    "trailers",
    [b"X: " + b"y" * 5000 + b"\r\n", b"".join(b"X%d: y\r\n" % i for i in range(1000))],
)
def test_trailers_beyond_the_limit_end_the_connection(port: int, trailers: bytes) -> None:
    head = POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    with _connected(port) as client:
        client.sendall(head + trailers[:100])
        _send(client, (trailers[i : i + 100] for i in range(100, len(trailers), 100)))
        assert b" 200 " not in _received(client)
    assert _is_healthy(port)


def test_a_long_body_in_chunks_of_usual_size_is_no_head(port: int) -> None:
    body = json.dumps({"smiles": ["CCO"] * 300}).encode()
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in _split(body, 100))
    with _connected(port) as client:
        client.sendall(POST + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
        client.sendall(chunks + b"0\r\n\r\n")
        assert _received(client).startswith(b"HTTP/1.1 200")


def _split(body: bytes, size: int) -> list[bytes]:
    return [body[i : i + size] for i in range(0, len(body), size)]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (b"Content-Length: 100\r\nAuthorization: Bearer wrong\r\n", 401),
        (b"Content-Length: 99999999999\r\n", 413),
        (b"Content-Length: 100\r\nOrigin: http://evil.example\r\n", 403),
    ],
)
def test_every_refusal_closes_the_connection(runs: Path, headers: bytes, status: int) -> None:
    token = TOKEN if status == 401 else None
    with serving(runs, SMALL, token=token) as port, _connected(port) as client:
        client.sendall(POST + headers + b"\r\n{")
        answer = _received(client)  # ends: the server closes
        assert answer.startswith(b"HTTP/1.1 %d" % status)
        assert b"connection: close" in answer.lower()


def test_connections_beyond_the_limit_are_refused_at_once(port: int) -> None:
    clients = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(30)]
    try:
        answers = [_received(client) for client in clients[SMALL.connections :]]
        assert all(answer.startswith(b"HTTP/1.1 503") for answer in answers)
        assert all(b"retry-after:" in answer for answer in answers)
    finally:
        for client in clients:
            client.close()
    wait_until(lambda: _accepts(port), 20)


def _accepts(port: int) -> bool:
    try:
        return _is_healthy(port)
    except OSError:
        return False


def test_too_many_pipelined_requests_end_the_connection(port: int) -> None:
    with _connected(port) as client:
        client.sendall((HEAD + b"\r\n") * 100)
        answer = _received(client)
    assert answer.count(b"HTTP/1.1 200") <= SMALL.pipelined + 1


def test_an_address_with_line_breaks_is_refused(port: int) -> None:
    for path in (b"/%0d%0aX-Y:z", b"/%0d%0a", b"/runs%00", b"/api/runs/%1b[2J"):
        with _connected(port) as client:
            client.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            answer = _received(client)
        assert answer.startswith(b"HTTP/1.1 400"), path


def test_bodies_are_counted_before_they_are_parsed() -> None:
    limits = Limits(items=1000)
    for body in (b"[" * 1001, b'{"graphs": [' + b"{}," * 1000 + b"{}]}"):
        with pytest.raises(RequestError) as error:
            read_question(body, limits)
        assert error.value.status == 413
    limits = Limits(total_edges=10)
    graph = {"num_nodes": 2, "edges": [[0, 1], [1, 0]]}
    read_question(json.dumps({"graphs": [graph] * 5}).encode(), limits)
    with pytest.raises(RequestError):
        read_question(json.dumps({"graphs": [graph] * 6}).encode(), limits)


def test_a_large_body_does_not_hold_up_other_requests(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsing, answered = threading.Event(), threading.Event()

    def slow(body: bytes, limits: Limits) -> Any:
        parsing.set()
        answered.wait(60)
        return read_question(body, limits)

    monkeypatch.setattr("gsat.web.api.read_question", slow)
    body = json.dumps({"graph": {"edges": [], "x": [[]] * 200_000}}).encode()
    client = HTTPConnection("127.0.0.1", port, timeout=60)
    client.request("POST", "/api/runs/mols/predictions", body)
    assert parsing.wait(20)
    assert _is_healthy(port)  # times out if the body is parsed by the event loop
    answered.set()
    assert client.getresponse().status in (413, 422)
    client.close()


def test_large_bodies_take_turns_and_their_memory_is_bounded(runs: Path) -> None:
    limits = Limits(small_bytes=10, held_bytes=100, wait_seconds=0.1)
    guard = make_app(RunLibrary([runs], limits))
    with TestClient(guard, base_url="http://127.0.0.1") as client:
        path = "/api/runs/mols/predictions"
        assert client.post(path, json={"smiles": "CCO"}).status_code == 200
        answer = client.post(path, json={"smiles": ["CCO"] * 50})
        assert answer.status_code == 503
        assert answer.headers["retry-after"]
        assert answer.headers["connection"] == "close"
        assert client.post(path, json={"smiles": "CCO"}).status_code == 200, "memory is released"


def test_a_refused_body_does_not_stay_in_memory(client: TestClient) -> None:
    path, body = "/api/runs/mols/predictions", b"[" * 2_000_000
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(6):
            assert client.post(path, content=body).status_code == 413
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        gc.enable()
    assert kept < 3 * len(body)


def test_health_and_readiness_differ(runs: Path, tmp_path: Path) -> None:
    with make_client(runs, token=TOKEN) as client:
        wait_until(lambda: client.get("/readyz").status_code == 200, 60)
    broken = _damaged(runs / "mols", tmp_path / "broken", {})
    with make_client(broken) as client:
        assert client.get("/healthz").status_code == 200
        answer = client.get("/readyz")
        assert (answer.status_code, "retry-after" in answer.headers) == (503, True)


def _damaged(run: Path, target: Path, given: Any) -> Path:
    """A copy of a run whose model has another description of its input."""
    shutil.copytree(run, target)
    path = target / "best" / "model.json"
    described = json.loads(path.read_text())
    del described["check"]
    described["config"]["input"] = given
    path.write_text(json.dumps({**described, "check": checksum(described)}))
    return target


@pytest.mark.parametrize(
    "given", [{}, [], "x", {"table": {}}, {"table": 3}, {"classes": [1]}, {"features": None}]
)
def test_a_damaged_run_is_one_line(runs: Path, tmp_path: Path, given: Any) -> None:
    folder = _damaged(runs / "mols", tmp_path / "a run", given)
    with make_client(folder) as client:
        path = "/api/runs/a-run"
        for answer in (
            client.post(f"{path}/explanations", json={"smiles": "CCO"}),
            client.get(f"{path}/graphs"),
            client.get(f"{path}/explanations/test/0"),
            client.get("/runs/a-run/graphs", headers={"accept": "text/html"}),
        ):
            assert answer.status_code == 409, answer.text
            assert str(tmp_path) not in answer.text
            assert "model.json" in answer.text
        assert client.get(path).json()["model"] is None


def test_messages_do_not_name_folders(tmp_path: Path) -> None:
    text = f"{tmp_path}/x/model.json can't be read; '/C=C/F' and F/C=C/F stay"
    assert without_folders(text) == "model.json can't be read; '/C=C/F' and F/C=C/F stay"
    folder = Path("/has spaces/runs")
    assert without_folders(f"{folder}/a is damaged", [folder]) == "a is damaged"


# -- cancellation ---------------------------------------------------------------------------------


def test_computation_ends_when_the_client_has_gone(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = threading.Event(), threading.Event()

    def endless(self: LoadedRun, *_: Any) -> None:
        begun.set()
        try:
            while True:
                check_cancelled()
                time.sleep(0.001)
        finally:
            ended.set()

    monkeypatch.setattr(LoadedRun, "split", endless)
    request = b"GET /api/runs/mols/graphs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with serving(runs) as port, _connected(port) as client:
        client.sendall(request)
        assert begun.wait(20)
        client.close()
        assert ended.wait(20)
    for seconds in (0.2, 1.0, 5.0):  # on a slow machine, the first may pass before it has begun
        begun.clear()
        ended.clear()
        with serving(runs, Limits(seconds=seconds)) as port, _connected(port) as client:
            client.sendall(request)
            assert _received(client).startswith(b"HTTP/1.1 503")
            if begun.is_set():
                assert ended.wait(20)
                break
    assert begun.is_set()


def test_a_cancelled_computation_does_not_take_the_lock() -> None:
    with cancellable():
        _cancel_now()
        with pytest.raises(RequestError):
            COMPUTING.__enter__()
    assert COMPUTING.acquire(timeout=1)
    COMPUTING.release()


def _cancel_now() -> None:
    from gsat.web import cancellation

    event = cancellation._CANCELLED.get()
    assert event is not None
    event.set()


# -- processes that can be killed -----------------------------------------------------------------


def test_a_call_beyond_its_time_is_killed_and_the_next_one_works() -> None:
    worker = KillableProcess()
    try:
        with pytest.raises(TimeLimitError):
            worker.call("time.sleep", 60, seconds=0.1)
        assert worker.call("builtins.sorted", [2, 1], seconds=20) == [1, 2]
        with worker._lock, pytest.raises(WorkerBusyError):
            worker.call("builtins.sorted", [], seconds=1, wait=0.01)
    finally:
        worker.close()


SHEET = (  # 36 atoms in a square lattice, which has very many paths
    "C1C2C3C4C5CC6C7C8C9CC%10C%11C%12C%13CC%14C%15C%16C1C21C32C43C56C74C85C9%10C%116C%127C%14%13"
    "C%158C%161C21C34C56C871"
)


def test_a_hard_pattern_is_stopped() -> None:
    molecules = [SHEET, "CCO"]

    def search(text: str, seconds: float) -> list[int]:
        return rdkit_process.find_substructures(
            rdkit_process.library_key(molecules), molecules, text,
            seconds=seconds, wait=1, check=check_cancelled,
        )  # fmt: skip

    assert search("CO", 20) == [1]
    with pytest.raises(RequestError) as error:
        search("*~" * 24 + "[D5]", 0.3)  # a path of 24 atoms to one that does not exist
    assert error.value.status == 422
    assert search("C1CCC1", 20) == [0], "the next search works"


def test_molecules_that_take_too_long_are_refused_alone(runs: Path) -> None:
    with make_client(runs, limits=Limits(smiles_seconds=0.01)) as client:
        many = {"smiles": ["C" * 1500] * 6}
        answer = client.post("/api/runs/mols/predictions", json=many)
        assert answer.status_code == 422
    with make_client(runs) as client:
        answer = client.post("/api/runs/mols/predictions", json={"smiles": ["CCO", "C1CC"]})
        assert answer.status_code == 200
        assert "error" in answer.json()["results"][1]


# -- stop -----------------------------------------------------------------------------------------

# Compiled code that keeps Python's lock, in a process that ignores the signal.
_STUCK = """
import ctypes, signal
from gsat.web.server import killed_after_signal
signal.signal(signal.SIGTERM, lambda *_: None)
with killed_after_signal(0.3):
    print("ready", flush=True)
    while True:
        ctypes.PyDLL(None).sleep(60)
"""


def test_a_process_that_does_not_stop_is_killed_after_a_signal() -> None:
    with subprocess.Popen([sys.executable, "-c", _STUCK], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == -signal.SIGKILL
        finally:
            process.kill()
