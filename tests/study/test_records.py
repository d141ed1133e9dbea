"""Recorded runs are found by what was run, and nothing that went wrong is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gsat.models import GIN, PNA
from gsat.study.records import Records, is_current
from gsat.study.study import PREDICTION, Experiment
from study_harness import failure, line

MUTAG = Experiment("mutag", "gsat")


def test_runs_are_found_by_seed() -> None:
    other = Experiment("mutag", "gsat", settings=(("r_final", 0.6),))
    records = Records([line(MUTAG, 1), line(other, 0), line(MUTAG, 0)])
    assert records.of(MUTAG).seeds == [0, 1]
    assert records.of(other).seeds == [0]
    assert records.of(Experiment("mutag", "dir")).seeds == []
    assert {recipe for recipe, _ in records.items()} == {MUTAG.hash, other.hash}


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
    for stranger in (
        line(MUTAG, 0, data_hash="old"),
        line(MUTAG, 0, data_hash="new", results_version=GIN.results_version - 1),
        line(Experiment("mutag", "dir"), 0, data_hash="new"),
    ):
        assert not records.matches(stranger)


def test_a_failure_is_a_seed_that_was_tried() -> None:
    runs = Records([line(MUTAG, 0), failure(MUTAG, 1)]).of(MUTAG)
    assert runs.seeds == [0, 1]
    assert not runs.has_gap
    assert {seed: run["failed"] for seed, run in runs.failed.items()} == {1: "it broke"}
    assert list(runs.values("accuracy")) == [0]


def test_a_success_replaces_an_earlier_failure() -> None:
    runs = Records([failure(MUTAG, 0), line(MUTAG, 0), failure(MUTAG, 1)]).of(MUTAG)
    assert (sorted(runs.done), sorted(runs.failed)) == ([0], [1])


def test_a_failure_belongs_to_its_graphs() -> None:
    failed = failure(MUTAG, 0, data_hash="new")
    runs = Records([line(MUTAG, 0, data_hash="old"), failed]).of(MUTAG)
    assert (list(runs.done), list(runs.failed), runs.data_hash) == ([], [0], "new")


def test_gaps_are_seen() -> None:
    assert Records([line(MUTAG, 0), line(MUTAG, 2)]).of(MUTAG).has_gap
    assert Records([line(MUTAG, 1)]).of(MUTAG).has_gap
    assert not Records([line(MUTAG, 1), line(MUTAG, 0)]).of(MUTAG).has_gap


def test_prediction_is_the_metric_of_the_task() -> None:
    values = [{"accuracy": 0.1}, {"roc_auc": 0.2}, {"r2": 0.3, "mae": 7.0}, {"accuracy": None}]
    runs = Records([line(MUTAG, i, test=test) for i, test in enumerate(values)]).of(MUTAG)
    assert runs.values(PREDICTION) == {0: 0.1, 1: 0.2, 2: 0.3, 3: None}
    assert runs.values("mae") == {0: None, 1: None, 2: 7.0, 3: None}


def test_a_file_is_read_and_an_absent_one_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    assert Records.read(file).of(MUTAG).seeds == []
    file.write_text(json.dumps(line(MUTAG, 0)) + "\n", encoding="utf-8")
    assert Records.read(file).of(MUTAG).seeds == [0]
