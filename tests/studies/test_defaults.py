"""Default settings, compared by known explanations: what is trained, chosen and recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gsat
from gsat.errors import GSATError
from gsat.studies import defaults
from gsat.studies.defaults import (
    BEFORE,
    CANDIDATES,
    DATA,
    EXPLAINED,
    TRAINED,
    Candidate,
    choose,
    complete_sets,
    default_recipe,
    mean_auc,
    measure,
    read_defaults,
    run_study,
)
from gsat.studies.defaults_page import defaults_page
from gsat.studies.pages import BEGIN, END, NOTHING_RECORDED

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "results" / "defaults.jsonl"


def fake(
    data: str,
    valid: dict[Candidate, float],
    test: float = 0.5,
    predicted: dict[str, float] | None = None,
) -> list[dict[str, Any]]:
    """Records of one seed; candidates that are not named have 0.5 on validation graphs, and
    predict 0.9 of them right; the ensemble explains 0.05 better on test graphs."""

    def measured(trained: str, gain: float = 0.0) -> dict[str, Any]:
        right = (predicted or {}).get(trained, 0.9)
        return {
            "prediction": {"valid": right, "test": right},
            "explained": {
                way: {"valid": valid.get(Candidate(trained, way), 0.5), "test": test + gain}
                for way in EXPLAINED
            },
        }

    return [
        {
            "data": data,
            "trained": trained,
            "seeds": [0],
            "metric": "accuracy",
            "models": [measured(trained)],
            "ensemble": measured(trained, 0.05),
            "seconds": 1.0,
        }
        for trained in TRAINED
    ]


def test_the_best_mean_over_data_sets_is_chosen_on_validation_graphs() -> None:
    steady, wild = CANDIDATES[5], CANDIDATES[7]
    records = [
        *fake("houses", {steady: 0.8, wild: 0.99}, test=0.1),
        *fake("mutag", {steady: 0.8, wild: 0.5}, test=0.9),
    ]
    assert choose(records, ["houses", "mutag"]) == steady
    assert choose(records, ["houses"]) == wild
    assert mean_auc(records, wild, "houses", "valid") == 0.99
    assert mean_auc(records, wild, "houses", "test") == 0.1
    assert mean_auc(records, wild, "rbgv", "test") is None


def test_what_is_left_out_has_no_say_in_its_own_choice() -> None:
    own = CANDIDATES[9]
    records = [
        *fake("houses", {own: 1.0}, test=0.25),
        *fake("mutag", {BEFORE: 0.9}, test=0.75),
        *fake("rbgv", {BEFORE: 0.9}, test=0.5),
    ]
    assert complete_sets(records) == ["houses", "mutag", "rbgv"]
    page = defaults_page(records)
    assert f"| houses | 25.0 | {BEFORE} | 25.0 | 90.0, 90.0 (accuracy) |" in page
    assert "| **mean** | **50.0** | | **50.0** | |" in page
    assert defaults_page([]) == NOTHING_RECORDED
    assert defaults_page(records[:3]).startswith(
        "3 ways to train have been recorded; a comparison needs"
    )


def test_what_predicts_worse_than_before_is_not_chosen() -> None:
    keen, fair = Candidate("nodes, r 0.5", "best epoch"), Candidate("nodes, r 0.7", "best epoch")
    best = {keen: 0.99, fair: 0.8}
    worse = {"nodes, r 0.5": 0.87, "nodes, r 0.7": 0.89}  # the default as it was: 0.9
    assert choose(fake("houses", best), ["houses"]) == keen
    assert choose(fake("houses", best, predicted=worse), ["houses"]) == fair
    assert choose(fake("houses", best, predicted=worse), ["houses"], tolerance=1.0) == keen
    # The mean over data sets counts.
    both = [
        *fake("houses", best, predicted=worse),
        *fake(
            "mutag", best, predicted=dict.fromkeys(TRAINED, 1.0) | worse | {"nodes, r 0.5": 1.02}
        ),
    ]
    assert choose(both, ["houses", "mutag"]) == keen


def test_the_page_says_what_would_be_chosen_for_explanations_alone() -> None:
    keen = Candidate("nodes, r 0.5", "best epoch")
    records = [
        fake(data, {keen: 0.9}, predicted={"nodes, r 0.5": 0.6}) for data in ("houses", "rbgv")
    ]
    page = defaults_page([*records[0], *records[1]])
    assert (
        f"If predictions did not count, it would be *{keen}*: its mean explanation AUC is 50.0, "
        "and its mean prediction metric 60.0 in place of 90.0."
    ) in page
    assert "If predictions" not in defaults_page([*fake("houses", {}), *fake("mutag", {})])


def test_the_page_says_what_an_ensemble_adds() -> None:
    page = defaults_page([*fake("houses", {}, test=0.25), *fake("mutag", {}, test=0.75)])
    assert "have a mean explanation AUC of 50.0 each, and of 55.0 as an ensemble" in page


def test_a_set_on_which_a_candidate_is_missing_does_not_count() -> None:
    records = [*fake("houses", {}), *fake("mutag", {})[1:]]
    assert complete_sets(records) == ["houses"]


def test_the_default_recipe_replaces_that_of_the_data_set() -> None:
    own = gsat.make_recipe("ba2motifs", backbone="gin").tables()["method"]["gsat"]
    assert own["r_final"] == 0.5
    made = default_recipe("ba2motifs", "nodes, r 0.7", 3)
    assert (made.seed, made.backbone.name, made.training.snapshots) == (3, "gin", 10)
    settings = made.tables()["method"]["gsat"]
    assert (settings["attention"], settings["r_final"]) == ("node", 0.7)
    assert default_recipe("spmotif-0.5", "nodes, r 0.7", 0).training.lr == 1e-3
    # What is neither of the candidate nor of the study is the same on all data sets.
    free = {"attention", "r_final", "r_interval", "info_coef", "batch_norm"}
    first = default_recipe("ba2motifs", "edges, r 0.7", 0).tables()
    for data in DATA:
        for trained in TRAINED:
            tables = default_recipe(data, trained, 0).tables()
            assert tables["backbone"] | {"layers": 2} == first["backbone"]
            assert tables["backbone"]["layers"] == TRAINED[trained].get("layers", 2)
            own = tables["method"]["gsat"]
            assert own["info_coef"] == TRAINED[trained].get("info_coef", 1.0)
            assert own["batch_norm"] == TRAINED[trained].get("batch_norm")
            assert {k: v for k, v in own.items() if k not in free} == {
                k: v for k, v in first["method"]["gsat"].items() if k not in free
            }


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        defaults, "DATA", {"houses": {"graphs": 40, "epochs": 13, "r_interval": 1, "hidden": 8}}
    )
    monkeypatch.setattr(defaults, "TRAINED", {"edges, r 0.7": TRAINED["edges, r 0.7"]})


@pytest.mark.usefixtures("small")
def test_models_and_their_ensemble_are_explained_in_every_way(tmp_path: Path) -> None:
    found = measure(["houses", "edges, r 0.7", str(tmp_path)])
    paths = sorted(tmp_path.iterdir())
    runs = [gsat.open_run(path) for path in (*paths, paths)]
    measured = [*found["models"], found["ensemble"]]
    assert found["seeds"] == [run.recipe.seed for run in runs[:2]] == [0, 1]
    for run, one in zip(runs, measured, strict=True):
        for way, looks in {"snapshots": 0, "snapshots, second look": 1}.items():
            again = run.refined(looks).evaluate(split="test")
            assert one["explained"][way]["test"] == pytest.approx(again["explanation_auc"])
            assert one["prediction"]["test"] == again["accuracy"]
    for run, one in zip(runs[:2], measured, strict=False):
        run.model.take_snapshots([])
        again = run.evaluate(split="test")["explanation_auc"]
        assert one["explained"]["best epoch"]["test"] == again
        assert len({values["test"] for values in one["explained"].values()}) == len(EXPLAINED)
    assert (
        mean_auc([found], BEFORE, "houses", "test", ensemble=True)
        == (found["ensemble"]["explained"]["best epoch"]["test"])
    )


@pytest.mark.usefixtures("small")
def test_what_is_recorded_is_not_run_again_and_what_fails_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, said = tmp_path / "defaults.jsonl", []
    line = fake("houses", {})[0]
    monkeypatch.setattr(
        defaults.WorkerPool,
        "run",
        lambda self, jobs, on_done: [
            on_done(name, defaults.Outcome("done", line)) for name in jobs
        ],
    )
    assert run_study(tmp_path, record) == 1
    assert read_defaults(record) == [line]
    assert run_study(tmp_path, record) == 0
    monkeypatch.setattr(defaults, "TRAINED", dict(list(TRAINED.items())[:2]))
    monkeypatch.setattr(
        defaults.WorkerPool,
        "run",
        lambda self, jobs, on_done: [
            on_done(name, defaults.Outcome("failed", "no file")) for name in jobs
        ],
    )
    assert run_study(tmp_path, record, warn=said.append) == 0
    assert said == ["houses (edges, r 0.5) is left out: no file"]
    record.write_text('{"data": 1}\n', "utf-8")
    with pytest.raises(GSATError, match="line 1"):
        read_defaults(record)


# -- what is recorded ------------------------------------------------------------------------------


def test_the_page_is_written_from_the_record() -> None:
    written = (ROOT / "docs" / "defaults.md").read_text("utf-8")
    between = written[written.index(BEGIN) + len(BEGIN) : written.index(END)]
    assert between.strip() == defaults_page(read_defaults(RECORDED)).strip()
