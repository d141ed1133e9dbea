"""Recorded runs: each once, whoever writes; their mean and spread; many seeds side by side."""

from __future__ import annotations

import contextlib
import errno
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

import gsat
from gsat.errors import DiskError, GSATError, RunError
from gsat.io.disk import disk_errors
from gsat.launch import local
from gsat.training.recipe import from_tables
from gsat.training.results import IDENTITY, read_records, read_runs, record_once, summarise
from gsat.training.run_directory import RunDirectory
from training_harness import differing, epochs_logged, one_line, outcome, small_recipe, stopping


def record(**changes: Any) -> dict[str, Any]:
    same = {"recipe_hash": "a", "data_hash": "b", "seed": 0, "results_version": 1}
    return {**same, "test": {"accuracy": 0.5}, **changes}


def test_a_run_is_recorded_once(tmp_path: Path) -> None:
    file = tmp_path / "new" / "runs.jsonl"
    assert read_records(file) == []
    assert record_once(file, record())
    assert not record_once(file, record())
    assert not record_once(file, record(test={"accuracy": 0.75}, seconds=3))
    assert read_records(file) == [record()]
    for name, value in zip(IDENTITY, ("x", "y", 1, 2), strict=True):
        assert record_once(file, record(**{name: value})), name
    assert len(read_records(file)) == 5
    assert file.read_text().count("\n") == 5


def test_many_may_record_at_once(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    start = threading.Barrier(8)
    appended: list[bool] = []

    def work() -> None:
        for seed in range(20):
            start.wait()
            appended.append(record_once(file, record(seed=seed)))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(appended) == 20
    assert sorted(r["seed"] for r in read_records(file)) == list(range(20))


def test_a_line_that_is_not_json_is_named(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    record_once(file, record())
    with file.open("a") as handle:
        handle.write('{"half')
    for ask in (lambda: read_records(file), lambda: record_once(file, record(seed=1))):
        with pytest.raises(RunError, match="line 2, is not JSON") as caught:
            ask()
        one_line(caught.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{}", "line 2, has no 'recipe_hash'"),
        (b"5", "line 2, has no"),
        (b"null", "line 2, has no"),
        (b"[]", "line 2, has no"),
        (b'{"recipe_hash": "\xff"}', "line 2, is not JSON"),
    ],
)
def test_a_line_that_is_no_run_is_named(line: bytes, said: str, tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    record_once(file, record())
    file.write_bytes(file.read_bytes() + line + b"\n")
    with pytest.raises(RunError, match=said) as caught:
        read_records(file)
    one_line(caught.value)


def test_blank_lines_are_none_and_a_folder_is_no_file(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    record_once(file, record())
    file.write_bytes(b"\n  \r\n" + file.read_bytes())
    assert read_records(file) == [record()]
    with pytest.raises(RunError, match="it must be a file"):
        read_records(tmp_path)


def test_what_makes_a_line_a_run(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    record_once(file, record())
    with pytest.raises(RunError, match="line 1, has no 'dataset'"):
        read_runs(file)


def test_a_place_that_can_not_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"can't write to.*choose another folder") as caught:
        record_once(tmp_path / "file" / "runs.jsonl", record())
    one_line(caught.value)


def test_the_summary_is_the_mean_and_the_population_deviation() -> None:
    values = [0.91, 0.87, 0.99, 0.13]
    spread = summarise(values)
    assert spread
    assert spread == pytest.approx((np.mean(values), np.std(values, ddof=0)), rel=1e-12)
    assert spread[1] != pytest.approx(np.std(values, ddof=1))
    assert summarise([0.5]) == (0.5, 0.0)
    assert summarise(iter([1, 1])) == (1.0, 0.0)
    assert summarise([]) is None
    assert summarise([0.5, None]) is None  # undefined for one seed is undefined for all


# -- several seeds at a time ----------------------------------------------------------------------


class Threaded:
    """A worker without a process, which takes seconds to start; it dies where it is told to."""

    mortal: ClassVar[list[int]] = []  # seeds in the middle of which it dies
    tired: ClassVar[list[int]] = []  # seeds after which it dies

    def __init__(self) -> None:
        self.pipe, theirs = multiprocessing.Pipe()
        self.task: int | None = None
        self.process = SimpleNamespace(pid=None, exitcode=-9, join=lambda: None)
        threading.Thread(target=self.serve, args=(theirs,), daemon=True).start()

    def serve(self, pipe: Any) -> None:
        with contextlib.suppress(EOFError):
            while True:
                job = pipe.recv()
                seed = job.tables["seed"]
                if seed in self.mortal:
                    self.mortal.remove(seed)
                    with stopping(9), contextlib.suppress(KeyboardInterrupt):
                        local._train(job)
                    break
                pipe.send(local._answer(job))
                if seed in self.tired:
                    self.tired.remove(seed)
                    break
        pipe.close()


@pytest.fixture
def threaded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Seeds at which a worker dies, once for each time a seed is listed."""
    monkeypatch.setattr(local, "_Worker", Threaded)
    monkeypatch.setattr(Threaded, "mortal", [])
    monkeypatch.setattr(Threaded, "tired", [])
    return Threaded.mortal


def times(path: Path) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in path.rglob("*")}


@pytest.mark.usefixtures("threaded")
def test_only_what_is_missing_is_trained(tmp_path: Path) -> None:
    """Seed 0 is finished, seed 1 was cut short, seed 2 is new."""
    folder, file = tmp_path / "runs", tmp_path / "runs.jsonl"
    recipes = [small_recipe(seed) for seed in (2, 0, 1)]
    finished = gsat.train(recipes[1], folder / "seed-0")
    before = times(folder / "seed-0")
    with stopping(9), pytest.raises(KeyboardInterrupt):
        gsat.train(recipes[2], folder / "seed-1", checkpoint_seconds=0)
    came: dict[str, Any] = {}
    results = local.train_all(recipes, folder, record=file, done=came.__setitem__)
    assert [result["seed"] for result in results] == [2, 0, 1]
    assert came == {f"seed-{result['seed']}": result for result in results}
    assert results[1] == finished.result
    assert times(folder / "seed-0") == before
    for seed in (1, 2):
        gsat.train(small_recipe(seed), tmp_path / f"alone-{seed}")
        alone = outcome(tmp_path / f"alone-{seed}")
        assert differing(outcome(folder / f"seed-{seed}"), alone) == []
    again = local.train_all(recipes, folder, record=file)
    assert again == results
    recorded = read_records(file)
    assert [{k: line[k] for k in results[0]} for line in recorded] == results
    assert [from_tables(line["recipe"]) for line in recorded] == recipes
    assert {line["threads"] for line in recorded} == {1}


@pytest.mark.usefixtures("threaded")
def test_a_run_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "seed-0").write_text("in the way")
    recipes = [small_recipe(seed, epochs=1) for seed in range(3)]
    came: dict[str, Any] = {}
    with pytest.raises(RunError) as caught:
        local.train_all(recipes, tmp_path, jobs=2, done=came.__setitem__)
    said = one_line(caught.value)
    assert said.startswith("1 of 3 runs failed: seed 0: ")
    assert "is not an empty folder" in said
    assert "is not an empty folder" in came["seed-0"]
    assert [came[f"seed-{k}"]["seed"] for k in (1, 2)] == [1, 2]
    assert (tmp_path / "seed-1" / "result.json").is_file()


def test_a_worker_that_dies_is_replaced_and_its_run_resumed(
    threaded: list[int], tmp_path: Path, uninterrupted: dict[str, bytes]
) -> None:
    threaded.append(0)
    results = local.train_all([small_recipe(0), small_recipe(1, epochs=1)], tmp_path)
    assert threaded == []
    assert [result["seed"] for result in results] == [0, 1]
    assert differing(outcome(tmp_path / "seed-0"), uninterrupted) == []


@pytest.mark.usefixtures("threaded")
def test_a_worker_that_dies_while_idle_is_replaced(tmp_path: Path) -> None:
    Threaded.tired.append(0)
    recipes = [small_recipe(seed, epochs=1) for seed in range(3)]

    def done(name: str, result: Any) -> None:
        time.sleep(0.05)  # long enough to be dead when the next job is handed out

    results = local.train_all(recipes, tmp_path, done=done)
    assert [result["seed"] for result in results] == [0, 1, 2]


def test_a_run_whose_workers_die_is_given_up(threaded: list[int], tmp_path: Path) -> None:
    threaded.extend([0, 0])
    recipes = [small_recipe(0), small_recipe(1, epochs=1)]
    with pytest.raises(RunError, match=r"1 of 2 runs failed: seed 0: its process died") as caught:
        local.train_all(recipes, tmp_path)
    one_line(caught.value)
    assert (tmp_path / "seed-1" / "result.json").is_file()


@pytest.mark.usefixtures("threaded")
def test_a_run_with_another_recipe_is_not_mixed_in(tmp_path: Path) -> None:
    gsat.train(small_recipe(1, epochs=1), tmp_path / "seed-1")
    recipes = [small_recipe(seed, epochs=2) for seed in range(2)]
    with pytest.raises(RunError, match="seed-1 holds a run with another recipe") as caught:
        local.train_all(recipes, tmp_path, jobs=1)
    one_line(caught.value)
    assert not (tmp_path / "seed-0").exists()


@pytest.mark.medium
def test_a_worker_keeps_an_interrupt_until_it_has_a_job(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C may come while a process is importing, which takes seconds: no traceback, no loss."""
    worker = local._Worker()
    assert worker.process.pid
    os.kill(worker.process.pid, signal.SIGINT)
    job = local._Job(small_recipe(epochs=100_000).tables(), str(tmp_path / "run"), None)
    worker.pipe.send(job)
    assert worker.pipe.recv()[0] != "done"
    worker.pipe.close()
    worker.process.join()
    assert worker.process.exitcode == 0
    assert capfd.readouterr().err == ""


@pytest.mark.medium
def test_processes_side_by_side_train_as_one_alone_and_stop_when_asked(
    tmp_path: Path, uninterrupted: dict[str, bytes]
) -> None:
    """Two short runs end; then Ctrl-C comes, while a long one is at work and another waits."""
    recipes = [small_recipe(0), small_recipe(1)]
    recipes += [small_recipe(seed, epochs=100_000) for seed in (2, 3)]
    came: list[str] = []

    def done(name: str, result: Any) -> None:
        came.append(name)
        if len(came) == 2:
            deadline = time.monotonic() + 120
            while not (tmp_path / "seed-2" / "metrics.jsonl").exists():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            raise KeyboardInterrupt

    with pytest.raises(gsat.GSATError) as caught:
        local.train_all(recipes, tmp_path, jobs=2, done=done)
    assert one_line(caught.value) == f"stopped; the same command goes on with {tmp_path}"
    assert multiprocessing.active_children() == []
    assert sorted(came) == ["seed-0", "seed-1"]
    assert differing(outcome(tmp_path / "seed-0"), uninterrupted) == []
    gsat.train(small_recipe(1), tmp_path / "alone")
    assert differing(outcome(tmp_path / "seed-1"), outcome(tmp_path / "alone")) == []
    # The long run has finished and saved its epoch; the one that waited was not begun.
    saved = (tmp_path / "seed-2" / "ckpt" / "LAST").read_text().strip()
    assert saved == f"epoch-{len(epochs_logged(tmp_path / 'seed-2'))}"
    assert not (tmp_path / "seed-2" / "result.json").exists()
    assert not (tmp_path / "seed-3").exists()


IN_THE_BACKGROUND = """
import signal, sys, time
sys.path.insert(0, sys.argv[2])
from gsat.launch import local
from training_harness import small_recipe
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does for what ends in &
    runs = {"long": small_recipe(0, epochs=100_000), "waits": small_recipe(1)}
    came = []
    ended = local.train_each(
        runs, sys.argv[1], done=lambda name, _: came.append(name), deadline=time.monotonic() + 20
    )
    assert (ended, came) == (local.Outcome(left=["long", "waits"]), [])
"""


@pytest.mark.medium
def test_when_the_time_has_come_epochs_are_saved_and_the_rest_is_left(tmp_path: Path) -> None:
    """Also where interrupts are ignored, by which workers are told."""
    script, runs = tmp_path / "script.py", tmp_path / "runs"
    script.write_text(IN_THE_BACKGROUND)
    harness = Path(__file__).parent
    subprocess.run([sys.executable, script, runs, harness], check=True, timeout=240)
    saved = (runs / "long" / "ckpt" / "LAST").read_text().strip()
    assert saved == f"epoch-{len(epochs_logged(runs / 'long'))}"
    assert not (runs / "waits").exists()


@pytest.mark.usefixtures("threaded")
def test_a_run_that_another_process_has_is_left_not_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_HANDOVER", 0.3)
    busy = RunDirectory.create(tmp_path / "seed-0", small_recipe(0))
    recipes = [small_recipe(seed, epochs=1 + 13 * (seed == 0)) for seed in range(2)]
    with busy.locked():
        with pytest.raises(GSATError, match="1 of 2 runs were stopped, or another process has"):
            local.train_all(recipes, tmp_path)
        assert (tmp_path / "seed-1" / "result.json").is_file()
    assert len(local.train_all(recipes, tmp_path)) == 2


@pytest.mark.usefixtures("threaded")
def test_another_process_is_told_apart_from_a_spent_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_HANDOVER", 0.0)
    busy = RunDirectory.create(tmp_path / "taken", small_recipe(0))
    with busy.locked():
        ended = local.train_each({"taken": small_recipe(0)}, tmp_path)
        assert (ended.left, ended.busy) == (["taken"], ["taken"])
    waits = local.train_each({"taken": small_recipe(0)}, tmp_path, deadline=0.0)
    assert (waits.left, waits.busy) == (["taken"], [])


@pytest.mark.usefixtures("threaded")
def test_a_run_that_another_process_has_just_begun_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not there when this process looked, and is when it wants to make it."""
    recipe, real = small_recipe(0, epochs=1), local.train

    def late(*args: Any, **how: Any) -> Any:
        RunDirectory.create(tmp_path / "run", recipe)
        return real(*args, **how)

    monkeypatch.setattr(local, "train", late)
    ended = local.train_each({"run": recipe}, tmp_path)
    assert list(ended.results) == ["run"]
    assert ended.failures == {}


@pytest.mark.usefixtures("threaded")
def test_a_folder_that_can_not_be_used_is_the_failure_of_one_run(tmp_path: Path) -> None:
    (tmp_path / "bad" / ".lock").mkdir(parents=True)
    runs = {"bad": small_recipe(0, epochs=1), "good": small_recipe(1, epochs=1)}
    ended = local.train_each(runs, tmp_path)
    assert list(ended.failures) == ["bad"]
    assert list(ended.results) == ["good"]


def test_a_disk_is_told_from_a_folder(tmp_path: Path) -> None:
    def told(code: int, out: Path) -> bool:
        with pytest.raises(DiskError) as caught, disk_errors(out):
            raise OSError(code, os.strerror(code))
        return local.is_everywhere(caught.value, str(out))

    assert told(errno.ENOSPC, tmp_path / "run")
    assert not told(errno.EMFILE, tmp_path / "run")
    assert told(errno.EACCES, Path("/proc/none/run"))


def test_workers_are_interrupted_once_for_one_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second signal would mean: at once, without saving."""
    signals: list[int] = []
    monkeypatch.setattr(local.os, "kill", lambda pid, _: signals.append(pid))
    answers = [("disk", "full"), ("disk", "full"), ("left", "")]

    class Fake:
        def __init__(self) -> None:
            self.pipe, theirs = multiprocessing.Pipe()
            self.task: int | None = None
            number = len(made)
            self.process = SimpleNamespace(pid=number, exitcode=0, join=lambda: None)
            made.append(self)
            theirs.send(answers[number])

    made: list[Fake] = []
    monkeypatch.setattr(local, "_Worker", Fake)
    jobs: list[Any] = [None] * 3
    one_by_one = local.wait
    monkeypatch.setattr(local, "wait", lambda pipes, timeout: one_by_one(pipes, timeout)[:1])
    with pytest.raises(DiskError, match="full"):
        local._Team(jobs, 3, lambda *_: None).work(None)
    assert sorted(signals) == sorted(set(signals))


@pytest.mark.usefixtures("threaded")
def test_a_disk_error_stops_all_and_is_nobodys_failure(tmp_path: Path) -> None:
    came: list[str] = []
    runs = {"no/such": small_recipe(0), "other": small_recipe(1)}
    with pytest.raises(DiskError, match="can't write to /proc/none"):
        local.train_each(runs, "/proc/none", done=lambda name, _: came.append(name))
    assert came == []


def test_a_budget_of_weeks_can_be_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    team = local._Team([], 1, lambda *_: None)
    waited: list[float] = []
    monkeypatch.setattr(local, "wait", lambda pipes, timeout: waited.append(timeout) or [])
    team._hear(time.monotonic() + 40 * 86400)
    assert waited == [local._LONGEST]
    assert local._LONGEST * 1000 < 2**31


def test_a_disk_that_is_full_leaves_no_half_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "runs.jsonl"
    record_once(file, record())

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(RunError, match="No space left"):
            record_once(file, record(seed=1))
    assert len(read_records(file)) == 1
    assert record_once(file, record(seed=1))
    assert len(read_records(file)) == 2


def test_a_line_may_hold_any_text(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    record_once(file, record(dataset="graphs\u2028of\u0085mine"))
    assert [line["dataset"] for line in read_records(file)] == ["graphs\u2028of\u0085mine"]
