"""The bar over several runs moves while they are under way."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import Any

import pytest
import rich.progress

from gsat.launch.progress import Progress
from gsat.study import bench_progress as module
from gsat.study.bench_progress import BenchProgress
from gsat.training.run_directory import RunDirectory


class Shown(Progress):
    """Remembers instead of drawing."""

    def __init__(self, visible: bool = True) -> None:
        super().__init__("runs", counted=False)
        self.visible, self.seen, self.over = visible, [], False  # type: ignore[var-annotated]

    def start(self, total: int, done: int = 0) -> None:
        self.seen.append((total, done))

    def advance(self, status: str = "", steps: int = 1) -> None:
        self.seen.append((status, steps))

    def update(self, done: int, status: str | None = None) -> None:
        self.seen.append((done, status))

    def stop(self) -> None:
        self.over = True


def spends(folder: Path, name: str, seconds: float) -> None:
    (folder / name).mkdir(exist_ok=True)
    RunDirectory(folder / name).write_seconds(seconds, epochs=1)


def wait_for(bar: Shown, what: Any) -> None:
    until = time.monotonic() + 30
    while what not in bar.seen:
        assert time.monotonic() < until, bar.seen
        time.sleep(0.01)


def test_running_runs_count_the_time_they_spent_up_to_what_was_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_INTERVAL", 0.01)
    spends(tmp_path, "resumed", 40.0)
    bar = Shown()
    expected = {"resumed": 60.0, "new": 120.0, "quick": 20.0}
    with BenchProgress(bar, tmp_path, expected, jobs=2) as bench:
        assert bar.seen[0] == (200, 40)
        assert bar.seen[1] == ("about 2 min in all", 0)
        spends(tmp_path, "new", 30.0)
        wait_for(bar, (70, None))
        spends(tmp_path, "resumed", 500.0)  # it takes longer than was thought
        wait_for(bar, (87, None))  # 57 of 60: it has not ended
        bench.end("quick", "1 of 3: quick")
        assert (107, "1 of 3: quick") in bar.seen
        bench.end("resumed", "2 of 3: resumed")
        bench.end("new", "3 of 3: new")
        assert (200, "3 of 3: new") in bar.seen
    assert bar.over
    last = len(bar.seen)
    time.sleep(0.05)
    assert len(bar.seen) == last  # the thread has ended


def test_a_hidden_bar_starts_no_thread(tmp_path: Path) -> None:
    with BenchProgress(Shown(visible=False), tmp_path, {"run": 1.0}, jobs=1) as bench:
        assert not bench._thread.is_alive()


def test_the_bar_is_removed_after_an_error(tmp_path: Path) -> None:
    bar = Shown()
    with (
        pytest.raises(KeyboardInterrupt),
        BenchProgress(bar, tmp_path, {"run": 1.0}, jobs=1) as bench,
    ):
        raise KeyboardInterrupt
    assert bar.over
    assert not bench._thread.is_alive()


def test_the_time_left_is_known_between_updates_half_a_minute_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Large steps are rare; by default, rich would have forgotten the last one by then."""
    now = [0.0]
    with_clock = functools.partial(rich.progress.Progress, get_time=lambda: now[0])
    monkeypatch.setattr(rich.progress, "Progress", with_clock)
    bar = Progress("runs", counted=False)
    bar.visible = True
    bar.start(100)
    try:
        for done in (10, 20, 30):
            now[0] += 35.0
            bar.update(done, f"{done} done")
        (task,) = bar._bar.tasks
        assert (task.completed, task.fields["status"]) == (30, "30 done")
        now[0] += 34.0
        bar.update(30)
        assert task.fields["status"] == "30 done"
        assert task.time_remaining == pytest.approx(245, rel=0.5)
    finally:
        bar.stop()
