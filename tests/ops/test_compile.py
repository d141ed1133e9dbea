"""Kernels are compiled once, kept on disk, and work where nothing can be kept."""

from __future__ import annotations

import importlib.util
import io
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from gsat.ops.numba import compile as compile_module
from gsat.ops.numba.parallel import run_over_segments

# One kernel is called from Python and inlined into the other.
KERNELS = """
import numpy as np
from gsat.ops.numba.compile import kernel

@kernel
def total(first, last, ptr, x, out):
    for i in range(first, last):
        out[i] = np.float32(0.0)
        for j in range(ptr[i], ptr[i + 1]):
            out[i] += x[j] * x[j]

@kernel
def twice(first, last, ptr, x, out):
    total(first, last, ptr, x, out)
    for i in range(first, last):
        out[i] *= np.float32(2.0)
"""
Load = Callable[[Path], Any]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "own_kernels.py"
    path.write_text(KERNELS)
    return path


@pytest.fixture
def load(source: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """``load(folder)``: the kernel ``total`` as in a new process, run once with code from there."""

    def run(folder: Path) -> Any:
        monkeypatch.setenv("GSAT_KERNELS", str(folder))
        compile_module._private_folder.cache_clear()
        spec = importlib.util.spec_from_file_location("own_kernels", source)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "own_kernels", module)
        spec.loader.exec_module(module)
        out = np.zeros(2, np.float32)
        run_over_segments(module.total, np.array([0, 1, 4]), np.arange(4, dtype=np.float32), out)
        assert out.tolist() == [0, 14]
        return module.total

    return run


def kept_in(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.suffix in (".nbi", ".nbc")]


def from_disk(kernel: Any) -> bool:
    return sum(kernel.stats.cache_hits.values()) == 1


@pytest.mark.medium
def test_code_read_from_disk_gives_the_bits_of_code_just_compiled(
    source: Path, tmp_path: Path
) -> None:
    """In whatever order kernels are read: a run resumed in another process must not change."""
    folder = tmp_path / "kept"
    environment = {**os.environ, "GSAT_KERNELS": str(folder)}
    environment["PYTHONPATH"] = f"{source.parent}:{os.environ.get('PYTHONPATH', '')}"

    def run(*order: str) -> tuple[dict[str, str], dict[Path, int]]:
        """The bits that each kernel gives, and the files that are kept."""
        program = (
            "import numpy as np, own_kernels, sys\n"
            "x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)\n"
            "for name in sys.argv[1:]:\n"
            "    out = np.zeros(1, np.float32)\n"
            "    getattr(own_kernels, name)(0, 1, np.array([0, 1000]), x, out)\n"
            "    print(name, out.tobytes().hex())\n"
        )
        command = [sys.executable, "-c", program, *order]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        written = {file: file.stat().st_mtime_ns for file in kept_in(folder)}
        return dict(line.split() for line in done.stdout.splitlines()), written

    compiled, written = run("total", "twice")
    read, unchanged = run("twice", "total")
    assert read == compiled
    assert written
    assert unchanged == written  # nothing was compiled again


def test_code_is_kept_in_a_private_folder_only(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, own = tmp_path / "shared", tmp_path / "own"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(shared))
    assert not from_disk(load(own))
    assert from_disk(load(own))
    assert not kept_in(shared)
    assert kept_in(own)
    assert own.stat().st_mode & 0o077 == 0


class Evil:
    """Makes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


def test_code_that_others_could_have_written_is_not_run(load: Load, tmp_path: Path) -> None:
    own, mark = tmp_path / "own", tmp_path / "mark"
    load(own)
    files = kept_in(own)
    assert files
    for file in files:
        file.write_bytes(pickle.dumps(Evil(mark)))
    own.chmod(0o777)
    assert not from_disk(load(own))
    assert not mark.exists()


@pytest.mark.parametrize("keep", [0, 10])
def test_a_damaged_cache_is_compiled_over(keep: int, load: Load, tmp_path: Path) -> None:
    load(tmp_path / "own")
    for file in kept_in(tmp_path / "own"):
        file.write_bytes(file.read_bytes()[:keep])
    assert not from_disk(load(tmp_path / "own"))
    assert from_disk(load(tmp_path / "own"))


def test_it_works_where_no_folder_can_be_written(load: Load, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for _ in range(2):
        assert not from_disk(load(tmp_path / "file" / "kernels"))


def test_it_works_where_numba_refuses_to_keep_code(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numba raises when asked to; the kernel is compiled in memory instead."""
    real = numba.njit

    def refuse(*args: Any, **options: Any) -> Any:
        if options.pop("cache", False):
            raise RuntimeError("cannot cache function: no locator available")
        return real(*args, **options)

    monkeypatch.setattr(numba, "njit", refuse)
    load(tmp_path / "own")
    assert not kept_in(tmp_path / "own")


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
            assert compile_module._announced.wait(30)  # set when the notice is due

    monkeypatch.setattr(sys, "stderr", stream)
    compile_module._announced.clear()
    try:
        for _ in range(2):
            run_over_segments(Slow(), np.array([0, 0]))
    finally:
        compile_module._announced.set()
    assert stream.getvalue().count("compiling kernels") == notices
