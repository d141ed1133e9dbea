"""Kernels compiled ahead of time: all of them, and those that a training takes."""

from __future__ import annotations

import pytest

from gsat.cli.app import run
from gsat.core.errors import RunError
from gsat.launch.jobs import Outcome
from gsat.ops.numba import compile as compile_module
from gsat.ops.numba.compile import compiled_kernels
from gsat.training import warm_up


def test_every_kernel_is_compiled() -> None:
    for name in warm_up.PARTS:
        found = warm_up.compile_part(name)
    declared = {
        f"{kernel.py_func.__module__}.{kernel.py_func.__name__}"
        for kernel in compile_module._kernels
        if kernel.py_func.__module__.startswith("gsat.")
    }
    assert declared - {name.partition("(")[0] for name in found} == set()


def test_a_training_needs_no_other() -> None:
    """Neither another kernel nor one for other kinds of arguments."""
    import gsat

    for name in warm_up.PARTS:
        warm_up.compile_part(name)
    before = set(compiled_kernels())
    data = gsat.load_dataset("ba2motifs", graphs=40)
    for backbone in (gsat.GIN, gsat.PNA, gsat.LEConvNet):
        for attention in ("edge", "node"):
            model = gsat.GSAT(backbone.for_data(data, hidden=8), attention=attention)
            gsat.fit(model, data, epochs=1).model.explain(data.test[0])
    assert set(compiled_kernels()) == before


def test_the_command_counts_kernels(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = {"sampling": warm_up.PARTS["sampling"]}
    monkeypatch.setattr(warm_up, "PARTS", few)
    with pytest.raises(SystemExit) as ended:
        run(["warm-up", "--jobs", "1", "--quiet"])
    assert ended.value.code == 0
    assert "kernels are ready, after" in capsys.readouterr().out


def test_a_failure_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, workers: int) -> None:
            pass

        def __enter__(self) -> Broken:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def run(self, jobs: object, on_done: object) -> None:
            on_done("GIN", Outcome("died", "the worker died"))  # type: ignore[operator]

    monkeypatch.setattr(warm_up, "WorkerPool", Broken)
    with pytest.raises(RunError, match="the kernels of GIN can't be compiled: the worker died"):
        warm_up.warm_up(1, progress=False)
