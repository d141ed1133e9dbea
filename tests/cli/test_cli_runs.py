"""`gsat runs`: the runs in a folder with their scores."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_harness import Trained, refuse, succeed


@pytest.fixture
def folder(trained: Trained, cut: Callable[[Path], Path], tmp_path: Path) -> Path:
    """A finished run, a better one, and one that was stopped."""
    for name, accuracy in (("a", 0.25), ("b", 0.75)):
        run = shutil.copytree(trained.path, tmp_path / name)
        result = json.loads((run / "result.json").read_text())
        result["test"]["accuracy"] = accuracy
        (run / "result.json").write_text(json.dumps(result))
    cut(tmp_path / "c")
    return tmp_path


def test_runs_are_listed_with_their_scores_or_their_epoch(folder: Path) -> None:
    first, _, stopped = succeed("runs", folder).lines
    assert first.split()[:6] == [str(folder / "a"), "ba2motifs", "gin", "gsat", "seed", "0"]
    assert "accuracy 0.2500" in first
    assert stopped.endswith("3 of 4")
    rows = json.loads(succeed("runs", folder, "--json").out)
    assert [row["state"] for row in rows] == ["finished", "finished", "stopped"]
    assert rows[1]["test"]["accuracy"] == 0.75
    assert rows[0]["path"] == str(folder / "a")


def test_runs_are_sorted_by_a_metric(folder: Path) -> None:
    lines = succeed("runs", folder, "--sort", "accuracy").lines
    assert [line.split()[0][-1] for line in lines] == ["b", "a", "c"]
    assert "'r2'" in refuse("runs", folder, "--sort", "r2")


def test_a_folder_without_runs(tmp_path: Path) -> None:
    assert str(tmp_path) in succeed("runs", tmp_path).out
