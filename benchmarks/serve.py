"""The service on loopback: many clients, with requests answered together and one by one."""

from __future__ import annotations

import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import use_threads
from gsat.training.recipe import make_recipe
from gsat.training.run import open_run
from gsat.training.train import train
from gsat.web.app import make_app
from gsat.web.library import RunLibrary
from gsat.web.requests import Limits
from gsat.web.server import Server, bind

CLIENTS, REQUESTS = 32, 1000
GRAPHS = 10_000  # of the gallery
BACKBONES = ("gin", "pna")


def make_run(folder: str, backbone: str, graphs: int = 200) -> Path:
    """Train one epoch of the usual network on BA-2Motifs; speed does not depend on more."""
    path = Path(folder) / f"{backbone}-{graphs}"
    settings = {"graphs": graphs, "epochs": 1}
    train(make_recipe("ba2motifs", backbone=backbone, settings=settings), path)
    return path


def serve(run: str, how: str) -> None:
    """Serve a run until the process is stopped, and print the port."""
    torch.set_num_threads(1)
    limits = Limits(batch_graphs=1) if how == "single" else Limits()
    library, opened = RunLibrary([run], limits), bind("127.0.0.1", 0)
    app = make_app(library, pages=how == "page")
    port = opened.getsockname()[1]
    Server(app, ready=lambda: print(port, flush=True)).run(sockets=[opened])


def measure(run: Path) -> dict[str, Any]:
    """Measure the service against calling the model in a loop.

    Returns requests per second of the loop, of the service one by one and together, their ratios,
    and the latencies of single requests in milliseconds.
    """
    use_threads(1)
    opened = open_run(run)
    graphs = list(opened.graphs(split="all"))[:100]
    loop = _loop(opened.model, graphs)
    bodies = [_request(run.name, graph) for graph in graphs]
    out: dict[str, Any] = {"loop_per_s": loop}
    for name in ("single", "together"):
        rate, p50, p99 = _served(run, name, bodies)
        out |= {f"{name}_per_s": rate, f"{name}_p50_ms": p50, f"{name}_p99_ms": p99}
    out["batching_ratio"] = out["together_per_s"] / out["single_per_s"]
    out["loop_ratio"] = out["together_per_s"] / loop
    return out


def _loop(model: Any, graphs: list[Any]) -> float:
    """Explanations per second of plain calls."""
    for graph in graphs[:20]:
        model.explain(graph)
    begun = time.perf_counter()
    for graph in graphs * 5:
        model.explain(graph)
    return 5 * len(graphs) / (time.perf_counter() - begun)


def _request(name: str, graph: Any) -> bytes:
    """A whole request, so that clients cost as little as they can."""
    content = {"edge_index": graph.edge_index.tolist(), "x": graph.x.tolist()}
    body = json.dumps({"graph": content}).encode()
    head = (
        f"POST /api/runs/{name}/explanations HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _served(run: Path, how: str, bodies: list[bytes]) -> tuple[float, float, float]:
    """Requests per second, and the median and the 99th percentile of their times in ms."""
    with _process(run, how) as (_, port):
        asyncio.run(_ask(port, bodies, 200))
        begun = time.perf_counter()
        taken = asyncio.run(_ask(port, bodies, REQUESTS))
        rate = REQUESTS / (time.perf_counter() - begun)
    assert len(taken) == REQUESTS
    hundredths = statistics.quantiles(taken, n=100)
    return rate, 1e3 * statistics.median(taken), 1e3 * hundredths[98]


@contextmanager
def _process(run: Path, how: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A service in a process of its own, and its port."""
    command = [sys.executable, "-m", "benchmarks", "child", "serve", str(run), how]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(30)


async def _ask(port: int, bodies: list[bytes], count: int) -> list[float]:
    left = iter(range(count))
    taken: list[float] = []

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in left:
            begun = time.perf_counter()
            writer.write(bodies[number % len(bodies)])
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            await reader.readexactly(length)
            taken.append(time.perf_counter() - begun)
        writer.close()

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return taken


def gallery() -> dict[str, Any]:
    """Measure the pages of a gallery of 10 000 graphs, with their pictures, in seconds.

    Before the first page happens what ``gsat explore`` does at its start: the test set, a tenth of
    the graphs, is scored, and one of it drawn. Somebody looks at each page for a second, in which
    the next one is drawn.
    """
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(folder, "gin", GRAPHS)
        with _process(run, "page") as (process, port):
            client = HTTPConnection("127.0.0.1", port, timeout=120)

            def get(path: str) -> str:
                client.request("GET", path)
                answer = client.getresponse()
                content = answer.read().decode()
                assert answer.status == 200, content
                return content

            def page(query: str) -> float:
                begun = time.perf_counter()
                text = get(f"/runs/{run.name}/graphs?split=all&{query}")
                for picture in re.findall(r'src="(/runs/[^"]*thumb.svg)"', text):
                    get(picture)
                return time.perf_counter() - begun

            get(f"/runs/{run.name}/confusion?split=test")
            get(f"/runs/{run.name}/graphs/test/0/thumb.svg")
            before = _memory(process.pid)
            first, others = page("page=1"), []
            for number in range(2, 8):
                time.sleep(1)
                others.append(page(f"page={number}"))
            ordered = page("sort=auc&descending=true")
            grown = _memory(process.pid) - before
    return {
        "graphs": GRAPHS, "first_s": first, "next_s": statistics.median(others),
        "sorted_s": ordered, "grown_mib": grown,
    }  # fmt: skip


def _memory(process: int) -> float:
    """The memory of a process in MiB."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
