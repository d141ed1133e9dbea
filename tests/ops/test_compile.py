"""Kernels are compiled once, kept on disk, and work where nothing can be kept."""

from __future__ import annotations

import io
import os
import pickle
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import gsat
from gsat.ops.numba import compile as compile_module
from gsat.ops.numba.compile import kernel
from gsat.ops.numba.parallel import run_over_segments

# Among the kernels are some that are called from Python and inlined into others.
TRAIN_A_LAYER = """
import hashlib
import torch
from torch import nn
from gsat.graphs import from_pyg
from gsat.ops import Draws, batch_norm_relu, gin_layers, pool, relu_dropout
from reference import random_graphs

torch.set_num_threads(1)
torch.manual_seed(0)
batch = from_pyg(random_graphs(6, 40, awkward=False)).batch([i % 40 for i in range(200)])
inner, norm, outer = nn.Linear(4, 16), nn.BatchNorm1d(16), nn.Linear(16, 16)
y = gin_layers(batch.x, batch, None, [None], [(inner, norm, outer)], 0.3, [Draws(0)])
y = relu_dropout(batch_norm_relu(y, inner.bias, norm), batch.node_id, 0.3, Draws(1), outer.bias)
pool(y, batch.node_ptr).square().sum().backward()
parameters = [*inner.parameters(), *norm.parameters(), *outer.parameters()]
grads = b"".join(p.grad.numpy().tobytes() for p in parameters if p.grad is not None)
print(hashlib.sha256(grads).hexdigest())
"""


@pytest.mark.medium
def test_code_is_read_from_disk_and_gives_the_bits_of_code_just_compiled(tmp_path: Path) -> None:
    """A run that is resumed in another process must continue as it would have."""
    environment = {**os.environ, "GSAT_KERNELS": str(tmp_path)}
    environment["PYTHONPATH"] = f"{Path(__file__).parents[1]}:{os.environ.get('PYTHONPATH', '')}"

    def run() -> tuple[str, dict[Path, int]]:
        """The bits, and all files that are kept, with the times they were written."""
        command = [sys.executable, "-c", TRAIN_A_LAYER]
        finished = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        )
        kept = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*") if file.is_file()}
        return finished.stdout, kept

    compiled, written = run()
    read, unchanged = run()
    assert written
    assert unchanged == written  # nothing was compiled again
    assert read == compiled


def test_it_works_where_numba_refuses_to_keep_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba raises when asked to; the kernel is compiled in memory instead."""
    real = numba.njit

    def refuse(*args: Any, **options: Any) -> Any:
        if options.pop("cache", False):
            raise RuntimeError("cannot cache function: no locator available")
        return real(*args, **options)

    monkeypatch.setattr(numba, "njit", refuse)

    def double(first, last, ptr, x):  # type: ignore[no-untyped-def]
        for i in range(ptr[first], ptr[last]):
            x[i] *= 2

    values = np.arange(4.0)
    run_over_segments(kernel(double), np.array([0, 1, 4]), values)
    assert values.tolist() == [0, 2, 4, 6]


@pytest.mark.medium
def test_it_works_where_no_folder_can_be_written(tmp_path: Path) -> None:
    """Neither beside the source nor in the user's cache: files stand where folders would be."""
    source = tmp_path / "src" / "gsat"
    shutil.copytree(
        Path(gsat.__file__).parent, source, ignore=shutil.ignore_patterns("__pycache__")
    )
    (source / "ops" / "numba" / "__pycache__").touch()
    (tmp_path / "home").touch()
    inside_a_file = str(tmp_path / "home" / "cache")
    environment = {name: value for name, value in os.environ.items() if name != "GSAT_KERNELS"} | {
        "PYTHONPATH": str(source.parent),
        "HOME": inside_a_file,
        "XDG_CACHE_HOME": inside_a_file,
        "LOCALAPPDATA": inside_a_file,
    }
    program = (
        "import torch; from gsat.ops import pool; "
        "print(pool(torch.ones(3, 1), torch.tensor([0, 3])).item())"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert finished.stdout.strip() == "3.0"


PROGRAM = (
    "import torch; from gsat.ops import pool; "
    "print(pool(torch.ones(3, 1), torch.tensor([0, 3])).item())"
)


def run_kernel(**environment: str) -> str:
    """What a new process prints that runs a kernel, and that it prints nothing else."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.strip()


class Evil:
    """Makes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


@pytest.mark.medium
def test_code_that_others_could_have_written_is_not_run(tmp_path: Path) -> None:
    shared, own, mark = tmp_path / "shared", tmp_path / "own", tmp_path / "mark"
    assert run_kernel(GSAT_KERNELS=str(own), NUMBA_CACHE_DIR=str(shared)) == "3.0"
    assert not list(shared.rglob("*.nb?"))
    kept = [file for file in own.rglob("*") if file.suffix in (".nbi", ".nbc")]
    assert kept
    assert own.stat().st_mode & 0o077 == 0
    # As somebody leaves it who may write to the folder.
    for file in kept:
        file.write_bytes(pickle.dumps(Evil(mark)))
    own.chmod(0o777)
    assert run_kernel(GSAT_KERNELS=str(own)) == "3.0"
    assert not mark.exists()


@pytest.mark.medium
@pytest.mark.parametrize("keep", [0, 10])
def test_a_damaged_cache_is_compiled_over(keep: int, tmp_path: Path) -> None:
    assert run_kernel(GSAT_KERNELS=str(tmp_path / "own")) == "3.0"
    for file in (tmp_path / "own").rglob("*.nb?"):
        file.write_bytes(file.read_bytes()[:keep])
    assert run_kernel(GSAT_KERNELS=str(tmp_path / "own")) == "3.0"


def test_a_folder_is_private_or_not_used(tmp_path: Path) -> None:
    private = compile_module._private_folder.__wrapped__
    assert private(tmp_path / "a" / "b") == (tmp_path / "a" / "b").resolve()
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert private(tmp_path / "open") is None
    assert private(tmp_path / "open" / "below") is None  # it could be replaced
    (tmp_path / "open").chmod(0o1777)  # as /tmp is
    assert private(tmp_path / "open" / "below") is not None
    (tmp_path / "file").touch()
    assert private(tmp_path / "file" / "below") is None


class Terminal(io.StringIO):
    """Standard error on a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "notices"), [(Terminal(), 1), (io.StringIO(), 0)])
def test_a_long_compilation_is_announced_once_and_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, notices: int
) -> None:
    class Slow:
        def __call__(self, *_: object) -> None:
            time.sleep(0.5)

    monkeypatch.setattr(sys, "stderr", stream)
    compile_module._announced.clear()
    try:
        for _ in range(2):
            run_over_segments(Slow(), np.array([0, 0]))
    finally:
        compile_module._announced.set()
    assert stream.getvalue().count("compiling kernels") == notices
