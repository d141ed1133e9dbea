"""Fixtures for studies: runs trained in this process, and folders to keep them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import gsat
from gsat.launch.pool import PoolResult
from gsat.study import run as runner
from gsat.study.records import BenchFolders
from gsat.training.recipe import Recipe
from gsat.training.results import record_once


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Train the runs of a plan in this process; the list holds those that were started."""
    started: list[str] = []

    def here(runs: Mapping[str, Recipe], folder: Path, **how: Any) -> PoolResult:
        results = {}
        for name, recipe in runs.items():
            started.append(f"{recipe.method}-{recipe.seed}")
            out = Path(folder) / name
            if (out / "result.json").is_file():
                run = gsat.resume(out)
            else:
                run = gsat.train(
                    recipe, out, checkpoint_seconds=1e9, pretrained_cache=how["pretrained_cache"]
                )
            record_once(how["record"], run.record())
            how["done"](name, run.result)
            results[name] = run.result
        return PoolResult(results)

    monkeypatch.setattr(runner, "train_each", here)
    return started


@pytest.fixture
def folders(tmp_path: Path) -> BenchFolders:
    return BenchFolders(tmp_path / "runs", tmp_path / "results" / "runs.jsonl")
