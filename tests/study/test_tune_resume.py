"""A killed tuning resumes, and finished runs are not trained again."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import tuning_harness
from tuning_harness import GRID, SMALL, irm

import gsat
from gsat.study import tune as module
from gsat.study.tune import Tuned, tune
from study_harness import train_here


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Runs are trained in this process; the list holds the names of those that were started."""
    started: list[str] = []
    monkeypatch.setattr(module, "train_each", train_here(started))
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    return started


def without_times(tuned: Tuned) -> list[Any]:
    """The points, but for how long they took."""
    return [{**vars(point), "seconds": 0} for point in tuned.points]


@pytest.mark.medium
def test_a_killed_tuning_resumes(trained: list[str], tmp_path: Path) -> None:
    """Killed within its second run: the first is kept, the second resumed, the third trained."""
    whole = irm(tmp_path / "whole", grid=GRID)
    first, second, third = trained
    trained.clear()
    killed = tmp_path / "killed"
    killed.mkdir()
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, tuning_harness.__file__, str(killed)]
    process = subprocess.Popen(command, env=os.environ | path)
    try:
        deadline = time.monotonic() + 120
        while not (killed / "waiting").exists():
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()
    runs, record = killed / "runs", killed / "tuning.jsonl"
    (done,) = runs.rglob("result.json")
    assert done == runs / first / "result.json"
    assert (runs / second / "recipe.toml").exists()
    assert not (runs / third).exists()
    assert not record.exists()
    written = done.stat().st_mtime_ns
    tuned = irm(killed, grid=GRID, record=record)
    assert trained == [second, third]
    assert done.stat().st_mtime_ns == written
    assert without_times(tuned) == without_times(whole)
    assert json.loads(record.read_text()) == json.loads(json.dumps(tuned.record))


def test_a_larger_grid_trains_only_new_runs(trained: list[str], tmp_path: Path) -> None:
    before = irm(tmp_path, grid={"penalty": [0.1, 1.0]})
    assert len(trained) == len(set(trained)) == 2
    trained.clear()
    larger = irm(tmp_path, grid={"penalty": [0.01, 0.1, 1.0]}, seeds=(0, 1))
    assert len(trained) == 4
    assert [point.values[0] for point in larger.points[1:]] == [p.mean for p in before.points]


def test_other_graphs_under_the_same_name_are_trained_again(
    trained: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    irm(tmp_path, grid={"penalty": [1.0]})
    data = dataclasses.replace(gsat.load_dataset("ba2motifs", graphs=30), hash="other")
    monkeypatch.setattr(module, "load_data", lambda recipe: data)
    irm(tmp_path, grid={"penalty": [1.0]})
    assert len(set(trained)) == 2


def test_own_graphs_are_tuned_by_their_path(trained: list[str], tmp_path: Path) -> None:
    path = gsat.load_dataset("ba2motifs", graphs=30).store.save(tmp_path / "graphs")
    settings = {name: value for name, value in SMALL.items() if name != "graphs"}
    first, second = (
        tune(str(path), grid={"lr": [0.1]}, settings=settings, out=tmp_path) for _ in range(2)
    )
    assert len(trained) == 1
    assert first.points == second.points
    assert first.record["data_hash"] == first.record["recipe"]["data"]["content"]
