"""Recorded runs are indexed by recipe, and failures are kept."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from gsat.core.errors import DiskError, RunError
from gsat.models import GIN, PNA
from gsat.study.plan import RunRequest, make_plan
from gsat.study.records import BenchFolders, Records, is_current, read_curves, record_curves
from gsat.study.run import run_plan
from gsat.study.study import PREDICTION, Experiment
from gsat.training.recipe import make_recipe
from gsat.training.results import IDENTITY, read_records
from gsat.training.run_directory import RunDirectory
from study_harness import GSAT, failure, line

MUTAG = Experiment("mutag", "gsat")


def test_runs_are_found_by_seed() -> None:
    other = Experiment("mutag", "gsat", settings=(("r_final", 0.6),))
    records = Records([line(MUTAG, 1), line(other, 0), line(MUTAG, 0)])
    assert records.of(MUTAG).seeds == [0, 1]
    assert records.of(other).seeds == [0]
    assert records.of(Experiment("mutag", "dir")).seeds == []
    assert {recipe for recipe, _ in records.items()} == {MUTAG.hash, other.hash}
    assert [recipe for recipe, _ in records.only({other.hash}).items()] == [other.hash]


def test_records_of_other_versions_or_of_several_processes_are_left_out() -> None:
    stale = line(MUTAG, 0, results_version=GIN.results_version - 1)
    shared = line(MUTAG, 1, processes=2)
    assert Records([stale, shared]).of(MUTAG).seeds == []
    assert Records([line(MUTAG, 0, processes=1)]).of(MUTAG).seeds == [0]


def test_a_new_version_of_one_backbone_leaves_the_records_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pna = Experiment("mutag", "gsat", "pna")
    lines = [line(MUTAG, 0), line(pna, 0), line(pna, 1, results_version=PNA.results_version + 1)]
    assert [Records(lines).of(run).seeds for run in (MUTAG, pna)] == [[0], [0]]
    monkeypatch.setattr(PNA, "results_version", PNA.results_version + 1)
    assert [Records(lines).of(run).seeds for run in (MUTAG, pna)] == [[0], [1]]
    assert not is_current({**lines[0], "backbone": "of a plug-in that is not installed"})


def test_where_graphs_changed_only_runs_on_the_latest_count() -> None:
    other = Experiment("mutag", "dir")
    old = [line(MUTAG, seed, data_hash="old") for seed in (0, 1, 2)]
    new = line(MUTAG, 0, data_hash="new")
    assert Records([*old, new]).of(MUTAG).seeds == [0]
    assert Records([new, *old]).of(MUTAG).data_hash == "old"
    # Another method on the new graphs makes the old runs stale: they are not to be compared.
    assert Records([*old, line(other, 0, data_hash="new")]).of(MUTAG).seeds == []
    # Other options are other graphs, another split is none.
    held_out = Experiment("mutag", "gsat", settings=(("test", "held-out"),))
    assert Records([*old, line(held_out, 0, data_hash="new")]).of(MUTAG).seeds == [0, 1, 2]
    split = Experiment("mutag", "gsat", settings=(("split_seed", 5),))
    assert Records([*old, line(split, 0, data_hash="new")]).of(MUTAG).seeds == []


def test_records_of_other_files_match_by_recipe_graphs_and_version() -> None:
    records = Records([line(MUTAG, 0, data_hash="old"), line(MUTAG, 0, data_hash="new")])
    assert records.matches(line(MUTAG, 5, data_hash="new"))
    for other in (
        line(MUTAG, 0, data_hash="old"),
        line(MUTAG, 0, data_hash="new", results_version=GIN.results_version - 1),
        line(Experiment("mutag", "dir"), 0, data_hash="new"),
    ):
        assert not records.matches(other)


def test_failures_are_kept_until_the_same_seed_succeeds() -> None:
    runs = Records([line(MUTAG, 0), failure(MUTAG, 1)]).of(MUTAG)
    assert (runs.seeds, runs.has_gap) == ([0, 1], False)
    assert {seed: run["failed"] for seed, run in runs.failed.items()} == {1: "it broke"}
    assert list(runs.values("accuracy")) == [0]
    runs = Records([failure(MUTAG, 0), line(MUTAG, 0), failure(MUTAG, 1)]).of(MUTAG)
    assert (sorted(runs.done), sorted(runs.failed)) == ([0], [1])
    failed = failure(MUTAG, 0, data_hash="new")
    runs = Records([line(MUTAG, 0, data_hash="old"), failed]).of(MUTAG)
    assert (list(runs.done), list(runs.failed), runs.data_hash) == ([], [0], "new")


@pytest.mark.parametrize(("seeds", "gap"), [((0, 2), True), ((1,), True), ((1, 0), False)])
def test_gaps_between_seeds_are_detected(seeds: tuple[int, ...], gap: bool) -> None:
    assert Records([line(MUTAG, seed) for seed in seeds]).of(MUTAG).has_gap is gap


def test_prediction_is_the_metric_of_the_task() -> None:
    values = [{"accuracy": 0.1}, {"roc_auc": 0.2}, {"r2": 0.3, "mae": 7.0}, {"accuracy": None}]
    runs = Records([line(MUTAG, i, test=test) for i, test in enumerate(values)]).of(MUTAG)
    assert runs.values(PREDICTION) == {0: 0.1, 1: 0.2, 2: 0.3, 3: None}
    assert runs.values("mae") == {0: None, 1: None, 2: 7.0, 3: None}


def test_a_file_is_read_and_a_missing_one_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    assert Records.read(file).of(MUTAG).seeds == []
    file.write_text(json.dumps(line(MUTAG, 0)) + "\n", encoding="utf-8")
    assert Records.read(file).of(MUTAG).seeds == [0]


# -- folders ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("trained")
def test_finished_runs_are_those_on_the_requested_graphs(folders: BenchFolders) -> None:
    run_plan(make_plan([RunRequest(GSAT, 2)], folders), folders)
    (folder,) = folders.runs.glob("houses-*")
    now = folders.finished(GSAT)
    graphs = Records.read(folders.record).of(GSAT).data_hash
    stale = folder.with_name(folder.name.replace(graphs, "0" * 16))
    shutil.copytree(folder, stale)
    shutil.copytree(stale / "seed-0", stale / "seed-2")
    shutil.copytree(folder / "seed-0", folder / "seed-0.bak")
    os.utime(stale, (1, 1))
    assert folders.finished(GSAT) == folders.finished(GSAT, graphs) == now
    assert sorted(folders.finished(GSAT, "0" * 16)) == [0, 1, 2]
    assert folders.finished(GSAT, "f" * 16) == {}
    # The graphs of the last runs count, even without seed 0.
    shutil.rmtree(stale / "seed-0")
    assert sorted(folders.finished(GSAT)) == [1, 2]


def test_a_folder_that_can_not_be_written_is_refused_before_training(tmp_path: Path) -> None:
    BenchFolders(tmp_path / "runs", tmp_path / "results" / "runs.jsonl").check()
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == []
    (tmp_path / "folder").mkdir()
    for folders, message in (
        (BenchFolders(Path("/proc/none"), tmp_path / "runs.jsonl"), "/proc/none: "),
        (BenchFolders(tmp_path, Path("/proc/none/runs.jsonl")), "/proc/none"),
        (BenchFolders(tmp_path, tmp_path / "folder"), "folder: Is a directory"),
    ):
        with pytest.raises(DiskError, match=f"can't write to .*{message}"):
            folders.check()


# -- curves -------------------------------------------------------------------------------------


def epoch(phase: str, loss: float, auc: float | None, **train: Any) -> dict[str, Any]:
    return {
        "phase": phase,
        "epoch": 0,
        "train": {"loss": loss, **train},
        "valid": {"loss": 9.0, "explanation_auc": auc},
        "selected": False,
    }


def finished(path: Path, lines: list[dict[str, Any]], method: str = "gsat", seed: int = 0) -> Path:
    """A run directory with this log."""
    recipe = make_recipe("ba2motifs", method=method, seed=seed)
    run = RunDirectory.create(path, recipe)
    for logged in lines:
        run.log(logged)
    more = {"best_epoch": 0, "selected": "best", "valid": {}, "seconds": 1.0}
    result = line(Experiment("ba2motifs", method), seed, **more)
    run.result_path.write_text(json.dumps(result))
    return path


def test_curves_of_a_run_are_one_record(tmp_path: Path) -> None:
    lines = [
        epoch("pretrain", 0.123456789, None),
        epoch("pretrain", 12345.6789, None),
        epoch("explain", 2.0, 0.98765432, explanation_auc=0.5),
        epoch("explain", 1e-9 / 3, None, explanation_auc=0.25),
    ]
    curves = read_curves(finished(tmp_path / "run", lines, "graphmask", seed=3))
    identity = [curves[key] for key in ("dataset", "method", "backbone", "seed")]
    assert identity == ["ba2motifs", "graphmask", "gin", 3]
    assert set(IDENTITY) <= set(curves)
    assert curves["phases"] == {
        "pretrain": {"loss": [0.12346, 12346.0]},
        "explain": {
            "loss": [2.0, 3.3333e-10],
            "train_auc": [0.5, 0.25],
            "valid_auc": [0.98765, None],
        },
    }


def test_the_loss_of_gsat_is_the_total_it_minimises(tmp_path: Path) -> None:
    lines = [epoch("train", 0.5, 0.9, info=0.25, total=0.75)]
    assert read_curves(finished(tmp_path / "run", lines))["phases"]["train"]["loss"] == [0.75]


def test_a_run_is_written_once(tmp_path: Path) -> None:
    file = tmp_path / "curves.jsonl"
    runs = [finished(tmp_path / f"{s}", [epoch("train", 1, 0.5)], seed=s) for s in range(2)]
    assert [record_curves(file, run) for run in (runs[0], runs[0], runs[1])] == [True, False, True]
    assert [line["seed"] for line in read_records(file)] == [0, 1]


def test_runs_without_curves_are_errors(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a run"):
        read_curves(tmp_path)
    run = finished(tmp_path / "run", [epoch("train", 1, 0.5)])
    (run / "metrics.jsonl").write_text("{")
    with pytest.raises(RunError, match="train the run again"):
        read_curves(run)
    (run / "result.json").unlink()
    with pytest.raises(RunError, match="is not finished"):
        read_curves(run)
