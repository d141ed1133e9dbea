"""The verdict at the end of a training on the user's own data."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from cli_harness import gsat, succeed

from gsat.cli.output import short_audit
from gsat.core.errors import GSATError
from gsat.datasets import load
from gsat.training import run as runs
from gsat.training.run import Run, open_run
from own_data import as_json, make_graphs, write_lines

FAST = ("--set", "hidden=8", "--set", "layers=1", "--epochs", 1, "--quiet")
OUTCOMES = ("passed", "mixed", "failed")


@pytest.fixture
def _time(monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit may take any time."""
    monkeypatch.setattr(runs, "affordable", lambda model, graphs, seconds: len(graphs))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """250 graphs, of which 25 are validation graphs."""
    path = tmp_path_factory.mktemp("verdict") / "toy.jsonl"
    return write_lines(path, [as_json(graph) for graph in make_graphs(250)])


@pytest.fixture(scope="module")
def unaudited(data: Path) -> Path:
    path = data.parent / "run"
    outcome = succeed("train", data, *FAST, "--out", path, "--no-audit")
    assert len(outcome.lines) == 2  # the metric, and where the run is
    assert not (path / "audit.json").exists()
    return path


@pytest.mark.usefixtures("_time")
def test_a_training_ends_with_one_line_of_verdict(
    data: Path, unaudited: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    outcome = succeed("train", data, *FAST, "--out", run)
    assert len(outcome.lines) == 3
    audit = json.loads((run / "audit.json").read_text())
    assert audit["outcome"] in OUTCOMES
    assert (audit["split"], audit["graphs"]) == ("valid", 25)
    assert audit["verdict"] in outcome.lines[-1]
    explained = json.loads(succeed("explain", run, "--graph", 0, "--json").out)
    assert audit["verdict"] in explained["message"]
    results = [json.loads((path / "result.json").read_text()) for path in (run, unaudited)]
    assert results[0].keys() == results[1].keys()


def test_data_and_audits_are_read_once(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []

    def counted(module: Any, name: str) -> None:
        original = getattr(module, name)

        def count(*values: Any, **options: Any) -> Any:
            reads.append(name)
            return original(*values, **options)

        monkeypatch.setattr(module, name, count)

    counted(load, "load_own_data")
    counted(runs, "read_audit")
    monkeypatch.setattr(runs, "affordable", lambda model, graphs, seconds: len(graphs))
    succeed("train", data, *FAST, "--out", tmp_path / "run")
    assert reads.count("load_own_data") == 1
    succeed("train", data, *FAST, "--members", 2, "--no-audit", "--out", tmp_path / "ensemble")
    assert reads.count("load_own_data") == 2
    reads.clear()
    succeed("explain", tmp_path / "run", "--graph", 0)
    assert sorted(reads) == ["load_own_data", "read_audit"]


@pytest.mark.usefixtures("_time")
def test_resume_audits_what_was_not_audited_once(
    unaudited: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Path(shutil.copytree(unaudited, tmp_path / "run"))
    assert len(succeed("resume", run, "--no-audit").lines) == 2
    assert not (run / "audit.json").exists()
    first = succeed("resume", run)
    assert len(first.lines) == 3
    monkeypatch.setattr(Run, "audit", None)  # no audit from now on
    assert succeed("resume", run).out == first.out
    result = json.loads(succeed("resume", run, "--json").out)
    assert result.pop("audit")["outcome"] in OUTCOMES
    assert result == json.loads((run / "result.json").read_text())
    assert json.loads(succeed("resume", run, "--json", "--no-audit").out) == result


@pytest.mark.usefixtures("_time")
def test_ensembles_and_seeds_have_verdicts(data: Path, tmp_path: Path) -> None:
    ensemble, seeds = tmp_path / "ensemble", tmp_path / "seeds"
    outcome = succeed("train", data, *FAST, "--members", 2, "--out", ensemble)
    audit = json.loads((ensemble / "audit.json").read_text())
    assert audit["verdict"] in outcome.lines[-1]
    assert not list((ensemble / "members").rglob("audit.json"))
    last = succeed("train", data, *FAST, "--seeds", 2, "--out", seeds).lines[-1]
    results = json.loads(succeed("train", data, *FAST, "--seeds", 2, "--out", seeds, "--json").out)
    for seed, result in enumerate(results):
        audit = json.loads((seeds / f"seed-{seed}" / "audit.json").read_text())
        assert result["audit"]["verdict"] == audit["verdict"]
    assert any(result["audit"]["verdict"] in last for result in results)


def test_a_failed_audit_is_reported_and_the_run_is_kept(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*_: Any, **__: Any) -> Any:
        raise GSATError("an answer of the model is not a number")

    monkeypatch.setattr(Run, "short_audit", break_down)
    outcome = gsat("train", data, *FAST, "--out", tmp_path / "run")
    assert outcome.code == 0
    assert "an answer of the model is not a number" in outcome.err
    assert outcome.err.count("\n") == 1
    assert open_run(tmp_path / "run").finished


@pytest.mark.parametrize(
    ("outcome", "remedy", "command"),
    [
        ("passed", "members=3", None),
        ("failed", "readout=attended", "gsat train {} … --set readout=attended"),
        ("mixed", None, "gsat tune {} --by audit"),
    ],
)
def test_the_command_that_may_help(
    outcome: str,
    remedy: str | None,
    command: str | None,
    unaudited: Path,
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    audit = {"outcome": outcome, "verdict": "why", "remedy": remedy}
    monkeypatch.setattr(Run, "last_audit", audit)
    expected = None if command is None else command.format(data)
    shown = short_audit(open_run(unaudited), quiet=True)
    assert shown == {"outcome": outcome, "verdict": "why", "command": expected}
