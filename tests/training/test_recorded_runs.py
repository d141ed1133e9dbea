"""Recorded runs: each is recorded once; their mean and standard deviation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gsat.core.errors import RunError
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


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{}", "line 2, has no 'recipe_hash'"),
        (b"5", "line 2, has no"),
        (b"null", "line 2, has no"),
        (b"[]", "line 2, has no"),
        (b'{"recipe_hash": "\xff"}', "line 2, is not JSON"),
        (b'{"half', "line 2, is not JSON"),
    ],
)
def test_a_line_that_is_not_a_run_is_named(line: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    record_once(file, record())
    file.write_bytes(file.read_bytes() + line + b"\n")
    for use in (lambda: read_records(file), lambda: record_once(file, record(seed=1))):
        with pytest.raises(RunError, match=message):
            use()


def test_blank_lines_are_none_and_a_folder_is_no_file(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    record_once(file, record())
    file.write_bytes(b"\n  \r\n" + file.read_bytes())
    assert read_records(file) == [record()]
    with pytest.raises(RunError, match="not a regular file"):
        read_records(tmp_path)


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


def test_a_line_may_hold_any_text(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    record_once(file, record(dataset="graphs\u2028of\u0085mine"))
    assert [line["dataset"] for line in read_records(file)] == ["graphs\u2028of\u0085mine"]
