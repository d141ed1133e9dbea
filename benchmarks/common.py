"""What all benchmarks share: side-by-side timing, data and models."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import torch

from gsat.core.errors import DataNotFoundError
from gsat.datasets.load import Dataset
from gsat.gsat import GSAT
from gsat.methods.gsat import GSATMethod
from gsat.training.loop import make_method
from gsat.training.recipe import Recipe, load_data, make_recipe

DATASETS = ("ba2motifs", "mutag", "spmotif-0.5")
ROUNDS = 7


@dataclass
class Case:
    """A data set with its recipe and a fresh GSAT.

    Attributes:
        recipe: The recipe of the data set and backbone.
        data: The data set.
        method: GSAT, ready for its first step.
    """

    recipe: Recipe
    data: Dataset
    method: GSATMethod

    @property
    def model(self) -> GSAT:
        """The model being trained."""
        return self.method.model


def case(dataset: str, backbone: str = "gin") -> Case | None:
    """Make the case of a data set.

    Returns the case, or None (and a line printed) when its raw files are not here.
    """
    # A part of the digits is enough for a step, and is made in seconds.
    settings = ["images=3000"] if dataset == "mnist75sp" else []
    recipe = make_recipe(dataset, backbone=backbone, settings=settings, look_for_files=False)
    try:
        data = load_data(recipe)
    except DataNotFoundError as error:
        print(f"  {dataset}: left out ({error})")
        return None
    method = make_method(recipe, data)
    assert isinstance(method, GSATMethod)
    method.begin("train")
    return Case(recipe, data, method)


def peak_memory() -> float:
    """Return the peak memory of this process so far, in MiB.

    Not from ``getrusage``: on Linux a new process begins with the peak of the one that started it.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


class Timing(NamedTuple):
    """Median seconds per call.

    Attributes:
        wall: By the clock.
        cpu: Of processor time, over all threads; other processes on the machine change it little.
    """

    wall: float
    cpu: float


def side_by_side(
    functions: Sequence[Callable[[], object]], rounds: int = ROUNDS, repeats: int = 1
) -> list[Timing]:
    """Time functions in turns, so that noise affects all alike."""
    for function in functions:
        function()
    times: list[list[Timing]] = [[] for _ in functions]
    for _ in range(rounds):
        for function, taken in zip(functions, times, strict=True):
            start = time.perf_counter(), time.process_time()
            for _ in range(repeats):
                function()
            wall, cpu = time.perf_counter() - start[0], time.process_time() - start[1]
            taken.append(Timing(wall / repeats, cpu / repeats))
    return [Timing(*map(statistics.median, zip(*taken, strict=True))) for taken in times]


def apart(
    makers: Sequence[Callable[..., Callable[[], object]]], *args: object, rounds: int = ROUNDS
) -> list[float]:
    """Time functions in turns, each in a process of its own.

    So none is affected by how the process of another treats memory and threads.
    """
    context = multiprocessing.get_context("spawn")
    pipes, workers = [], []
    for maker in makers:
        here, there = context.Pipe()
        worker = context.Process(target=_serve, args=(there, maker, args), daemon=True)
        worker.start()
        pipes.append(here)
        workers.append(worker)
    times: list[list[float]] = [[] for _ in makers]
    for number in range(rounds + 1):
        for pipe, taken in zip(pipes, times, strict=True):
            pipe.send("go")
            seconds = pipe.recv()
            if number:  # the first warms up
                taken.append(seconds)
    for pipe, worker in zip(pipes, workers, strict=True):
        pipe.send("stop")
        worker.join()
    return [statistics.median(taken) for taken in times]


def _serve(pipe: Connection, maker: Callable[..., Callable[[], object]], args: Any) -> None:
    """Time the function on every request."""
    function = maker(*args)
    while pipe.recv() == "go":
        start = time.perf_counter()
        function()
        pipe.send(time.perf_counter() - start)


def load() -> float:
    """Return the machine's load over the last minute; above 0.5 figures are not reliable."""
    return os.getloadavg()[0]


def thread_counts() -> tuple[int, ...]:
    """Return the thread counts to measure: one, and two where there are two cores."""
    return (1, 2) if (os.cpu_count() or 1) >= 2 else (1,)


def use_threads(count: int) -> None:
    """Set torch's number of threads; inside ``exclusive_threads`` they go to the kernels."""
    torch.set_num_threads(count)
