"""Recorded runs are trained again: bit-identical, or the differences are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gsat
from gsat.core.errors import GSATError
from gsat.study import verify as module
from gsat.study.study import Experiment
from gsat.study.verify import sample_runs, verifiable, verify
from gsat.training.results import record_once
from study_harness import ERM, SMALL


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a run of GSAT and one of ERM."""
    folder = tmp_path_factory.mktemp("verify")
    for method in ("gsat", "erm"):
        recipe = Experiment("houses", method, settings=SMALL).recipe(0)
        record_once(folder / "runs.jsonl", gsat.train(recipe, folder / method).record())
    return folder / "runs.jsonl"


def test_a_recorded_run_is_trained_again_and_compared(recorded: Path, tmp_path: Path) -> None:
    records = verifiable(recorded)
    assert len(records) == 2
    assert [r["method"] for r in verifiable(recorded, "method=erm")] == ["erm"]
    assert len(verifiable(recorded, "method=erm,method=gsat")) == 2
    assert verifiable(recorded, budget=0.0) == []
    assert [r["method"] for r in verifiable(recorded, hashes={ERM.hash})] == ["erm"]
    with pytest.raises(GSATError, match="not 'mutag'"):
        verifiable(recorded, "mutag")
    record = records[0]
    assert verify(record, tmp_path / "again") == ({}, {})
    better = record | {
        "test": record["test"] | {"accuracy": 2.0}, "versions": record["versions"] | {"torch": "1"}
    }  # fmt: skip
    metrics, machine = verify(better, tmp_path / "more")
    assert metrics == {"test.accuracy": (2.0, record["test"]["accuracy"])}
    assert list(machine) == ["versions.torch"]
    with pytest.raises(GSATError, match="not the data of the recorded run"):
        verify(record | {"data_hash": "0" * 16}, tmp_path / "third")
    with pytest.raises(GSATError, match="other defaults now"):
        verify(record | {"recipe_hash": "0" * 16}, tmp_path / "fourth")


def test_a_run_is_verified_with_its_recorded_number_of_threads(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record: dict[str, Any] = verifiable(recorded)[0]
    counts: list[int] = []
    monkeypatch.setattr(module.torch, "set_num_threads", counts.append)
    verify(record | {"threads": 3}, tmp_path / "again")
    assert counts[0] == 3
    assert counts[-1] == 1


def test_sampled_runs_are_of_different_kinds() -> None:
    records = [
        {"method": method, "backbone": backbone, "seed": seed}
        for method, backbone in (("gsat", "gin"), ("gsat", "pna"), ("dir", "gin"))
        for seed in range(10)
    ]
    for seed in range(20):
        drawn = sample_runs(records, 3, seed=seed)
        assert len({(record["method"], record["backbone"]) for record in drawn}) == 3
        assert drawn == sample_runs(records, 3, seed=seed)
    assert len({record["seed"] for seed in range(20) for record in sample_runs(records, 1)}) > 1
    assert len(sample_runs(records, 100)) == 30
    assert sample_runs([], 3) == []
