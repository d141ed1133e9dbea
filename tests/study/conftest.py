"""Fixtures for studies: runs trained in this process, and folders for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gsat.study import run as runner
from gsat.study.records import BenchFolders
from study_harness import train_here


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Train the runs of a plan in this process; the list holds the names of started runs."""
    started: list[str] = []
    monkeypatch.setattr(runner, "train_each", train_here(started))
    return started


@pytest.fixture
def folders(tmp_path: Path) -> BenchFolders:
    return BenchFolders(tmp_path / "runs", tmp_path / "results" / "runs.jsonl")
