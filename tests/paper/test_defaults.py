"""Default settings, compared by known explanations: training, choice, records and page."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paper.defaults import (
    GRAPHS,
    GROUPS,
    Candidate,
    Explaining,
    choose,
    complete_candidates,
    default_recipe,
    mean_auc,
    measure,
    measured_sets,
    read_defaults,
    run_folder,
    run_study,
    seed_values,
)
from paper.defaults_page import defaults_page
from paper.pages import NOTHING_RECORDED

import gsat
from gsat.core.errors import GSATError
from paper import defaults

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "results" / "defaults.jsonl"
BEFORE = GRAPHS.before
EDGES = "edges, r 0.7"


def fake(
    data: str,
    valid: dict[Candidate, float],
    test: float = 0.5,
    predicted: dict[str, float] | None = None,
    trained: tuple[str, ...] = tuple(GRAPHS.trained),
) -> list[dict[str, Any]]:
    """Records of one seed; candidates that are not named have 0.5 on validation graphs and a
    prediction metric of 0.9; the ensemble explains 0.05 better on test graphs."""

    def measured(way: str, gain: float = 0.0) -> dict[str, Any]:
        right = (predicted or {}).get(way, 0.9)
        return {
            "prediction": {"valid": right, "test": right},
            "explained": {
                name: {"valid": valid.get(Candidate(way, name), 0.5), "test": test + gain}
                for name in GRAPHS.explained
            },
        }

    return [
        {
            "group": "graphs",
            "data": data,
            "trained": way,
            "seeds": [0],
            "metric": "accuracy",
            "models": [measured(way)],
            "ensemble": measured(way, 0.05),
            "seconds": 1.0,
        }
        for way in trained
    ]


def test_the_best_mean_over_data_sets_is_chosen_on_validation_graphs() -> None:
    steady, wild = GRAPHS.candidates[5], GRAPHS.candidates[7]
    records = [
        *fake("houses", {steady: 0.8, wild: 0.99}, test=0.1),
        *fake("mutag", {steady: 0.8, wild: 0.5}, test=0.9),
    ]
    assert choose(records, GRAPHS, ["houses", "mutag"]) == steady
    assert choose(records, GRAPHS, ["houses"]) == wild
    assert mean_auc(records, wild, "houses", "valid") == 0.99
    assert mean_auc(records, wild, "houses", "test") == 0.1
    assert mean_auc(records, wild, "houses", "test", ensemble=True) == pytest.approx(0.15)
    assert mean_auc(records, wild, "rbgv", "test") is None


def test_a_data_set_does_not_influence_its_own_choice() -> None:
    own = GRAPHS.candidates[9]
    records = [
        *fake("houses", {own: 1.0}, test=0.25),
        *fake("mutag", {BEFORE: 0.9}, test=0.75),
        *fake("rbgv", {BEFORE: 0.9}, test=0.5),
    ]
    assert measured_sets(records, GRAPHS) == ["houses", "mutag", "rbgv"]
    row = next(line for line in defaults_page(records).splitlines() if "| houses |" in line)
    assert str(BEFORE) in row
    assert str(own) not in row
    assert re.findall(r"\d+\.\d", row)[:1] == ["25.0"]
    assert defaults_page([]) == NOTHING_RECORDED


def test_a_candidate_that_predicts_worse_is_not_chosen() -> None:
    keen, fair = Candidate("nodes, r 0.5", "best epoch"), Candidate("nodes, r 0.7", "best epoch")
    best = {keen: 0.99, fair: 0.8}
    worse = {"nodes, r 0.5": 0.87, "nodes, r 0.7": 0.89}  # the former default: 0.9
    assert choose(fake("houses", best), GRAPHS, ["houses"]) == keen
    records = fake("houses", best, predicted=worse)
    assert choose(records, GRAPHS, ["houses"]) == fair
    assert choose(records, GRAPHS, ["houses"], tolerance=1.0) == keen
    # The mean over data sets counts.
    better = dict.fromkeys(GRAPHS.trained, 1.0) | worse | {"nodes, r 0.5": 1.02}
    both = [*records, *fake("mutag", best, predicted=better)]
    assert choose(both, GRAPHS, ["houses", "mutag"]) == keen


def test_candidates_count_once_they_are_measured_on_every_set() -> None:
    records = [*fake("houses", {}), *fake("mutag", {}, trained=(EDGES, "nodes, r 0.7"))]
    found = complete_candidates(records, GRAPHS, measured_sets(records, GRAPHS))
    assert {candidate.trained for candidate in found} == {EDGES, "nodes, r 0.7"}
    records = [*fake("houses", {}), *fake("mutag", {}, trained=("nodes, r 0.7",))]
    assert measured_sets(records, GRAPHS) == ["houses"]  # the former default is missing


def test_recipes_of_the_study_do_not_follow_the_shipped_recipes() -> None:
    assert gsat.make_recipe("ba2motifs", backbone="gin").settings.r_final == 0.5
    made = default_recipe(GRAPHS, "ba2motifs", "nodes, r 0.7", 3)
    assert (made.seed, made.backbone.name, made.training.snapshots) == (3, "gin", 10)
    assert (made.settings.attention, made.settings.r_final) == ("node", 0.7)
    for group in GROUPS.values():
        first_data, first_trained = next(iter(group.data)), next(iter(group.trained))
        pairs = [(data, first_trained) for data in group.data]
        pairs += [(first_data, trained) for trained in group.trained]
        for data, trained in pairs:
            recipe = default_recipe(group, data, trained, 0)
            tables = recipe.tables()
            flat = {**tables["backbone"], **tables["training"], **tables["method"]["gsat"]}
            wanted = {**group.common, **group.data[data], **group.trained[trained]}
            own = {key: value for key, value in wanted.items() if key in flat and key != "name"}
            assert {key: flat[key] for key in own} == own


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = replace(
        GRAPHS,
        data={"houses": {"graphs": 40, "epochs": 13, "r_interval": 1, "hidden": 8}},
        trained={EDGES: GRAPHS.trained[EDGES]},
        explained={
            "best epoch": Explaining(),
            "refinement pass": Explaining(passes=1),
            "snapshots": Explaining("last", 1),
            "spread": Explaining("spread", 1, context=0.5),
        },
        snapshots=2,
    )
    monkeypatch.setattr(defaults, "GROUPS", {"graphs": tiny})
    monkeypatch.setattr(defaults, "SEEDS", (0, 1))


@pytest.mark.usefixtures("small")
def test_models_and_their_ensemble_are_explained_in_every_way(tmp_path: Path) -> None:
    found = measure(["graphs", "houses", EDGES, str(tmp_path)])
    paths = [run_folder(tmp_path, "graphs", "houses", EDGES, seed) for seed in (0, 1)]
    runs = [gsat.open_run(path) for path in (*paths, paths)]
    measured = [*found["models"], found["ensemble"]]
    assert found["seeds"] == [run.recipe.seed for run in runs[:2]] == [0, 1]
    assert found["cpu_seconds"] > 0
    for run, one in zip(runs[:2], measured, strict=False):
        kept = [part.state_dict() for part in run.model.snapshots]
        values = [line["valid"]["explanation_auc"] for line in run.log][6:]
        assert one["over_epochs"] == pytest.approx([np.mean(values), np.std(values)])
        ways = {"best epoch": ([], 0), "refinement pass": ([], 1), "snapshots": (kept[-1:], 0)}
        for way, (snapshots, passes) in ways.items():
            run.model.take_snapshots(snapshots)
            again = run.refined(passes).evaluate(split="test")
            assert one["explained"][way]["test"] == pytest.approx(again["explanation_auc"])
            assert one["prediction"]["test"] == again["accuracy"]
    assert seed_values([found], BEFORE, "houses", "test") == [
        one["explained"]["best epoch"]["test"] for one in found["models"]
    ]


@pytest.mark.usefixtures("small")
def test_records_are_not_run_again_and_failures_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, said = tmp_path / "defaults.jsonl", []
    line = fake("houses", {})[0]

    def outcome(status: str, value: Any) -> Any:
        return lambda self, jobs, on_done: [
            on_done(name, defaults.Outcome(status, value)) for name in jobs
        ]

    monkeypatch.setattr(defaults.WorkerPool, "run", outcome("done", line))
    assert run_study(tmp_path, record, data=["mutag"]) == 0
    assert run_study(tmp_path, record) == 1
    assert read_defaults(record) == [line]
    assert run_study(tmp_path, record) == 0
    record.unlink()
    monkeypatch.setattr(defaults.WorkerPool, "run", outcome("failed", "no file"))
    assert run_study(tmp_path, record, warn=said.append) == 0
    assert len(said) == 1
    assert "no file" in said[0]
    record.write_text('{"data": 1}\n', "utf-8")
    with pytest.raises(GSATError, match="line 1"):
        read_defaults(record)
