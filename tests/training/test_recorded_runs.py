"""Recorded runs: each once, whoever writes; their mean and spread; many seeds side by side."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_harness import differing, one_line, outcome, small_recipe, stopping

import gsat
from gsat.errors import RunError
from gsat.methods import GSATMethod
from gsat.training import parallel
from gsat.training.results import IDENTITY, read_records, record_once, summarise


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


def test_a_place_that_can_not_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="can't write to") as caught:
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


def in_threads(jobs: int, mp_context: Any) -> ThreadPoolExecutor:
    """Workers that need not be started: a process takes seconds to import everything."""
    assert mp_context.get_start_method() == "spawn"
    return ThreadPoolExecutor(1)


@pytest.mark.medium
def test_seeds_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 0 is finished, seed 1 was cut short, seed 2 is new, seed 3 can't be trained."""
    folder, file = tmp_path / "runs", tmp_path / "runs.jsonl"
    recipes = [small_recipe(seed) for seed in range(4)]
    gsat.train(recipes[0], folder / "seed-0")
    times = {f: f.stat().st_mtime_ns for f in (folder / "seed-0").rglob("*")}
    with stopping(9), pytest.raises(KeyboardInterrupt):
        gsat.train(recipes[1], folder / "seed-1", checkpoint_seconds=0)
    (folder / "seed-3").write_text("in the way")
    came: list[dict[str, Any]] = []

    def train_all() -> list[dict[str, Any]]:
        return parallel.train_all(recipes, folder, jobs=2, record=file, done=came.append)

    with pytest.raises(RunError) as caught:
        train_all()
    assert one_line(caught.value).startswith("1 of 4 runs failed: seed 3: ")
    assert "is not an empty folder" in str(caught.value)
    # The others are finished all the same, as they would be alone.
    assert sorted(result["seed"] for result in came) == [0, 1, 2]
    assert {f: f.stat().st_mtime_ns for f in (folder / "seed-0").rglob("*")} == times
    for seed in (1, 2):
        gsat.train(recipes[seed], tmp_path / f"alone-{seed}")
        alone = outcome(tmp_path / f"alone-{seed}")
        assert differing(outcome(folder / f"seed-{seed}"), alone) == []
    assert sorted(r["seed"] for r in read_records(file)) == [0, 1, 2]

    # The same command goes on: only what is missing is trained.
    (folder / "seed-3").unlink()
    finished = {f: f.stat().st_mtime_ns for f in folder.rglob("result.json")}
    monkeypatch.setattr(parallel, "ProcessPoolExecutor", in_threads)
    results = train_all()
    assert [result["seed"] for result in results] == [0, 1, 2, 3]
    assert [r["recipe_hash"] for r in results] == [recipes[0].hash()] * 4
    for result, recipe in zip(results, recipes, strict=True):
        path = folder / f"seed-{recipe.seed}" / "result.json"
        assert json.loads(path.read_text()) == result
    now = {f: f.stat().st_mtime_ns for f in folder.rglob("result.json")}
    assert now.items() > finished.items()
    assert sorted(r["seed"] for r in read_records(file)) == [0, 1, 2, 3]


def test_a_run_with_another_recipe_is_not_mixed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gsat.train(small_recipe(1, epochs=1), tmp_path / "seed-1")

    def nothing(*_: Any) -> Any:
        raise AssertionError("trained")

    monkeypatch.setattr(GSATMethod, "step", nothing)
    recipes = [small_recipe(seed, epochs=2) for seed in range(2)]
    with pytest.raises(RunError, match="seed-1 holds a run with another recipe") as caught:
        parallel.train_all(recipes, tmp_path, jobs=1)
    one_line(caught.value)
    assert not (tmp_path / "seed-0").exists()


def test_a_worker_trains_resumes_and_records(tmp_path: Path) -> None:
    """What runs in the worker's process, without the process."""
    chosen = small_recipe(2, epochs=2)
    out, file = tmp_path / "run", tmp_path / "runs.jsonl"
    with stopping(1), pytest.raises(KeyboardInterrupt):
        gsat.train(chosen, out, checkpoint_seconds=0)
    first = parallel._work(chosen.tables(), str(out), str(file))
    again = parallel._work(chosen.tables(), str(out), str(file))
    assert first == again
    (line,) = read_records(file)
    assert {k: line[k] for k in first} == first
    assert line["threads"] == 1
