"""Many runs: each once, whatever befalls the workers, and as one process trains them."""

from __future__ import annotations

import errno
import os
import signal
from contextlib import ExitStack
from pathlib import Path
from threading import Timer
from types import SimpleNamespace
from typing import Any

import pytest

import gsat
from gsat.core.errors import BusyError, DiskError, GSATError, Interrupted, RunError, StopAllError
from gsat.core.writing import disk_errors
from gsat.launch import local, pool
from gsat.training import many_runs
from gsat.training import train as train_module
from gsat.training.many_runs import train_each, train_seeds
from gsat.training.recipe import Recipe, from_tables
from gsat.training.results import read_records
from gsat.training.run_directory import RunDirectory
from gsat.training.train import is_everywhere, train_job
from training_harness import differing, epochs_logged, one_line, outcome, small_recipe, stopping


def times(path: Path) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in path.rglob("*")}


def payload(recipe: Recipe, out: Path, patience: float = 0.0) -> dict[str, Any]:
    return {
        "recipe": recipe.tables(),
        "out": str(out),
        "pretrained_cache": None,
        "patience": patience,
    }


@pytest.mark.usefixtures("in_process")
def test_only_what_is_missing_is_trained(tmp_path: Path) -> None:
    """Seed 0 is finished, seed 1 was cut short, seed 2 is new."""
    folder, file = tmp_path / "runs", tmp_path / "runs.jsonl"
    recipes = [small_recipe(seed) for seed in (2, 0, 1)]
    finished = gsat.train(recipes[1], folder / "seed-0")
    before = times(folder / "seed-0")
    with stopping(9), pytest.raises(KeyboardInterrupt):
        gsat.train(recipes[2], folder / "seed-1", checkpoint_seconds=0)
    came: dict[str, Any] = {}
    results = train_seeds(recipes, folder, record=file, done=came.__setitem__)
    assert [result["seed"] for result in results] == [2, 0, 1]
    assert came == {f"seed-{result['seed']}": result for result in results}
    assert results[1] == finished.result
    assert times(folder / "seed-0") == before
    for seed in (1, 2):
        gsat.train(small_recipe(seed), tmp_path / f"alone-{seed}")
        expected = outcome(tmp_path / f"alone-{seed}")
        assert differing(outcome(folder / f"seed-{seed}"), expected) == []
    again = train_seeds(recipes, folder, record=file)
    assert again == results
    recorded = read_records(file)
    assert [{k: line[k] for k in results[0]} for line in recorded] == results
    assert [from_tables(line["recipe"]) for line in recorded] == recipes
    assert {line["threads"] for line in recorded} == {1}


@pytest.mark.usefixtures("in_process")
def test_a_run_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "seed-0").write_text("in the way")
    recipes = [small_recipe(seed, epochs=1) for seed in range(3)]
    came: dict[str, Any] = {}
    with pytest.raises(RunError) as caught:
        train_seeds(recipes, tmp_path, jobs=2, done=came.__setitem__)
    message = one_line(caught.value)
    assert message.startswith("1 of 3 runs failed: seed 0: ")
    assert "is not an empty folder" in message
    assert "is not an empty folder" in came["seed-0"]
    assert [came[f"seed-{k}"]["seed"] for k in (1, 2)] == [1, 2]
    assert (tmp_path / "seed-1" / "result.json").is_file()


def test_a_run_whose_worker_dies_is_resumed(
    in_process: list[int], tmp_path: Path, uninterrupted: dict[str, bytes]
) -> None:
    in_process.append(0)
    results = train_seeds([small_recipe(0), small_recipe(1, epochs=1)], tmp_path)
    assert in_process == []
    assert [result["seed"] for result in results] == [0, 1]
    assert differing(outcome(tmp_path / "seed-0"), uninterrupted) == []


@pytest.mark.usefixtures("in_process")
def test_a_run_with_another_recipe_is_not_mixed_in(tmp_path: Path) -> None:
    """Neither by the caller nor by a node whose folder the caller does not see."""
    gsat.train(small_recipe(1, epochs=1), tmp_path / "seed-1")
    recipes = [small_recipe(seed, epochs=2) for seed in range(2)]
    with pytest.raises(RunError, match="seed-1 holds a run with another recipe") as caught:
        train_seeds(recipes, tmp_path, jobs=1)
    message = one_line(caught.value)
    assert not (tmp_path / "seed-0").exists()
    with pytest.raises(RunError) as caught:
        train_job(payload(recipes[1], tmp_path / "seed-1"))
    assert str(caught.value) == message


@pytest.mark.usefixtures("in_process")
def test_ctrl_c_is_an_interruption_that_says_how_to_resume(tmp_path: Path) -> None:
    def done(name: str, result: Any) -> None:
        raise KeyboardInterrupt

    recipes = [small_recipe(seed, epochs=1) for seed in range(2)]
    with pytest.raises(Interrupted) as caught:
        train_seeds(recipes, tmp_path, done=done)
    assert one_line(caught.value) == f"stopped; run the same again to resume the runs in {tmp_path}"
    assert (tmp_path / "seed-0" / "result.json").is_file()
    assert not (tmp_path / "seed-1").exists()


@pytest.mark.medium
def test_processes_side_by_side_train_as_one_does_and_stop_when_the_time_has_come(
    tmp_path: Path, uninterrupted: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two short runs end; then the time comes, while two long ones are at work and another waits.
    Also where interrupts are ignored, by which workers are stopped."""
    lengths = {0: 14, 1: 14, 2: 100_000, 3: 100_000, 4: 100_000}
    runs = {f"seed-{seed}": small_recipe(seed, epochs=n) for seed, n in lengths.items()}
    long, came, started = tmp_path / "seed-2", [], []

    class Known(local.Worker):
        def __init__(self) -> None:
            super().__init__()
            started.append(self.process)

    def now() -> float:
        log = long / "metrics.jsonl"  # its last line may be half written
        begun = log.exists() and b"\n" in log.read_bytes()
        return 2.0 if begun and len(came) == 2 else 0.0

    monkeypatch.setattr(local, "Worker", Known)
    monkeypatch.setattr(pool, "time", SimpleNamespace(monotonic=now))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does for what ends in &
    try:
        ended = train_each(
            runs, tmp_path, jobs=2, deadline=1.0, done=lambda name, _: came.append(name)
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert sorted(came) == ["seed-0", "seed-1"]
    assert (sorted(ended.results), ended.failures) == (["seed-0", "seed-1"], {})
    assert (ended.unfinished, ended.busy) == (["seed-2", "seed-3", "seed-4"], [])
    assert [process.poll() for process in started] == [0, 0]
    assert differing(outcome(tmp_path / "seed-0"), uninterrupted) == []
    gsat.train(small_recipe(1), tmp_path / "alone")
    assert differing(outcome(tmp_path / "seed-1"), outcome(tmp_path / "alone")) == []
    # The long run has finished and saved its epoch; the one that waited was not begun.
    saved = (long / "ckpt" / "LAST").read_text().strip()
    assert saved == f"epoch-{len(epochs_logged(long))}"
    assert not (long / "result.json").exists()
    assert not (tmp_path / "seed-4").exists()


# -- other processes ------------------------------------------------------------------------------


@pytest.mark.usefixtures("in_process")
def test_a_run_of_another_process_is_unfinished_not_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(many_runs._HANDOVER, "local", 0.3)
    busy = RunDirectory.create(tmp_path / "seed-0", small_recipe(0))
    recipes = [small_recipe(seed, epochs=1 + 13 * (seed == 0)) for seed in range(2)]
    with busy.locked():
        with pytest.raises(GSATError, match="1 of 2 runs were stopped, or another process is"):
            train_seeds(recipes, tmp_path)
        assert (tmp_path / "seed-1" / "result.json").is_file()
    assert len(train_seeds(recipes, tmp_path)) == 2


@pytest.mark.usefixtures("in_process")
def test_another_process_is_not_a_spent_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(many_runs._HANDOVER, "local", 0.0)
    busy = RunDirectory.create(tmp_path / "taken", small_recipe(0))
    with busy.locked():
        ended = train_each({"taken": small_recipe(0)}, tmp_path)
        assert (ended.unfinished, ended.busy) == (["taken"], ["taken"])
    waits = train_each({"taken": small_recipe(0)}, tmp_path, deadline=0.0)
    assert (waits.unfinished, waits.busy) == (["taken"], [])


def test_a_worker_waits_for_the_one_before_it_to_end(tmp_path: Path) -> None:
    """A killed command's workers end within a second; Ray may give up a node that still lives."""
    recipe, path = small_recipe(0, epochs=2), tmp_path / "run"
    before = RunDirectory.create(path, recipe)
    with ExitStack() as held:
        held.enter_context(before.locked())
        with pytest.raises(BusyError):
            train_job(payload(recipe, path, patience=0.3))
        release = Timer(0.5, held.close)
        release.start()
        answer = train_job(payload(recipe, path, patience=60.0))
        release.join()
    assert answer["result"] == before.result


@pytest.mark.usefixtures("in_process")
def test_a_run_that_another_process_has_just_begun_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run appears after this process has looked for it, and before it creates it."""
    recipe, real = small_recipe(0, epochs=1), train_module.train

    def late(*args: Any, **how: Any) -> Any:
        RunDirectory.create(tmp_path / "run", recipe)
        return real(*args, **how)

    monkeypatch.setattr(train_module, "train", late)
    ended = train_each({"run": recipe}, tmp_path)
    assert list(ended.results) == ["run"]
    assert ended.failures == {}


# -- the disk -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("in_process")
def test_an_unusable_folder_fails_one_run_only(tmp_path: Path) -> None:
    (tmp_path / "bad" / ".lock").mkdir(parents=True)
    runs = {"bad": small_recipe(0, epochs=1), "good": small_recipe(1, epochs=1)}
    ended = train_each(runs, tmp_path)
    assert list(ended.failures) == ["bad"]
    assert list(ended.results) == ["good"]


def test_a_full_disk_is_not_one_bad_folder(tmp_path: Path) -> None:
    def everywhere(code: int, out: Path) -> bool:
        with pytest.raises(DiskError) as caught, disk_errors(out):
            raise OSError(code, os.strerror(code))
        return is_everywhere(caught.value, out)

    assert everywhere(errno.ENOSPC, tmp_path / "run")
    assert not everywhere(errno.EMFILE, tmp_path / "run")
    assert everywhere(errno.EACCES, Path("/proc/none/run"))


@pytest.mark.usefixtures("in_process")
def test_a_disk_error_stops_all_runs_without_a_failed_one() -> None:
    came: list[str] = []
    runs = {"no/such": small_recipe(0), "other": small_recipe(1)}
    with pytest.raises(StopAllError, match="can't write to /proc/none"):
        train_job(payload(runs["other"], Path("/proc/none/other")))
    with pytest.raises(DiskError, match="can't write to /proc/none"):
        train_each(runs, "/proc/none", done=lambda name, _: came.append(name))
    assert came == []


@pytest.mark.usefixtures("in_process")
def test_a_record_that_can_not_be_written_stops_all(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    runs = {name: small_recipe(seed, epochs=1) for seed, name in enumerate("ab")}
    came: list[str] = []
    with pytest.raises(DiskError, match=f"can't write to {tmp_path}/file"):
        train_each(
            runs, tmp_path / "runs", record=tmp_path / "file" / "runs.jsonl",
            done=lambda name, _: came.append(name),
        )  # fmt: skip
    assert came == []
    assert (tmp_path / "runs" / "a" / "result.json").is_file()
    assert not (tmp_path / "runs" / "b").exists()
