"""Shared fixtures of the training tests: no fsync, small runs, jobs in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import gsat
from gsat.launch import pool
from training_harness import InProcess, Victim, outcome, small_recipe


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process loses nothing the kernel has; only a power cut needs fsync."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture(scope="session")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Files of the small run without interruptions."""
    out = tmp_path_factory.mktemp("uninterrupted") / "run"
    gsat.train(small_recipe(), out)
    return outcome(out)


@pytest.fixture(scope="session")
def victim() -> Iterator[Victim]:
    """A process that trains in children of its own, which may be killed."""
    with Victim() as process:
        yield process


@pytest.fixture
def run_path(tmp_path: Path) -> Path:
    """Path of a run directory that does not exist yet."""
    return tmp_path / "run"


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Seeds at which a worker dies, once for each time a seed is listed."""
    monkeypatch.setattr(pool, "LocalBackend", InProcess)
    monkeypatch.setattr(InProcess, "mortal", [])
    return InProcess.mortal
