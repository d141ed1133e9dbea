"""``gsat audit``: the verdict it prints and stores, and where the verdict is shown."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from cli_harness import Trained, refuse, succeed

import gsat
from gsat.core.errors import RunError


@pytest.fixture(scope="module")
def audited(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A copy of the trained run with its audit, and the printed lines."""
    path = Path(shutil.copytree(trained.path, tmp_path_factory.mktemp("audit") / "run"))
    return path, succeed("audit", path, "--quiet").lines


def test_the_verdict_is_printed_and_stored(audited: tuple[Path, list[str]]) -> None:
    path, lines = audited
    stored = json.loads((path / "audit.json").read_text("utf-8"))
    assert lines[0] == stored["verdict"]
    # Two epochs on 48 graphs teach nothing.
    assert (stored["faithful"], stored["outcome"]) == (False, "failed")
    assert stored["reasons"]
    assert [line for line in lines if line.startswith("against: ")] == [
        f"against: {finding}" for finding in stored["against"]
    ]
    assert stored["measures"]["own_agreement"] == 1.0
    printed = json.loads(succeed("audit", path, "--json", "--quiet").out)
    assert printed == {k: v for k, v in stored.items() if k not in ("split", "best_epoch")}


def test_explanations_and_evaluations_show_the_verdict(
    audited: tuple[Path, list[str]], tmp_path: Path
) -> None:
    path, (verdict, *_) = audited
    assert verdict in succeed("explain", path, "--graph", 0).lines[1]
    for name in ("g.html", "g.svg"):
        succeed("explain", path, "--graph", 0, "--out", tmp_path / name)
        assert "no finding" in (tmp_path / name).read_text("utf-8")
    assert succeed("evaluate", path).lines[-1] == f"audit: {verdict}"


def test_explanations_of_a_run_that_passed(copied: Path) -> None:
    audit = gsat.open_run(copied).audit().as_dict()
    result = json.loads((copied / "result.json").read_text("utf-8"))
    result["valid"]["accuracy"] = 1.0  # not weak
    (copied / "result.json").write_text(json.dumps(result), "utf-8")
    good = {**audit, "faithful": True, "believe": True, "outcome": "passed",
            "verdict": "passed: sufficient", "against": ["EST rejects 30%"],
            "split": "test", "best_epoch": result["best_epoch"]}  # fmt: skip
    (copied / "audit.json").write_text(json.dumps(good), "utf-8")
    message = succeed("explain", copied, "--graph", 0).lines[1]
    assert "passed: sufficient" in message
    assert "EST rejects 30%" in message
    # A file of an earlier version has neither an outcome nor evidence against.
    newer = ("outcome", "faithful", "against", "remedy", "unit")
    old = {key: value for key, value in good.items() if key not in newer}
    (copied / "audit.json").write_text(json.dumps({**old, "verdict": "believe it"}), "utf-8")
    assert succeed("explain", copied, "--graph", 0).lines[1].endswith("audit: believe it")
    # An audit of other weights does not count.
    (copied / "audit.json").write_text(json.dumps({**good, "best_epoch": 77}), "utf-8")
    assert gsat.open_run(copied).last_audit is None


@pytest.mark.parametrize("content", ["{", '{"believe": 1}'])
def test_a_damaged_audit_is_reported_and_replaced(copied: Path, content: str) -> None:
    (copied / "audit.json").write_text(content, "utf-8")
    with pytest.raises(RunError, match=r"audit\.json"):
        _ = gsat.open_run(copied).last_audit
    assert "audit.json" in succeed("explain", copied, "--graph", 0).out
    succeed("audit", copied, "--quiet")
    assert gsat.open_run(copied).last_audit is not None


def test_pages_and_numbers_are_written(trained: Trained, copied: Path, tmp_path: Path) -> None:
    page = tmp_path / "audit.html"
    out = succeed("audit", copied, "--with", trained.path, "--out", page, "--quiet")
    assert out.lines[-1] == str(page)
    assert page.read_text("utf-8").count("<svg") == 1
    succeed("audit", copied, "--out", tmp_path / "audit.json", "--quiet")
    assert json.loads((tmp_path / "audit.json").read_text("utf-8"))["level"] == "graph"


def test_comparison_with_other_runs_and_sanity_checks(trained: Trained, copied: Path) -> None:
    report = gsat.open_run(copied).audit(others=[trained.path], sanity=True, est_budget=2)
    # Equal weights give equal explanations.
    assert report.measures["stable_correlation"] == pytest.approx(1.0)
    assert report.measures["stable_distance"] == 0.0
    for name in ("untrained_correlation", "shuffled_correlation"):
        value = report.measures[name]
        assert value is not None
        assert -1 <= value < 0.999


def test_an_audit_of_other_data_is_not_stored(copied: Path) -> None:
    out = succeed("audit", copied, "ba2motifs", "--split", "valid", "--graphs", 20, "--quiet")
    assert "20 of 100" in out.out
    assert not (copied / "audit.json").exists()


def test_a_read_only_run_is_audited(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse_to_write(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("gsat.training.run_audit.writing.write_json", refuse_to_write)
    succeed("audit", copied, "--quiet")
    assert not (copied / "audit.json").exists()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--out", "a.txt"), ".txt"),
        (("--out", "a.html", "--json"), "--json"),
        (("--top", "2"), "top"),
        (("--top", "0.2", "--above", "0.5"), "above"),
        (("--with", "nowhere"), "nowhere"),
        (("--split", "tests"), "'tests'"),
    ],
)
def test_wrong_options_are_errors(trained: Trained, options: tuple[str, ...], problem: str) -> None:
    assert problem in refuse("audit", trained.path, *options, "--quiet")
