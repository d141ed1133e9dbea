"""The bar over several runs moves while they are under way."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from gsat.launch.progress import Progress
from gsat.studies import bench_progress as module
from gsat.studies.bench_progress import Watch
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


def test_time_spent_by_runs_under_way_counts_up_to_what_was_reckoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_EVERY", 0.01)
    spends(tmp_path, "resumed", 40.0)
    bar = Shown()
    expected = {"resumed": 60.0, "new": 120.0, "quick": 20.0}
    with Watch(bar, tmp_path, expected, jobs=2) as watch:
        assert bar.seen[0] == (200, 40)
        assert bar.seen[1] == ("about 2 min in all", 0)
        spends(tmp_path, "new", 30.0)
        wait_for(bar, (70, None))
        spends(tmp_path, "resumed", 500.0)  # it takes longer than was thought
        wait_for(bar, (87, None))  # 57 of 60: it has not ended
        watch.end("quick", "1 of 3: quick")
        assert (107, "1 of 3: quick") in bar.seen
        watch.end("resumed", "2 of 3: resumed")
        watch.end("new", "3 of 3: new")
        assert (200, "3 of 3: new") in bar.seen
    assert bar.over
    last = len(bar.seen)
    time.sleep(0.05)
    assert len(bar.seen) == last  # nobody looks any more


def test_where_nothing_is_shown_nobody_looks(tmp_path: Path) -> None:
    with Watch(Shown(visible=False), tmp_path, {"run": 1.0}, jobs=1) as watch:
        assert not watch._thread.is_alive()


def test_it_ends_with_an_error(tmp_path: Path) -> None:
    bar = Shown()
    with pytest.raises(KeyboardInterrupt), Watch(bar, tmp_path, {"run": 1.0}, jobs=1) as watch:
        raise KeyboardInterrupt
    assert bar.over
    assert not watch._thread.is_alive()


def test_the_real_bar_knows_the_time_left_between_tellings_half_a_minute_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Steps of unlike size come seldom; rich would have forgotten them by then."""
    now = [0.0]
    bar = Progress("runs", counted=False)
    bar.visible = True
    bar.start(100)
    monkeypatch.setattr(bar._bar, "get_time", lambda: now[0])
    monkeypatch.setattr(bar._bar.tasks[0], "_get_time", lambda: now[0])
    bar._bar.reset(bar._task, total=100, completed=0, status="")
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
