"""Recorded runs trained again: equal, or it is said what is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gsat
from gsat.errors import GSATError
from gsat.studies import verify as module
from gsat.studies.study import Experiment
from gsat.studies.verify import verifiable, verify
from gsat.training.results import record_once
from reference import one_thread  # noqa: F401

SMALL = (("graphs", 30), ("epochs", 2), ("hidden", 8), ("layers", 1))


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A file with a run of GSAT and one of ERM."""
    file = tmp_path / "runs.jsonl"
    for method in ("gsat", "erm"):
        recipe = Experiment("houses", method, settings=SMALL).recipe(0)
        record_once(file, gsat.train(recipe, tmp_path / method).record())
    return file


def test_a_recorded_run_is_trained_again_and_compared(recorded: Path, tmp_path: Path) -> None:
    records = verifiable(recorded)
    assert len(records) == 2
    assert [r["method"] for r in verifiable(recorded, "method=erm")] == ["erm"]
    assert len(verifiable(recorded, "method=erm,method=gsat")) == 2
    assert verifiable(recorded, budget=0.0) == []
    with pytest.raises(GSATError, match="'mutag' is none"):
        verifiable(recorded, "mutag")
    record = records[0]
    same = verify(record, tmp_path / "again")
    assert (same.differing, same.elsewhere) == ({}, {})
    better = record | {
        "test": record["test"] | {"accuracy": 2.0}, "versions": record["versions"] | {"torch": "1"}
    }  # fmt: skip
    found = verify(better, tmp_path / "more")
    assert list(found.differing) == ["test.accuracy"]
    assert found.differing["test.accuracy"] == (2.0, record["test"]["accuracy"])
    assert list(found.elsewhere) == ["versions.torch"]
    with pytest.raises(GSATError, match="not the data of the recorded run"):
        verify(record | {"data_hash": "0" * 16}, tmp_path / "third")
    with pytest.raises(GSATError, match="other defaults now"):
        verify(record | {"recipe_hash": "0" * 16}, tmp_path / "fourth")


def test_as_many_threads_are_taken_as_the_run_had(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record: dict[str, Any] = verifiable(recorded)[0]
    counts: list[int] = []
    monkeypatch.setattr(module.torch, "set_num_threads", counts.append)
    verify(record | {"threads": 3}, tmp_path / "again")
    assert counts[0] == 3
    assert counts[-1] == 1
