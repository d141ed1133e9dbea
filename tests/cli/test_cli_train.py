"""`gsat train`, `gsat resume` and `gsat demo`: what they write and what they say."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cli_harness import SMALL, TINY, Trained, refuse, succeed

import gsat as package

Cut = Callable[[Path], Path]


def result(run: Path) -> dict[str, Any]:
    return json.loads((run / "result.json").read_text(encoding="utf-8"))


def outcome(run: Path) -> dict[str, bytes]:
    """The log, the recipe and the best weights, which interruptions must not change."""
    weights = next((run / "best").glob("*.safetensors"))
    files = [run / "metrics.jsonl", run / "recipe.toml", weights]
    return {file.name: file.read_bytes() for file in files}


def recipe(run: Path) -> dict[str, Any]:
    return tomllib.loads((run / "recipe.toml").read_text(encoding="utf-8"))


# -- a run ----------------------------------------------------------------------------------------


def test_a_run_says_its_test_metrics_and_where_it_is(trained: Trained) -> None:
    test = result(trained.path)["test"]
    *metrics, last = trained.outcome.lines
    assert [line.split() for line in metrics] == [
        ["test", "accuracy", f"{test['accuracy']:.4f}"],
        ["test", "explanation", "AUC", f"{test['explanation_auc']:.4f}"],
        ["test", "precision@5", f"{test['precision_at_5']:.4f}"],
    ]
    assert last.startswith("last epoch 1 (too few epochs")
    assert last.endswith(f"· {trained.path}")


def test_a_run_that_selects_the_last_epoch_has_no_note(tmp_path: Path) -> None:
    output = succeed("train", *TINY, "--set", "selection=last", "--out", tmp_path / "run")
    assert output.lines[-1].startswith("last epoch 0 · ")


def test_the_result_is_printed_as_json(tmp_path: Path) -> None:
    output = succeed("train", *TINY, "--out", tmp_path / "run", "--json")
    assert json.loads(output.out) == result(tmp_path / "run")


def test_runs_are_numbered_where_no_folder_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for seed in (0, 0, 3):
        succeed("train", *TINY, "--seed", seed)
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
        "ba2motifs-gin-gsat-seed-0", "ba2motifs-gin-gsat-seed-0-2", "ba2motifs-gin-gsat-seed-3",
    ]  # fmt: skip


# -- settings -------------------------------------------------------------------------------------


def test_options_go_over_the_file_over_the_shipped_recipe(tmp_path: Path) -> None:
    file, run = tmp_path / "mine.toml", tmp_path / "run"
    file.write_text("seed = 5\n[data]\ngraphs = 20\n[training]\nepochs = 1\nlr = 0.01\n")
    options = ("--set", "lr=0.02", "--set", "method.gsat.r_final=0.8", "--seed", 6)
    succeed("train", "ba2motifs", "--recipe", file, "--quiet", *options, "--out", run)
    made = recipe(run)
    assert (made["seed"], made["data"]["graphs"]) == (6, 20)
    assert made["training"] == {**made["training"], "epochs": 1, "lr": 0.02, "batch_size": 128}
    assert made["method"]["gsat"]["r_final"] == 0.8


def test_the_recipe_of_a_run_repeats_it(trained: Trained, tmp_path: Path) -> None:
    again = ("train", "ba2motifs", "--recipe", trained.path / "recipe.toml")
    succeed(*again, "--out", tmp_path / "again")
    assert outcome(tmp_path / "again") == outcome(trained.path)


def test_threads_are_recorded_and_kept_by_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    succeed("train", *TINY, "--threads", 2, "--out", run)
    assert json.loads((run / "environment.json").read_text())["threads"] == 2
    counts: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", counts.append)
    for options, count in (([], 2), (["--threads", 1], 1)):
        counts.clear()
        (run / "result.json").unlink()
        succeed("resume", run, *options)
        assert counts[0] == count  # later, while it trains, kernels have them to themselves


# -- records and seeds ----------------------------------------------------------------------------


def test_a_run_is_recorded_once(trained: Trained, tmp_path: Path) -> None:
    book = tmp_path / "results" / "runs.jsonl"
    for out in ("a", "b"):
        succeed("train", *TINY, "--out", tmp_path / out, "--record", book)
    lines = [json.loads(line) for line in book.open()]
    assert len(lines) == 1
    held = result(tmp_path / "a")
    assert {name: lines[0][name] for name in held} == held
    assert lines[0]["versions"]["torch-gsat"] == package.__version__
    succeed("train", *TINY, "--seed", 1, "--out", tmp_path / "c", "--record", book)
    assert [json.loads(line)["seed"] for line in book.open()] == [0, 1]


@pytest.mark.medium
def test_seeds_side_by_side(tmp_path: Path) -> None:
    book, out = tmp_path / "runs.jsonl", tmp_path / "seeds"
    command = ("train", *TINY, "--seeds", 2, "--jobs", 2, "--record", book, "--out", out)
    output = succeed(*command)
    assert sorted(path.name for path in out.iterdir()) == ["seed-0", "seed-1"]
    values = [result(out / f"seed-{k}")["test"]["accuracy"] for k in (0, 1)]
    assert output.lines[0].split() == [
        "accuracy", f"{sum(values) / 2:.4f}", "±", f"{abs(values[0] - values[1]) / 2:.4f}"
    ]  # fmt: skip
    assert "seeds 0 to 1" in output.lines[-1]
    assert output.lines[-1].endswith(str(out))
    assert sorted(json.loads(line)["seed"] for line in book.open()) == [0, 1]
    before = {file: file.stat().st_mtime_ns for file in out.rglob("*.safetensors")}
    # Finished runs are neither trained nor recorded again.
    again = succeed(*command, "--json")
    assert [run["seed"] for run in json.loads(again.out)] == [0, 1]
    assert len(book.read_text().splitlines()) == 2
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert "seed-0" in refuse(*command, "--set", "lr=0.5")


@pytest.mark.parametrize(
    "extra",
    [
        ("--seeds", 2, "--seed", 5),
        ("--seeds", 2, "--set", "seed=5"),
        ("--seeds", 2, "--threads", 2),
        ("--seeds", 2, "--device", "cuda"),
        ("--jobs", 2),
    ],
)
def test_options_that_contradict_each_other(extra: tuple[object, ...], tmp_path: Path) -> None:
    assert "--seeds" in refuse("train", *TINY, *extra, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


# -- resume ---------------------------------------------------------------------------------------


def test_a_finished_run_is_only_shown(trained: Trained) -> None:
    before = {file: file.stat().st_mtime_ns for file in trained.path.rglob("*")}
    assert succeed("resume", trained.path).out == trained.outcome.out
    assert json.loads(succeed("resume", trained.path, "--json").out) == result(trained.path)
    assert {file: file.stat().st_mtime_ns for file in trained.path.rglob("*")} == before


def test_resume_ends_where_the_whole_run_ends(cut: Cut, whole: Path, tmp_path: Path) -> None:
    run = cut(tmp_path / "run")
    assert not (run / "result.json").exists()
    for command in ("evaluate", "predict"):
        assert f"gsat resume {run}" in refuse(command, run)
    assert f"gsat resume {run}" in refuse("train", *SMALL, "--out", run)
    output = succeed("resume", run)
    assert output.lines[-1].endswith(f"· {run}")
    assert outcome(run) == outcome(whole)
    assert result(run)["test"] == result(whole)["test"]


# -- the demo -------------------------------------------------------------------------------------


@pytest.mark.medium
def test_demo_ends_with_numbers_and_a_picture(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    output = succeed("demo", "--epochs", 1, "--out", out, "--quiet")
    assert any(line.startswith("test accuracy") for line in output.lines)
    assert any(line.startswith("test explanation AUC") for line in output.lines)
    assert output.lines[-1].endswith(str(out / "explained.png"))
    assert (out / "explained.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "run" / "result.json").is_file()
