"""Kernels compiled ahead of time: all of them, and those that a training takes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gsat.cli.app import run
from gsat.core.errors import RunError
from gsat.launch.jobs import Job, Outcome
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


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Parts are compiled in this process; those that are listed fail."""
    names: list[str] = []

    class InProcess:
        def __init__(self, workers: int) -> None: ...

        def __enter__(self) -> InProcess:
            return self

        def __exit__(self, *_: object) -> None: ...

        def run(self, jobs: dict[str, Job], on_done: Callable[[str, Outcome], None]) -> None:
            for name, job in jobs.items():
                failed = Outcome("died", "it died")
                done = Outcome("done", warm_up.compile_part(job.payload))
                on_done(name, failed if name in names else done)

    monkeypatch.setattr(warm_up, "WorkerPool", InProcess)
    monkeypatch.setattr(warm_up, "PARTS", {"sampling": warm_up.PARTS["sampling"]})
    return names


@pytest.mark.usefixtures("failing")
def test_the_command_counts_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(["warm-up", "--jobs", "1", "--quiet"])
    assert ended.value.code == 0
    assert "kernels" in capsys.readouterr().out


def test_a_failure_names_the_part(failing: list[str]) -> None:
    failing.append("sampling")
    with pytest.raises(RunError, match=r"sampling.*it died"):
        warm_up.warm_up(1, progress=False)
