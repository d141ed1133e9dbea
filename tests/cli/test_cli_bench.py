"""`gsat bench`: from nothing to a table, also after a kill."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from cli_harness import Outcome, finish, gsat, refuse, start, succeed

from gsat.cli.options import parse_time
from gsat.core.errors import GSATError, Interrupted
from gsat.launch.pool import PoolResult
from gsat.study import plan
from gsat.study import run as runner
from gsat.study import verify as verifying
from gsat.study.plan import RunRequest, make_plan
from gsat.study.records import BenchFolders
from gsat.study.study import Study, read_study, study_names
from gsat.training.results import read_records, record_once
from gsat.training.train import train

TINY = """
title = "A tiny table"
datasets = ["houses"]
seeds = 2
settings = {graphs = 40, hidden = 8, layers = 1, batch_size = 16, r_interval = 1}

[[table]]
metric = "explanation_auc"
rows = [
  {method = "gsat", variant = "short", published = ["80.0±2.0"]},
  {method = "gsat", variant = "long", published = ["80.0±2.0"]},
]

[variants]
short = {title = "-short", settings = {epochs = 13}}
long = {title = "-long", settings = {epochs = 30}}
"""


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Study:
    """A study of two short trainings, in a file of the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY, encoding="utf-8")
    return read_study(tmp_path / "tiny.toml")


def metrics(folder: Path) -> dict[tuple[str, int], Any]:
    lines = read_records(folder / "results" / "runs.jsonl")
    return {
        (line["recipe_hash"], line["seed"]): (line["best_epoch"], line["valid"], line["test"])
        for line in lines
    }


@pytest.mark.medium
def test_from_nothing_to_a_table_and_the_same_after_a_kill(tmp_path: Path, tiny: Study) -> None:
    """The numbers are those of the same recipes trained one by one, whatever was killed."""
    command = ("bench", "run", "tiny.toml", "--seeds", 2, "--jobs", 2, "--quiet")
    process = start(*command, cwd=tmp_path)
    deadline = time.monotonic() + 120
    # Killed when something is recorded and something else is half done.
    record = tmp_path / "results" / "runs.jsonl"
    while not (record.is_file() and record.read_text()):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert finish(process).code == -signal.SIGKILL
    assert len(metrics(tmp_path)) < 4
    again = succeed(*command, "--jobs", 1)  # how many at a time makes no difference
    assert "tiny: A tiny table" in again.out
    assert "GIN + GSAT-short" in again.out
    assert "no run" not in again.out

    whole = tmp_path / "whole"
    for experiment in tiny.experiments:
        for seed in (0, 1):
            run = train(experiment.recipe(seed))
            record_once(whole / "results" / "runs.jsonl", run.record())
    assert metrics(tmp_path) == metrics(whole)
    shown = succeed("bench", "show", "tiny.toml", "--records", whole / "results")
    assert again.out == shown.out


@pytest.mark.medium
@pytest.mark.usefixtures("tiny")
def test_a_spent_budget_leaves_the_rest_for_the_next_time(tmp_path: Path) -> None:
    output = gsat("bench", "run", "tiny.toml", "--seeds", 2, "--quiet", "--budget", "0s")
    assert output.code == 0
    assert "4 runs left" in output.err
    assert output.out.count("no run") == 2


@pytest.mark.usefixtures("tiny")
def test_runs_that_another_process_has_are_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(runs: Any, folder: Path, **how: Any) -> PoolResult:
        return PoolResult(unfinished=list(runs), busy=list(runs)[:1])

    monkeypatch.setattr(runner, "train_each", busy)
    output = gsat("bench", "run", "tiny.toml", "--seeds", 1, "--quiet")
    busy_line, rest = output.err.splitlines()
    assert "another process is training 1 run" in busy_line
    assert "1 run left" in rest


@pytest.mark.usefixtures("tiny")
def test_loading_data_is_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    budgets: list[float | None] = []

    def slow(*args: Any, **how: Any) -> plan.RunPlan:
        time.sleep(0.3)
        return plan.RunPlan()

    def run(*args: Any, budget: float | None, **how: Any) -> PoolResult:
        budgets.append(budget)
        return PoolResult()

    monkeypatch.setattr(plan, "make_plan", slow)
    monkeypatch.setattr(runner, "run_plan", run)
    succeed("bench", "run", "tiny.toml", "--budget", "60s", "--quiet")
    assert budgets[0] is not None
    assert 0 < budgets[0] < 59.8


def test_without_its_data_nothing_is_done_and_that_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in (("DATA", tmp_path), ("CACHE", tmp_path / "cache"), ("OFFLINE", 1)):
        monkeypatch.setenv(f"GSAT_{name}", str(value))
    only = ("--only", "method=gsat,backbone=gin,dataset=mutag")
    for more in ((), ("--dry-run",)):
        output = gsat("bench", "run", "table1", *only, "--seeds", 1, "--quiet", *more)
        assert output.code == 2
        assert "mutag is left out: a raw file is missing" in output.err
    some = gsat("bench", "run", "table1", only[0], only[1] + ",dataset=spmotif-0.5", "--dry-run")
    assert some.code == 1  # one of the data sets was left out
    assert "spmotif-0.5 gin gsat" in some.out
    assert "mutag" not in some.out


@pytest.mark.usefixtures("tiny")
def test_failures_are_printed_and_set_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(runs: Any, folder: Path, **how: Any) -> PoolResult:
        for name in runs:
            how["done"](name, "training broke down")
        return PoolResult(failures=dict.fromkeys(runs, "training broke down"))

    monkeypatch.setattr(runner, "train_each", fails)
    output = gsat("bench", "run", "tiny.toml", "--seeds", 1, "--quiet")
    assert output.code == 1
    lines = output.err.splitlines()
    assert len(lines) == 2
    assert all(line.endswith("seed-0 failed: training broke down") for line in lines)
    assert all(line["failed"] for line in read_records("results/runs.jsonl"))
    assert "no run" not in output.out
    assert "failed" in output.out


@pytest.mark.usefixtures("tiny")
def test_a_dry_run_lists_the_missing_runs_and_trains_nothing(tmp_path: Path) -> None:
    lines = succeed("bench", "run", "tiny.toml", "--seeds", 3, "--jobs", 2, "--dry-run").lines
    assert len(lines) == 3
    assert re.fullmatch(r"  3 x houses gin gsat .*epochs=13, about \d+ s each", lines[0])
    assert re.fullmatch(r"6 runs to do, 0 recorded; about \d+ s with --jobs 2", lines[-1])
    on_ray = succeed("bench", "run", "tiny.toml", "--seeds", 3, "--backend", "ray", "--dry-run")
    assert re.fullmatch(r"6 runs to do, 0 recorded; about \d+ s of one CPU", on_ray.lines[-1])
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.toml"]


@pytest.mark.usefixtures("tiny")
def test_studies_are_listed_with_how_much_of_them_was_run(tmp_path: Path) -> None:
    lines = succeed("bench", "list").lines
    assert [line.split()[0] for line in lines] == list(study_names())
    assert lines[0].startswith("table1 ")
    assert "0 of 66" in lines[0]
    (own,) = succeed("bench", "list", "tiny.toml").lines
    assert own.startswith("tiny ")
    assert "0 of 2" in own
    assert len(succeed("bench", "list", "all", "tiny.toml", "table1").lines) == len(lines) + 1


@pytest.mark.parametrize("style", ["text", "html"])
def test_without_records_the_published_numbers_are_shown_in_every_format(
    style: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = gsat("bench", "show", "table1", "--format", style, "--only", "dataset=mutag")
    assert shown.code == 0
    assert "GNNExplainer" in shown.out
    assert "61.98" in shown.out
    assert "67.35" not in shown.out  # of another data set
    hint = shown.out if style == "text" else shown.err
    assert "gsat bench run table1" in hint.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_a_table_is_drawn_as_bars(tmp_path: Path) -> None:
    picture = tmp_path / "table.svg"
    command = ("bench", "show", "table1", "--plot", picture, "--records", tmp_path)
    assert str(picture) in succeed(*command).out
    assert "98.74" not in picture.read_text(encoding="utf-8")  # drawn, not written
    assert "table.doc" in refuse("bench", "show", "table1", "--plot", "table.doc")
    assert "--plot" in refuse("bench", "show", "table1", "table2", "--plot", picture)


def test_studies_make_one_page_and_a_figure_without_runs_is_an_error_line(tmp_path: Path) -> None:
    none = ("--record", tmp_path / "none.jsonl", "--out", tmp_path / "runs")
    output = gsat("bench", "show", "all", "--format", "html", *none)
    assert output.code == 0
    assert output.out.count("<!DOCTYPE html>") == 1
    assert all(f"table{number}" in output.out for number in range(1, 9))
    figures = [line.split(":")[1].strip() for line in output.err.splitlines() if "fig-" in line]
    assert figures == ["fig-examples", "fig-posthoc", "fig-regulariser"]
    assert list(tmp_path.iterdir()) == []


def test_a_figure_keeps_to_the_filter(tmp_path: Path) -> None:
    none = ("--record", tmp_path / "none.jsonl", "--out", tmp_path / "runs")
    only = ("--only", "dataset=mutag")
    output = gsat("bench", "show", "fig-posthoc", "fig-regulariser", *only, *none)
    assert output.code == 2
    (line,) = output.err.splitlines()  # nothing of the other figure is on Mutag
    assert line.startswith("gsat: fig-posthoc: ")


@pytest.mark.parametrize(
    ("command", "offending"),
    [
        ("run table9", "'table9'"),
        ("show all table99", "'table99'"),
        ("show none.toml", "none.toml"),
        ("run table1 --only dataset=x", "'x'"),
        ("run table1 --budget soon", "2h, 90m or 1h30m"),
        ("verify --budget soon", "'soon'"),
        ("run table1 --address auto", "--backend ray"),
        ("verify --record none.jsonl", "none.jsonl"),
        ("show fig-posthoc --format html", "fig-posthoc"),
    ],
)
def test_wrong_values_are_refused_in_one_line(command: str, offending: str) -> None:
    assert offending in refuse("bench", *command.split())


@pytest.mark.parametrize(
    "command",
    ["verify --dry-run", "show table1 --dry-run", "show", "show table1 --format word",
     "run table1 --engine slurm"],
)  # fmt: skip
def test_wrong_options_are_wrong_usage(command: str) -> None:
    outcome = gsat("bench", *command.split())
    assert outcome.code == 2
    assert f"Usage: gsat bench {command.split()[0]}" in outcome.err


def test_claims_are_judged_by_another_command(tmp_path: Path) -> None:
    output = succeed("bench", "show", "claims", "--record", tmp_path / "none.jsonl")
    assert "python -m paper results --page claims" in " ".join(output.out.split())


def test_bench_refuses_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    from gsat.training import process_group

    monkeypatch.setattr(process_group, "process_count", lambda: 2)
    assert "run it without torchrun" in refuse("bench", "run", "table1", "--dry-run")


def test_times() -> None:
    times = {"90s": 90, "2h": 7200, "1h30m": 5400, "0.5d": 43200, "5m": 300}
    assert {text: parse_time(text) for text in times} == times
    for text in ("", "2", "h", "2x", "2h,", "-3m"):
        with pytest.raises(GSATError, match="a time is written like"):
            parse_time(text)


def test_a_recorded_run_is_verified_and_a_changed_one_reported(
    tmp_path: Path, tiny: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = train(tiny.experiments[0].recipe(0), tmp_path / "run")
    record = json.loads(json.dumps(run.record()))
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_text(json.dumps(record) + "\n")
    record["test"]["explanation_auc"] = 0.125
    bad.write_text(json.dumps(record) + "\n")

    def interrupt(*_: object, **how: object) -> None:
        raise Interrupted("stopped; continue with: gsat resume somewhere")

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
    assert "no recorded run" in refuse("bench", "verify", "table1", "--record", good)
    assert gsat("bench", "verify", "tiny.toml", "--record", good).code == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"run", "good.jsonl", "bad.jsonl", "tiny.toml"}


def test_explanations_of_seeds_are_compared_where_their_runs_are(
    tmp_path: Path, tiny: Study
) -> None:
    command = ("bench", "show", "tiny.toml", "--stability")
    refusal = gsat(*command)
    assert refusal.code == 2
    assert "no two finished runs of one recipe in runs/bench to compare" in refusal.err
    place = BenchFolders(tmp_path / "runs" / "bench", tmp_path / "results" / "runs.jsonl")
    for run in make_plan([RunRequest(tiny.experiments[0], 2)], place).to_run:
        train(run.recipe, place.runs / run.name)
    for _ in range(2):
        output = succeed(*command).lines[-1]
        assert re.search(r"epochs=13: rank correlation between 2 seeds -?[01]\.\d{3} \(", output)
    (line,) = read_records(place.stability, needs=())
    assert line["seeds"] == [0, 1]
