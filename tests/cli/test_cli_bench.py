"""`gsat bench`: from nothing to a table, also after a kill."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bench_tiny
import pytest
from cli_harness import Outcome, environment, finish, gsat, refuse, succeed

from gsat.cli.bench import parse_time
from gsat.errors import GSATError, Interrupted
from gsat.launch.pool import PoolResult
from gsat.studies import runner
from gsat.studies import verify as verifying
from gsat.studies.tables import STUDIES
from gsat.training.results import read_records

SCRIPT = str(Path(bench_tiny.__file__))


@pytest.fixture
def _tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    bench_tiny.add()
    yield
    bench_tiny.remove()


def start(folder: Path, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, SCRIPT, *map(str, arguments)],
        cwd=folder, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def metrics(folder: Path) -> dict[tuple[str, int], Any]:
    lines = read_records(folder / "results" / "runs.jsonl")
    return {
        (line["recipe_hash"], line["seed"]): (line["best_epoch"], line["valid"], line["test"])
        for line in lines
    }


@pytest.mark.medium
def test_from_nothing_to_a_table_and_the_same_after_a_kill(tmp_path: Path) -> None:
    command = ("bench", "tiny", "--seeds", 2, "--jobs", 2, "--quiet")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    said = finish(start(whole, *command))
    assert (said.code, said.err) == (0, "")
    assert "tiny: A tiny table" in said.out
    assert "GIN + GSAT-short" in said.out
    assert "no run" not in said.out
    assert len(metrics(whole)) == 4

    process = start(killed, *command)
    deadline = time.monotonic() + 120
    # Killed when something is recorded and something else is half done.
    record = killed / "results" / "runs.jsonl"
    while not (record.is_file() and record.read_text()):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert finish(process).code == -signal.SIGKILL
    before = len(metrics(killed))
    assert before < 4
    again = finish(start(killed, *command))
    assert (again.code, again.err) == (0, "")
    assert metrics(killed) == metrics(whole)
    assert again.out == said.out


@pytest.mark.medium
@pytest.mark.usefixtures("_tiny")
def test_a_spent_budget_leaves_the_rest_for_the_next_time(tmp_path: Path) -> None:
    said = gsat("bench", "tiny", "--seeds", 2, "--quiet", "--budget", "0s")
    assert said.code == 0
    assert said.err == "gsat: 0s are spent, 4 runs left; the same command goes on\n"
    assert said.out.count("no run") == 2


@pytest.mark.usefixtures("_tiny")
def test_runs_that_another_process_has_are_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(runs: Any, folder: Path, **how: Any) -> PoolResult:
        return PoolResult(unfinished=list(runs), busy=list(runs)[:1])

    monkeypatch.setattr(runner, "train_each", busy)
    said = gsat("bench", "tiny", "--seeds", 1, "--quiet")
    assert said.err.splitlines()[1] == "gsat: stopped, 1 run left; the same command goes on"
    said = gsat("bench", "tiny", "--seeds", 1, "--quiet", "--budget", "10m")
    assert said.err.splitlines() == [
        "gsat: another process is at 1 run of these; the same command goes on after it",
        "gsat: 10m are spent, 1 run left; the same command goes on",
    ]


@pytest.mark.usefixtures("_tiny")
def test_loading_data_is_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float | None] = []

    def slow(*args: Any, **how: Any) -> runner.Plan:
        time.sleep(0.3)
        return runner.Plan()

    def ask(*args: Any, budget: float | None, **how: Any) -> PoolResult:
        asked.append(budget)
        return PoolResult()

    monkeypatch.setattr(runner, "make_plan", slow)
    monkeypatch.setattr(runner, "run_plan", ask)
    succeed("bench", "tiny", "--budget", "60s", "--quiet")
    assert asked[0] is not None
    assert 0 < asked[0] < 59.8


def test_without_its_data_nothing_is_done_and_that_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in (("DATA", tmp_path), ("CACHE", tmp_path / "cache"), ("OFFLINE", 1)):
        monkeypatch.setenv(f"GSAT_{name}", str(value))
    only = ("--only", "method=gsat,backbone=gin,dataset=mutag")
    for more in ((), ("--dry-run",)):
        said = gsat("bench", "table1", *only, "--seeds", 1, "--quiet", *more)
        assert said.code == 2
        assert "mutag is left out: a raw file is missing" in said.err
    some = gsat("bench", "table1", only[0], only[1] + ",dataset=spmotif-0.5", "--dry-run")
    assert some.code == 1  # not all of what was asked for
    assert "spmotif-0.5 gin gsat" in some.out
    assert "mutag" not in some.out


def test_a_place_that_can_not_be_written_is_refused_before_anything_is_run(tmp_path: Path) -> None:
    only = ("--only", "method=gsat,backbone=gin,dataset=spmotif-0.5", "--seeds", 1)
    record = ("--record", tmp_path / "runs.jsonl")
    assert "another folder with --out" in refuse(
        "bench", "table1", *only, "--out", "/proc/x", *record
    )
    out = ("--out", tmp_path / "runs")
    said = refuse("bench", "table1", *only, *out, "--record", "/proc/x/runs.jsonl")
    assert "another file with --record" in said
    assert list(tmp_path.rglob("*.jsonl")) == []


@pytest.mark.usefixtures("_tiny")
def test_on_a_cluster_nobody_knows_how_many_run_at_a_time() -> None:
    lines = succeed("bench", "tiny", "--seeds", 3, "--engine", "ray", "--dry-run").lines
    assert re.fullmatch(r"6 runs to do, 0 recorded; about \d+ s of one CPU", lines[-1])


@pytest.fixture
def _failing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(runs: Any, folder: Path, **how: Any) -> PoolResult:
        for name in runs:
            how["done"](name, "training broke down")
        return PoolResult(failures=dict.fromkeys(runs, "training broke down"))

    monkeypatch.setattr(runner, "train_each", fails)


@pytest.mark.usefixtures("_tiny", "_failing")
def test_failures_are_said_shown_and_leave_a_code(tmp_path: Path) -> None:
    said = gsat("bench", "tiny", "--seeds", 1, "--quiet")
    assert said.code == 1
    lines = said.err.splitlines()
    assert len(lines) == 2
    assert all(line.endswith("seed-0 failed: training broke down") for line in lines)
    assert all(line["failed"] for line in read_records("results/runs.jsonl"))
    assert "no run" not in said.out
    assert "failed" in said.out


@pytest.mark.usefixtures("_tiny")
def test_a_dry_run_says_what_would_run_and_runs_nothing(tmp_path: Path) -> None:
    lines = succeed("bench", "tiny", "--seeds", 3, "--jobs", 2, "--dry-run").lines
    assert len(lines) == 3
    assert re.fullmatch(r"  3 x houses gin gsat .*epochs=13, about \d+ s each", lines[0])
    assert re.fullmatch(r"6 runs to do, 0 recorded; about \d+ s with --jobs 2", lines[-1])
    assert list(tmp_path.iterdir()) == []


def test_studies_are_listed_with_how_much_of_them_was_run(tmp_path: Path) -> None:
    lines = succeed("bench", "--record", tmp_path / "none.jsonl").lines
    assert [line.split()[0] for line in lines] == list(STUDIES)
    assert lines[0] == "table1           Explanation AUC · 0 of 54 have runs"


@pytest.mark.parametrize("style", ["--markdown", "--html", "--latex"])
def test_a_table_is_shown_in_other_styles(style: str, tmp_path: Path) -> None:
    none = tmp_path / "none.jsonl"
    shown = succeed("bench", "table1", "--show", style, "--only", "dataset=mutag", "--record", none)
    assert "GNNExplainer" in shown.out
    assert "61.98" in shown.out
    assert "67.35" not in shown.out  # of another data set
    begin = {"--markdown": "###", "--html": "<!DOCTYPE html>", "--latex": r"\begin{table}"}[style]
    assert begin in shown.out


def test_studies_make_one_page_and_a_figure_without_runs_is_only_said(tmp_path: Path) -> None:
    none = ("--record", tmp_path / "none.jsonl", "--out", tmp_path / "runs")
    said = gsat("bench", "all", "--show", "--html", *none)
    assert said.code == 0
    assert said.out.count("<!DOCTYPE html>") == 1
    assert all(f"table{number}" in said.out for number in range(1, 9))
    assert [line.split(":")[1].strip() for line in said.err.splitlines() if "gsat: " in line] == [
        "fig-posthoc", "fig-regulariser", "fig-examples"
    ]  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_a_figure_keeps_to_what_was_asked_for(tmp_path: Path) -> None:
    none = ("--record", tmp_path / "none.jsonl", "--out", tmp_path / "runs")
    only = ("--only", "dataset=mutag")
    said = gsat("bench", "fig-posthoc", "fig-regulariser", "--show", *only, *none)
    assert said.code == 2
    (line,) = said.err.splitlines()  # nothing of the other figure is on Mutag
    assert line.startswith("gsat: fig-posthoc: no curves are recorded of ")
    assert line.endswith(" on mutag")


def test_wrong_wishes_are_refused_in_one_line() -> None:
    for wish, said in (
        (("table9",), "there is no study 'table9'"),
        (("table1", "--only", "dataset=x"), "--only dataset=x: there is none in this study"),
        (("table1", "--budget", "soon"), "a time is written like 2h, 90m or 1h30m, not 'soon'"),
        (("table1", "--html", "--latex"), "--html and --latex can't both be had"),
        (("table1", "--engine", "slurm"), "--engine is local or ray, not 'slurm'"),
        (("table1", "--address", "auto"), "give --engine ray, too"),
        (("verify", "table1"), "it stands by itself"),
        (("verify", "--dry-run"), "it takes --only, --budget, --record and --quiet"),
        (("verify", "--record", "none.jsonl"), "no run is recorded in none.jsonl; make some"),
        (("all", "table99"), "there is no study 'table99'"),
        (("table1", "--show", "--dry-run"), "give one of them"),
        (("claims", "--html"), "--html shows tables, and claims has none"),
    ):
        assert said in refuse("bench", *wish)


def test_claims_are_a_page_of_markdown(tmp_path: Path) -> None:
    none = ("--record", tmp_path / "none.jsonl")
    for more in ((), ("--markdown",)):
        said = succeed("bench", "claims", "--show", *none, *more)
        assert said.out.startswith("| claim | verdict")


def test_torchrun_starts_no_benches(monkeypatch: pytest.MonkeyPatch) -> None:
    from gsat.training import process_group

    monkeypatch.setattr(process_group, "process_count", lambda: 2)
    assert "run it without torchrun" in refuse("bench", "table1", "--dry-run")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("2h", 7200), ("1h30m", 5400), ("0.5d", 43200), ("5m", 300)]
)
def test_times(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "2", "h", "2x", "2h,", "-3m"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(GSATError, match="a time is written like"):
        parse_time(text)


@pytest.mark.usefixtures("_tiny")
def test_a_recorded_run_is_verified_and_a_changed_one_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gsat.training.train import train

    run = train(STUDIES["tiny"].experiments[0].recipe(0), tmp_path / "run")
    record = json.loads(json.dumps(run.record()))
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_text(json.dumps(record) + "\n")
    record["test"]["explanation_auc"] = 0.125
    bad.write_text(json.dumps(record) + "\n")

    def interrupt(*_: object, **how: object) -> None:
        raise Interrupted("stopped; resume with: gsat resume somewhere")

    with monkeypatch.context() as patch:
        patch.setattr(verifying, "train", interrupt)
        stopped = gsat("bench", "verify", "--record", good)
    assert stopped.code == 130
    assert stopped.err == "gsat: stopped; houses gin gsat seed 0 was not verified\n"

    def verify(file: Path, *more: object) -> Outcome:
        return gsat("bench", "verify", "--record", file, *more)

    same = verify(good)
    assert (same.code, same.err) == (0, "")
    assert same.out.splitlines()[-1] == "houses gin gsat seed 0: reproduced to the last bit"
    other = verify(bad)
    assert other.code == 1
    assert "test.explanation_auc was 0.125, is " in other.err
    assert "no recorded run" in refuse("bench", "verify", "--record", good, "--budget", "0s")
    assert "no recorded run" in refuse("bench", "verify", "--record", good, "--only", "method=erm")
    assert {path.name for path in tmp_path.iterdir()} == {"run", "good.jsonl", "bad.jsonl"}


@pytest.mark.usefixtures("_tiny")
def test_explanations_of_seeds_are_compared_where_their_runs_are(tmp_path: Path) -> None:
    from gsat.studies.runner import Place, Wanted, make_plan
    from gsat.training.train import train

    command = ("bench", "tiny", "--show", "--stability")
    refusal = gsat(*command)
    assert refusal.code == 2
    assert "no two finished runs of one recipe in runs/bench to compare" in refusal.err
    place = Place(tmp_path / "runs" / "bench", tmp_path / "results" / "runs.jsonl")
    for run in make_plan([Wanted(STUDIES["tiny"].experiments[0], 2)], place).left:
        train(run.recipe, place.runs / run.name)
    for _ in range(2):
        said = succeed(*command).lines[-1]
        assert re.search(r"epochs=13: rank correlation between 2 seeds -?[01]\.\d{3} \(", said)
    (line,) = read_records(place.stability, needs=())
    assert line["seeds"] == [0, 1]
