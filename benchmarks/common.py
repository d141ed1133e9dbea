"""What all benchmarks share: side-by-side timing, the data, both models."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from gsat.datasets.load import Dataset
from gsat.errors import DataNotFoundError
from gsat.gsat import GSAT
from gsat.methods.gsat import GSATMethod
from gsat.training.recipe import Recipe, make_recipe
from gsat.training.train import load_data, make_method

DATASETS = ("ba2motifs", "mutag", "spmotif-0.5")
ROUNDS = 7


@dataclass
class Case:
    """A data set with its shipped recipe and a fresh GSAT."""

    recipe: Recipe
    data: Dataset
    method: GSATMethod

    @property
    def model(self) -> GSAT:
        """The model being trained."""
        return self.method.model


def case(dataset: str, backbone: str = "gin") -> Case | None:
    """The case, or None when its raw files are not here."""
    # A part of the digits is enough for a step, and is made in seconds.
    settings = ["images=3000"] if dataset == "mnist75sp" else []
    recipe = make_recipe(dataset, backbone=backbone, settings=settings)
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
    """The most memory this process has had so far, in MiB.

    Not by ``getrusage``: on Linux a new process begins with the peak of the one that started it.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def side_by_side(
    functions: Sequence[Callable[[], object]], rounds: int = ROUNDS, repeats: int = 1
) -> list[float]:
    """Median seconds of each function, taken in turns so that noise hits all alike."""
    for function in functions:
        function()
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(rounds):
        for function, taken in zip(functions, times, strict=True):
            start = time.perf_counter()
            for _ in range(repeats):
                function()
            taken.append((time.perf_counter() - start) / repeats)
    return [statistics.median(taken) for taken in times]


def apart(
    makers: Sequence[Callable[..., Callable[[], object]]], *args: object, rounds: int = ROUNDS
) -> list[float]:
    """Median seconds of what each maker makes, in turns, each in a process of its own.

    So neither profits nor suffers from how the other's process treats memory and threads.
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
    function = maker(*args)
    while pipe.recv() == "go":
        start = time.perf_counter()
        function()
        pipe.send(time.perf_counter() - start)


def load() -> float:
    """The machine's load over the last minute; above 0.5 the figures are not to be trusted."""
    return os.getloadavg()[0]


def thread_counts() -> tuple[int, ...]:
    """One thread, and two where there are two cores."""
    return (1, 2) if (os.cpu_count() or 1) >= 2 else (1,)


def use_threads(count: int) -> None:
    """Set torch's count; inside ``alone`` our kernels have as many and torch has one."""
    torch.set_num_threads(count)
