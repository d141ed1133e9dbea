"""`gsat methods`, `gsat settings` and `gsat tune`."""

from __future__ import annotations

import dataclasses
import json
import sys
import tomllib
import types
from pathlib import Path
from typing import Any

import pytest
from cli_harness import TINY, gsat, refuse, succeed

from gsat.core.settings import SettingInfo
from gsat.launch.pool import PoolResult
from gsat.methods import METHODS
from gsat.study import tune as module

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


def test_settings_are_listed_with_default_range_and_meaning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str | None] = []
    known = [
        SettingInfo("training.lr", "number", "0.001", "above 0", "step size of Adam"),
        SettingInfo("method.gsat.attention", "'edge' or 'node'", "'edge'", "", ""),
    ]

    def describe(name: str | None) -> list[SettingInfo]:
        asked.append(name)
        return known

    fake = types.ModuleType("gsat.training.settings_reference")
    fake.describe_settings = describe  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, fake.__name__, fake)
    assert succeed("settings").lines == [
        "training.lr = 0.001  (number, above 0)",
        "    step size of Adam",
        "method.gsat.attention = 'edge'  ('edge' or 'node')",
    ]
    rows = json.loads(succeed("settings", "gsat", "--json").out)
    assert rows[0]["name"] == "training.lr"
    assert rows[0]["range"] == "above 0"
    assert asked == [None, "gsat"]


def test_a_method_in_a_file_is_loaded_and_used_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from gsat.methods.erm import ERMMethod\n"
        "from gsat.core.registry import register_method\n"
        "@register_method('mine')\n"
        "class Mine(ERMMethod):\n"
        "    title, summary, paper = 'Mine', 'as ERM', 'none'\n"
    )
    command = ("train", *TINY, "--method", f"{file}:Mine", "--out", tmp_path / "run", "--json")
    assert json.loads(succeed(*command).out)["method"] == "mine"
    succeed("resume", tmp_path / "run", "--method", f"{file}:Mine")


def test_workers_load_the_file_of_a_method(tmp_path: Path) -> None:
    file = tmp_path / "other.py"
    file.write_text(
        "from gsat.methods.erm import ERMMethod\n"
        "from gsat.core.registry import register_method\n"
        "@register_method('other')\n"
        "class Other(ERMMethod):\n"
        "    title, summary, paper = 'Other', 'as ERM', 'none'\n"
    )
    out = tmp_path / "runs"
    command = ("train", *TINY, "--method", f"{file}:Other", "--seeds", 1, "--out", out, "--json")
    (result,) = json.loads(succeed(*command).out)
    assert result["method"] == "other"


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
    output = gsat(*TUNE, "--seeds", 2, "--grid", "penalty=0.1,1,10", "--write", recipe)
    assert output.code == 0
    rows = {line.split()[0]: line.split()[1:] for line in output.lines if line.strip()}
    assert rows["penalty"] == ["valid", "accuracy"]
    assert rows["0.1"] == ["0.0250", "±", "0.0000"]
    assert rows["1.0"] == ["0.2500", "±", "0.0000", "chosen"]
    assert rows["10.0"] == ["undefined", "failed"]
    assert "chosen on validation data, seeds 0, 1: penalty=1.0" in output.lines
    assert output.err == "gsat: penalty=10.0 failed: training broke down\n"
    how = f"gsat train ba2motifs --backbone gin --method irm --recipe {recipe}"
    assert output.lines[-1] == f"written to {recipe}; use it with: {how}"
    assert tomllib.loads(recipe.read_text()) == {"method": {"irm": {"penalty": 1.0}}}


@pytest.mark.usefixtures("_planted")
def test_one_seed_has_no_deviation() -> None:
    output = succeed(*TUNE, "--seed", 3, "--grid", "penalty=0.1,1")
    assert ["1.0", "0.2500", "chosen"] in [line.split() for line in output.lines]
    assert output.lines[-1] == "chosen on validation data, seeds 3: penalty=1.0"


@pytest.mark.usefixtures("_planted")
def test_ties_and_identical_runs_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def fake(runs: Any, folder: Any, **how: Any) -> Any:
        def valid(penalty: float) -> dict[str, float]:
            return {"accuracy": 0.5, "loss": min(penalty, losses)}

        return PoolResult(
            {n: {"seconds": 1.0, "valid": valid(r.settings.penalty)} for n, r in runs.items()}, {}
        )

    monkeypatch.setattr(module, "train_each", fake)
    losses = 0.5
    lines = succeed(*TUNE, "--grid", "penalty=0.5,1,2").lines
    same = "penalty=0.5 and penalty=1.0 and penalty=2.0 gave identical runs"
    assert any(line.startswith(same) for line in lines)
    assert "3 settings tie; the first is chosen" in lines
    losses = 10.0
    lines = succeed(*TUNE, "--grid", "penalty=1,0.5").lines
    assert "2 settings tie; the one with the lowest validation loss is chosen" in lines
    assert lines[-1].endswith("penalty=0.5")
    assert not any("identical" in line for line in lines)


@pytest.mark.usefixtures("_planted")
def test_wrong_tunings_are_refused(tmp_path: Path) -> None:
    assert "--seeds" in refuse(*TUNE, "--seed", 0, "--seeds", 2)
    assert "a grid is written KEY=V1,V2,…" in refuse(*TUNE, "--grid", "penalty")
    assert "there is no method 'nothing'" in refuse("tune", "nothing", "ba2motifs")
    assert "there is no data set 'nothing'" in refuse("tune", "irm", "nothing")
    assert "not 3 names" in refuse("tune", "a", "b", "c")
    assert "--by is 'metric' or 'audit', not 'luck'" in refuse(*TUNE, "--by", "luck")
    assert "there is no setting 'nothing'" in refuse(*TUNE, "--grid", "nothing=1")
    record = tmp_path / "tuning.jsonl"
    record.write_text("{half\n")
    assert "line 1, is not JSON" in refuse(*TUNE, "--record", record)


@pytest.mark.usefixtures("_planted")
def test_the_record_as_json(tmp_path: Path) -> None:
    record = tmp_path / "tuning.jsonl"
    output = succeed(*TUNE, "--grid", "penalty=0.1,1,10", "--record", record, "--json")
    line = json.loads(output.out)
    assert line == json.loads(record.read_text())
    values = {point["settings"]["method.irm.penalty"]: point["mean"] for point in line["points"]}
    assert values == {0.1: 0.025, 1.0: 0.25, 10.0: None}
    assert line["chosen"] == {"method.irm.penalty": 1.0}


@pytest.mark.usefixtures("_planted")
def test_the_audit_of_each_point_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def fake(runs: Any, folder: Any, **how: Any) -> Any:
        good = {"seconds": 1.0, "valid": {"accuracy": 1.0, "loss": 1.0}, "test": {}}
        poor = {**good, "valid": {"accuracy": 0.5, "loss": 1.0}}
        return PoolResult({n: poor if r.settings.r_final == 0.9 else good for n, r in runs.items()})

    def audited(points: Any, *_: Any) -> Any:
        return [
            dataclasses.replace(p, outcomes=[outcome], passed=float(outcome == "passed"), gap=0.4)
            for p in points
            for outcome in ["passed" if p.settings["method.gsat.r_final"] == 0.5 else "mixed"]
        ]

    monkeypatch.setattr(module, "train_each", fake)
    monkeypatch.setattr(module, "audit_points", audited)
    small = ("--set", "graphs=60", "--set", "hidden=8", "--quiet")
    output = succeed("tune", "ba2motifs", *small, "--by", "audit", "--grid", "r_final=0.7,0.5,0.9")
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in output.lines if line.strip()}
    assert rows["0.7"] == "1.0000 mixed, gap 0.40"
    assert rows["0.5"] == "1.0000 passed, gap 0.40 chosen"
    assert rows["0.9"] == "0.5000 less accurate"
    chosen = "chosen by the audit of validation data, seeds 0: r_final=0.5"
    assert output.lines[-1] == chosen


@pytest.mark.usefixtures("_planted")
def test_a_ladder_is_shown_rung_by_rung(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fake(runs: Any, folder: Any, **how: Any) -> Any:
        good = {"seconds": 1.0, "valid": {"accuracy": 1.0, "loss": 1.0}, "test": {}}
        return PoolResult(dict.fromkeys(runs, good))

    passing = "row"

    def audited(points: Any, *_: Any) -> Any:
        for p in points:
            outcome = (
                "passed" if p.settings.get("method.gsat.extractor_norm") == passing else "failed"
            )
            passed = float(outcome == "passed")
            yield dataclasses.replace(p, outcomes=[outcome], passed=passed, gap=0.25)

    monkeypatch.setattr(module, "train_each", fake)
    monkeypatch.setattr(module, "audit_points", lambda *given: list(audited(*given)))
    small = ("--set", "graphs=60", "--set", "hidden=8", "--quiet")
    recipe = tmp_path / "mine.toml"
    command = ("tune", "ba2motifs", *small, "--by", "audit", "--write", recipe)
    output = succeed(*command)
    assert output.out.count("gap 0.25") == 3  # the recipe, the read-out, row normalisation
    assert "chosen" in next(line for line in output.lines if "passed, gap" in line)
    written = tomllib.loads(recipe.read_text())["method"]["gsat"]
    assert written == {"readout": "attended", "extractor_norm": "row"}
    record = json.loads(succeed(*command, "--json").out)
    assert record["chosen"] == {
        "method.gsat.readout": "attended",
        "method.gsat.extractor_norm": "row",
    }
    passing = "nothing"
    output = succeed("tune", "ba2motifs", *small, "--by", "audit")
    assert output.out.count("gap 0.25") == len(record["ladder"])
