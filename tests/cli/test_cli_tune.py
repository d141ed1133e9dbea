"""`gsat tune`, `gsat methods`, `gsat settings` and methods in the user's own files."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from cli_harness import TINY, gsat, refuse, succeed

from gsat.launch.pool import PoolResult
from gsat.methods import METHODS
from gsat.study import tune as module

TUNE = ("tune", "irm", "ba2motifs", "--set", "graphs=30", "--set", "hidden=8", "--quiet")
AUDITED = ("tune", "ba2motifs", "--set", "graphs=60", "--set", "hidden=8", "--quiet",
           "--by", "audit")  # fmt: skip


def test_methods_are_listed_with_their_papers() -> None:
    printed = succeed("methods").out
    rows = json.loads(succeed("methods", "--json").out)
    assert [row["name"] for row in rows] == list(METHODS)
    for row in rows:
        assert all(row[key] in printed for key in ("name", "title", "summary", "paper"))


def test_settings_are_listed_with_default_and_meaning() -> None:
    rows = {row["name"]: row for row in json.loads(succeed("settings", "gsat", "--json").out)}
    setting = rows["method.gsat.r_final"]
    printed = succeed("settings", "r_final").out
    assert all(setting[key] in printed for key in ("name", "default", "range", "description"))


def test_a_method_in_a_file_is_loaded(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from gsat.methods.erm import ERMMethod\n"
        "from gsat.core.registry import register_method\n"
        "@register_method('mine')\n"
        "class Mine(ERMMethod):\n"
        "    title, summary, paper = 'Mine', 'as ERM', 'none'\n"
    )
    out = tmp_path / "run"
    command = ("train", *TINY, "--method", f"{file}:Mine", "--out", out, "--json")
    assert json.loads(succeed(*command).out)["method"] == "mine"
    succeed("resume", out, "--method", f"{file}:Mine")


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> dict[float, tuple[float, float]]:
    """Accuracy and loss by penalty, in place of training; a missing penalty fails."""
    metrics: dict[float, tuple[float, float]] = {0.1: (0.025, 1.0), 1: (0.25, 1.0)}

    def train_each(runs: Any, folder: Any, **options: Any) -> PoolResult:
        done, failed = {}, {}
        for name, recipe in runs.items():
            if recipe.settings.penalty in metrics:
                accuracy, loss = metrics[recipe.settings.penalty]
                valid = {"accuracy": accuracy, "loss": loss}
                done[name] = {"seconds": 1.0, "valid": valid, "test": {}}
            else:
                failed[name] = "training broke down"
        return PoolResult(done, failed)

    monkeypatch.setattr(module, "train_each", train_each)
    return metrics


def table(lines: list[str]) -> dict[str, list[str]]:
    """The cells of each printed line by the first cell."""
    return {line.split()[0]: line.split()[1:] for line in lines if line.strip()}


@pytest.mark.usefixtures("planted")
def test_a_grid_is_shown_recorded_and_written(tmp_path: Path) -> None:
    recipe, record = tmp_path / "recipe.toml", tmp_path / "tuning.jsonl"
    command = (*TUNE, "--seeds", 2, "--grid", "penalty=0.1,1,10", "--record", record)
    output = gsat(*command, "--write", recipe)
    assert output.code == 0
    rows = table(output.lines)
    assert rows["0.1"] == ["0.0250", "±", "0.0000"]
    assert rows["1.0"] == ["0.2500", "±", "0.0000", "chosen"]
    assert rows["10.0"] == ["undefined", "failed"]
    assert "training broke down" in output.err
    assert f"--method irm --recipe {recipe}" in output.lines[-1]
    assert tomllib.loads(recipe.read_text()) == {"method": {"irm": {"penalty": 1.0}}}
    line = json.loads(succeed(*command, "--json").out)
    assert line == json.loads(record.read_text())
    values = {point["settings"]["method.irm.penalty"]: point["mean"] for point in line["points"]}
    assert values == {0.1: 0.025, 1.0: 0.25, 10.0: None}
    assert line["chosen"] == {"method.irm.penalty": 1.0}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ((*TUNE, "--seed", 0, "--seeds", 2), "--seeds"),
        ((*TUNE, "--grid", "penalty"), "'penalty'"),
        ((*TUNE, "--grid", "nothing=1"), "'nothing'"),
        (("tune", "a", "b", "c"), "3"),
    ],
)
def test_wrong_options_are_errors(options: tuple[object, ...], problem: str) -> None:
    assert problem in refuse(*options)


def plant_audits(monkeypatch: pytest.MonkeyPatch, outcome_of: Any, accuracy_of: Any) -> None:
    """Replace training and audits by functions of a point's settings."""

    def train_each(runs: Any, folder: Any, **options: Any) -> PoolResult:
        def result(recipe: Any) -> dict[str, Any]:
            valid = {"accuracy": accuracy_of(recipe.settings), "loss": 1.0}
            return {"seconds": 1.0, "valid": valid, "test": {}}

        return PoolResult({name: result(recipe) for name, recipe in runs.items()})

    def audit_points(points: Any, *_: Any) -> Any:
        return [
            dataclasses.replace(p, outcomes=[outcome], passed=float(outcome == "passed"), gap=0.25)
            for p in points
            for outcome in [outcome_of(p.settings)]
        ]

    monkeypatch.setattr(module, "train_each", train_each)
    monkeypatch.setattr(module, "audit_points", audit_points)


def test_the_audit_of_each_point_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_audits(
        monkeypatch,
        lambda settings: "passed" if settings["method.gsat.r_final"] == 0.5 else "mixed",
        lambda settings: 0.5 if settings.r_final == 0.9 else 1.0,
    )
    output = succeed(*AUDITED, "--grid", "r_final=0.7,0.5,0.9")
    rows = table(output.lines)
    assert rows["0.7"] == ["1.0000", "mixed,", "gap", "0.25"]
    assert rows["0.5"] == ["1.0000", "passed,", "gap", "0.25", "chosen"]
    assert rows["0.9"] == ["0.5000", "less", "accurate"]
    assert output.lines[-1].endswith("r_final=0.5")
