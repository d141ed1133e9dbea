"""`--members`: an ensemble on the command line."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest
from cli_harness import TINY, refuse, succeed


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("members") / "run"
    last = succeed("train", *TINY, "--members", 2, "--out", path).lines[-1]
    assert last.startswith("2 members · ")
    return path


def test_every_command_takes_an_ensemble(ensemble: Path, tmp_path: Path) -> None:
    result = json.loads((ensemble / "result.json").read_text())
    measured = json.loads(succeed("evaluate", ensemble, "--json").out)
    assert measured == pytest.approx(result["test"])
    rows = list(csv.reader(io.StringIO(succeed("predict", ensemble).out)))
    assert rows[0][-2:] == [name.replace("p(", "sd(") for name in rows[0][-4:-2]]
    assert all(0 <= float(row[-1]) <= 0.5 for row in rows[1:])
    explained = json.loads(succeed("explain", ensemble, "--graph", 0, "--json").out)
    assert all(edge["spread"] >= 0 for edge in explained["edges"])
    assert succeed("explain", ensemble, "--graph", 0, "--out", tmp_path / "g.svg").out
    arrays = succeed("explain", ensemble, "--out", tmp_path / "scores.npz").out
    assert arrays.startswith("2 graphs")
    assert succeed("resume", ensemble).lines[-1].startswith("2 members · ")
    assert "gsat  seed 0  accuracy" in succeed("runs", ensemble.parent).out


def test_jobs_without_anything_to_share_are_refused(ensemble: Path, tmp_path: Path) -> None:
    assert "--seeds or --members" in refuse("train", *TINY, "--jobs", 2, "--out", tmp_path / "x")
    plain = tmp_path / "plain"
    succeed("train", *TINY, "--out", plain)
    assert "--jobs" in refuse("resume", plain, "--jobs", 2)
    options = ("--members", 2, "--jobs", 2, "--threads", 2, "--out", tmp_path / "y")
    assert "--threads" in refuse("train", *TINY, *options)


def test_an_interrupted_ensemble_is_listed_and_resumed(ensemble: Path, tmp_path: Path) -> None:
    cut = shutil.copytree(ensemble, tmp_path / "cut")
    (cut / "result.json").unlink()
    shutil.rmtree(cut / "members" / "seed-1")
    assert "1 of 2" in succeed("runs", tmp_path).out
    assert f"gsat resume {cut}" in refuse("evaluate", cut)
    succeed("resume", cut, "--quiet")
    results = [json.loads((path / "result.json").read_text()) for path in (ensemble, cut)]
    assert results[0]["test"] == results[1]["test"]


def test_an_ensemble_is_distilled(ensemble: Path, tmp_path: Path) -> None:
    out = tmp_path / "one"
    output = succeed("distill", ensemble, "--quiet", "--set", "distill_coef=5", "--out", out)
    assert "distill_coef = 5" in (out / "recipe.toml").read_text()
    assert str(out) in output.lines[-1]
    assert "'zzz'" in refuse("distill", ensemble, "--set", "zzz=1", "--out", out)
