"""`gsat methods` and `gsat tune`."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from cli_harness import gsat, refuse, succeed

from gsat.launch.pool import PoolResult
from gsat.methods import METHODS
from gsat.studies import tune as module

TUNE = ("tune", "irm", "ba2motifs", "--set", "graphs=30", "--set", "hidden=8", "--quiet")


def test_methods_are_listed_with_their_papers() -> None:
    lines = succeed("methods").lines
    for name, method in METHODS.items():
        place = next(i for i, line in enumerate(lines) if line.split()[0] == name)
        assert lines[place].endswith(f"  {method.title}: {method.summary}")
        assert lines[place + 1].strip() == method.paper
    assert len(lines) == 2 * len(METHODS)
    rows = json.loads(succeed("methods", "--json").out)
    assert [row["name"] for row in rows] == list(METHODS)
    assert all(row.keys() == {"name", "title", "summary", "paper"} for row in rows)


@pytest.fixture
def _planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weight 1 is best, weight 10 breaks down."""

    def fake(runs: Any, folder: Any, **how: Any) -> Any:
        good, bad = {}, {}
        for name, recipe in runs.items():
            if recipe.settings.penalty == 10:
                bad[name] = "training broke down"
            else:
                valid = {"accuracy": recipe.settings.penalty / 4, "loss": 1.0}
                good[name] = {"seconds": 1.0, "valid": valid, "test": {}}
        return PoolResult(good, bad)

    monkeypatch.setattr(module, "train_each", fake)


@pytest.mark.usefixtures("_planted")
def test_a_tuning_is_shown_as_a_table(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    said = gsat(*TUNE, "--seeds", 2, "--grid", "penalty=0.1,1,10", "--write", recipe)
    assert said.code == 0
    rows = {line.split()[0]: line.split()[1:] for line in said.lines if line.strip()}
    assert rows["penalty"] == ["valid", "accuracy"]
    assert rows["0.1"] == ["0.0250", "±", "0.0000"]
    assert rows["1.0"] == ["0.2500", "±", "0.0000", "chosen"]
    assert rows["10.0"] == ["undefined", "failed"]
    assert "chosen on validation data, seeds 0, 1: penalty=1.0" in said.lines
    assert said.err == "gsat: penalty=10.0 failed: training broke down\n"
    how = f"gsat train ba2motifs --backbone gin --method irm --recipe {recipe}"
    assert said.lines[-1] == f"written to {recipe}; use it with: {how}"
    assert tomllib.loads(recipe.read_text()) == {"method": {"irm": {"penalty": 1.0}}}


@pytest.mark.usefixtures("_planted")
def test_one_seed_has_no_deviation() -> None:
    said = succeed(*TUNE, "--seed", 3, "--grid", "penalty=0.1,1")
    assert ["1.0", "0.2500", "chosen"] in [line.split() for line in said.lines]
    assert said.lines[-1] == "chosen on validation data, seeds 3: penalty=1.0"


@pytest.mark.usefixtures("_planted")
def test_wrong_tunings_are_refused(tmp_path: Path) -> None:
    assert "give one of them" in refuse(*TUNE, "--seed", 0, "--seeds", 2)
    assert "a grid is written KEY=V1,V2,…" in refuse(*TUNE, "--grid", "penalty")
    assert "there is no method 'nothing'" in refuse("tune", "nothing", "ba2motifs")
    assert "there is no setting 'nothing'" in refuse(*TUNE, "--grid", "nothing=1")
    record = tmp_path / "tuning.jsonl"
    record.write_text("{half\n")
    assert "line 1, is not JSON" in refuse(*TUNE, "--record", record)


@pytest.mark.usefixtures("_planted")
def test_a_tuning_is_printed_as_it_is_recorded(tmp_path: Path) -> None:
    """That a killed one resumes is tested in tests/studies/test_tune_resume.py."""
    record = tmp_path / "tuning.jsonl"
    command = (*TUNE, "--grid", "penalty=0.1,1,10", "--out", tmp_path / "runs", "--record", record)
    line = json.loads(succeed(*command, "--json").out)
    assert line == json.loads(record.read_text())
    values = {point["settings"]["method.irm.penalty"]: point["mean"] for point in line["points"]}
    assert values == {0.1: 0.025, 1.0: 0.25, 10.0: None}
    assert line["chosen"] == {"method.irm.penalty": 1.0}
