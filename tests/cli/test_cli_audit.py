"""``gsat audit``: what it prints, writes and keeps, and how explanations carry its verdict."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from cli_harness import Trained, refuse, succeed

import gsat
from gsat.core.errors import RunError
from gsat.training.run_audit import mean_stability


@pytest.fixture(scope="module")
def audited(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A copy of the trained run with its audit, and what the audit printed."""
    path = Path(shutil.copytree(trained.path, tmp_path_factory.mktemp("audit") / "run"))
    return path, succeed("audit", path, "--quiet").lines


def test_the_first_line_is_the_verdict(audited: tuple[Path, list[str]]) -> None:
    path, lines = audited
    kept = json.loads((path / "audit.json").read_text("utf-8"))
    assert lines[0] == kept["verdict"]
    # Two epochs on 48 graphs teach nothing.
    assert kept["faithful"] is False
    assert kept["outcome"] == "failed"
    assert lines[0].startswith("failed: ")
    assert kept["reasons"]
    assert [line for line in lines if line.startswith("against: ")] == [
        f"against: {finding}" for finding in kept["against"]
    ]
    assert any(line.startswith("Graphs: 6 ·") for line in lines)
    # Every measure is printed with its parameters.
    assert any("probability 0.1 (5 draws)" in line for line in lines)
    assert any("probability 0.5; number of draws: 50" in line for line in lines)
    assert kept["measures"]["own_agreement"] == 1.0


def test_json_is_what_is_kept(audited: tuple[Path, list[str]]) -> None:
    path, _ = audited
    kept = json.loads((path / "audit.json").read_text("utf-8"))
    printed = json.loads(succeed("audit", path, "--json", "--quiet").out)
    assert printed == {k: v for k, v in kept.items() if k not in ("split", "best_epoch")}
    assert printed["settings"]["est_budget"] == 50
    assert set(printed["curves"]) >= {"shares", "kept", "removed", "random_kept"}


def test_explanations_carry_the_verdict(audited: tuple[Path, list[str]], tmp_path: Path) -> None:
    path, lines = audited
    said = succeed("explain", path, "--graph", 0).lines
    assert said[1].startswith("no finding: ")
    assert f"audit: {lines[0]}" in said[1]
    succeed("explain", path, "--graph", 0, "--out", tmp_path / "g.html")
    assert "no finding: " in (tmp_path / "g.html").read_text("utf-8")
    succeed("explain", path, "--graph", 0, "--out", tmp_path / "g.svg")
    assert "no finding" in (tmp_path / "g.svg").read_text("utf-8")
    measured = succeed("evaluate", path).lines
    assert measured[-1] == f"audit: {lines[0]}"


def test_a_run_that_passed_says_so(copied: Path) -> None:
    audit = gsat.open_run(copied).audit().as_dict()
    good = {**audit, "faithful": True, "believe": True, "outcome": "passed",
            "verdict": "passed: sufficient", "against": ["EST rejects 30%"],
            "split": "test"}  # fmt: skip
    result = json.loads((copied / "result.json").read_text("utf-8"))
    good["best_epoch"] = result["best_epoch"]
    result["valid"]["accuracy"] = 1.0  # not weak
    (copied / "result.json").write_text(json.dumps(result), "utf-8")
    (copied / "audit.json").write_text(json.dumps(good), "utf-8")
    said = succeed("explain", copied, "--graph", 0).lines
    assert "edges ranked; audit: passed: sufficient" in said[1]
    assert "EST rejects 30%" in said[1]
    # A file of an earlier version has neither an outcome nor evidence against.
    old = {
        k: v
        for k, v in good.items()
        if k not in ("outcome", "faithful", "against", "remedy", "unit")
    }
    (copied / "audit.json").write_text(json.dumps({**old, "verdict": "believe it"}), "utf-8")
    said = succeed("explain", copied, "--graph", 0).lines
    assert said[1].endswith("edges ranked; audit: believe it")


def test_an_audit_of_other_weights_does_not_count(copied: Path) -> None:
    run = gsat.open_run(copied)
    run.audit()
    assert run.last_audit is not None
    kept = json.loads((copied / "audit.json").read_text("utf-8"))
    (copied / "audit.json").write_text(json.dumps({**kept, "best_epoch": 77}), "utf-8")
    assert gsat.open_run(copied).last_audit is None


@pytest.mark.parametrize("content", ["{", "{}", '{"believe": 1}', "[]"])
def test_a_damaged_audit_is_said_and_harms_nothing(copied: Path, content: str) -> None:
    (copied / "audit.json").write_text(content, "utf-8")
    with pytest.raises(RunError, match=r"audit\.json can't be read"):
        _ = gsat.open_run(copied).last_audit
    assert "audit.json can't be read" in succeed("explain", copied, "--graph", 0).out
    succeed("audit", copied, "--quiet")  # and is replaced


def test_pages_and_numbers_are_written(trained: Trained, copied: Path, tmp_path: Path) -> None:
    page = tmp_path / "audit.html"
    out = succeed("audit", copied, "--with", trained.path, "--out", page, "--quiet")
    assert out.lines[-1] == str(page)
    text = page.read_text("utf-8")
    assert text.count("<svg") == 1
    assert "structural Hamming distance" in text
    assert "Failed" in text
    succeed("audit", copied, "--out", tmp_path / "audit.json", "--quiet")
    assert json.loads((tmp_path / "audit.json").read_text("utf-8"))["level"] == "graph"


def test_other_runs_and_sanity(trained: Trained, copied: Path) -> None:
    report = gsat.open_run(copied).audit(others=[trained.path], sanity=True, est_budget=2)
    # The same weights: the same explanations.
    assert report.measures["stable_correlation"] == pytest.approx(1.0)
    assert report.measures["stable_distance"] == 0.0
    for name in ("untrained_correlation", "shuffled_correlation"):
        value = report.measures[name]
        assert value is not None
        assert -1 <= value < 0.999


def test_data_of_ones_own_is_audited_and_not_kept(copied: Path) -> None:
    (copied / "audit.json").unlink(missing_ok=True)
    out = succeed("audit", copied, "ba2motifs", "--split", "valid", "--graphs", 20, "--quiet")
    assert "Graphs: 20 of 100" in out.out
    assert not (copied / "audit.json").exists()


def test_a_run_that_cannot_be_written_to_is_audited(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_to_write(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("gsat.training.run_audit.writing.write_json", refuse_to_write)
    succeed("audit", copied, "--quiet")
    assert not (copied / "audit.json").exists()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (("--out", "a.txt"), "its name must end in .html, .json"),
        (("--out", "a.html", "--json"), "give one of them"),
        (("--top", "2"), "share of the edges between 0 and 1"),
        (("--top", "0.2", "--above", "0.5"), "give one of them"),
        (("--with", "nowhere"), "nowhere is not a run"),
        (("--split", "tests"), "there is no split 'tests'"),
    ],
)
def test_wrong_options_are_refused(trained: Trained, options: tuple[str, ...], match: str) -> None:
    assert match in refuse("audit", trained.path, *options, "--quiet")


def test_a_run_without_explanations_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "erm"
    succeed("train", "ba2motifs", "--method", "erm", "--set", "graphs=20", "--epochs", 1,
            "--out", path, "--quiet")  # fmt: skip
    assert "'erm' gives no explanations to audit" in refuse("audit", path, "--quiet")


def test_mean_stability_is_that_of_the_last_ten_epochs() -> None:
    log = [{"score_stability": None}, *({"score_stability": n / 20} for n in range(20))]
    assert mean_stability(log) == pytest.approx(sum(range(10, 20)) / 200)
    assert mean_stability([{"epoch": 0}]) is None
