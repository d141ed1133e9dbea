"""Claims are judged by the rule beside them, from made-up runs whose verdict is plain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from study_harness import line, lines

from gsat.studies.claims import CLAIMS, claims_page
from gsat.studies.records import Records
from gsat.studies.report import write_between_marks
from gsat.studies.reproduction import reproduction_page, verdict
from gsat.studies.study import Experiment
from gsat.studies.tables import R_PAIRS, R_SWEEP, STUDIES, SUM_PAIRS
from gsat.training.results import read_records
from gsat.training.train import RESULTS_VERSION

ROOT = Path(__file__).parents[2]
ROBUST, STOCHASTIC, VARIANCE, TUNING, DECAY, SUM, COST, FIXED = CLAIMS


def weigh(claim: Any, runs: list[dict[str, Any]], curves: Any = ()) -> str:
    return claim.weigh(Records(runs), curves)[0]


def test_without_runs_nothing_is_said() -> None:
    for claim in CLAIMS:
        assert claim.weigh(Records([]), []) == ("not run", [])
        assert claim.command.startswith("gsat bench ")
        for name in claim.command.split("--")[0].split()[2:]:
            assert name in STUDIES


@pytest.mark.parametrize(("best", "said"), [(0.7, "holds"), (0.2, "does not hold")])
def test_the_best_r_decides_and_a_half_done_sweep_says_nothing(best: float, said: str) -> None:
    sweep = [Experiment("spmotif-0.5", "gsat", settings=(("r_final", r),)) for r in R_SWEEP]
    aucs = [0.8 if r == best else 0.6 for r in R_SWEEP]
    runs = [run for e, auc in zip(sweep, aucs, strict=True) for run in lines(e, {0: auc})]
    assert weigh(ROBUST, runs) == said
    assert weigh(ROBUST, runs[1:]) == "not run"


@pytest.mark.parametrize(
    ("worst", "said"),
    [("nostoch", "holds"), ("nostoch-beta0", "holds"), ("beta0", "does not hold")],
)
def test_an_ablation_is_the_worst(worst: str, said: str) -> None:
    rows = STUDIES["table5"].parts[0].rows
    runs = [
        run
        for row in rows
        for run in lines(row.experiment("spmotif-0.5"), {0: 0.5 if row.variant == worst else 0.7})
    ]
    assert weigh(STOCHASTIC, runs) == said


def test_deviations_are_compared_from_three_seeds_on() -> None:
    steady = lines(Experiment("mutag", "gsat"), {0: 0.80, 1: 0.81, 2: 0.82})
    shaky = lines(Experiment("mutag", "dir"), {0: 0.2, 1: 0.5, 2: 0.9})
    assert weigh(VARIANCE, steady + shaky) == "holds"
    assert weigh(VARIANCE, steady + shaky[:2]) == "not run"
    swapped = lines(Experiment("mutag", "gsat"), {0: 0.2, 1: 0.5, 2: 0.9})
    calm = lines(Experiment("mutag", "dir"), {0: 0.80, 1: 0.81, 2: 0.82})
    assert weigh(VARIANCE, swapped + calm) == "does not hold"


def test_fine_tuning_may_cost_a_point() -> None:
    def run(before: float, after: float) -> list[dict[str, Any]]:
        experiment = Experiment("spmotif-0.5", "gsat-star")
        return [line(experiment, test={"accuracy": after, "explanation_auc": 0.5},
                     pretrained={"test": {"accuracy": before}})]  # fmt: skip

    assert weigh(TUNING, run(0.50, 0.495)) == "holds"
    assert weigh(TUNING, run(0.50, 0.48)) == "does not hold"


def test_decay_is_from_the_first_ten_epochs_to_the_last() -> None:
    def curve(method: str, values: list[float]) -> dict[str, Any]:
        recipe = Experiment("mutag", method).hash
        phases = {"pretrain": {}, "explain": {"valid_auc": values}}
        return {"recipe_hash": recipe, "phases": phases, "results_version": RESULTS_VERSION}

    falls, stays = [0.9] * 8 + [0.7] * 20, [0.9] * 28
    assert weigh(DECAY, [], [curve("graphmask", falls)]) == "holds"
    assert weigh(DECAY, [], [curve("graphmask", stays)]) == "does not hold"
    both = [curve("graphmask", stays), curve("pgexplainer", falls)]
    assert weigh(DECAY, [], both) == "holds in part"
    assert weigh(DECAY, [], [curve("graphmask", falls[:9])]) == "not run"


def test_the_sum_is_needed_if_accuracy_falls_without() -> None:
    whole, without = SUM_PAIRS[0]
    assert without.recipe(0).backbone.aggregators == ["mean", "min", "max", "std"]
    assert weigh(SUM, lines(whole, {0: 1.0}) + lines(without, {0: 0.8})) == "holds"
    assert weigh(SUM, lines(whole, {0: 1.0}) + lines(without, {0: 0.98})) == "does not hold"


def test_cost_is_per_epoch_of_those_that_were_run() -> None:
    gsat = line(Experiment("spmotif-0.5", "gsat"), seconds=100.0)
    bottleneck = Experiment("spmotif-0.5", "ib-subgraph")
    assert weigh(COST, [gsat, line(bottleneck, seconds=600.0, epochs=30)]) == "holds"  # 20 s, 1 s
    assert weigh(COST, [gsat, line(bottleneck, seconds=600.0, epochs=100)]) == "does not hold"


def test_one_r_for_all_may_cost_two_points() -> None:
    tuned, fixed = R_PAIRS[0]
    assert weigh(FIXED, lines(tuned, {0: 0.99}) + lines(fixed, {0: 0.98})) == "holds"
    assert weigh(FIXED, lines(tuned, {0: 0.99}) + lines(fixed, {0: 0.90})) == "does not hold"


def test_a_cell_is_reproduced_within_two_standard_errors() -> None:
    gsat = Experiment("mutag", "gsat")  # the paper: 99.60 ± 0.51

    def said(aucs: dict[int, float]) -> str:
        from gsat.studies.cells import measure

        (sheet,) = measure(STUDIES["table1"], Records(lines(gsat, aucs)))
        (cell,) = [c for c in sheet.cells.values() if c.values]
        return verdict(cell)

    assert said({0: 0.994, 1: 0.998}) == "reproduced"
    assert said({0: 0.90, 1: 0.91}) == "worse"
    assert said({0: 1.0, 1: 0.9999}) == "better"
    assert said({0: 0.99}) == "in range"
    assert said({0: 0.90}) == "below"
    page = reproduction_page(Records(lines(gsat, {0: 0.90})))
    assert "| mutag | GIN + GSAT | explanation auc | 90.0 (1) | 99.6 | -9.6 | below |" in page


@pytest.mark.parametrize("name", ["claims", "reproduction"])
def test_the_docs_say_what_was_recorded(name: str, tmp_path: Path) -> None:
    records = Records.read(ROOT / "results" / "runs.jsonl")
    curves = read_records(ROOT / "results" / "curves.jsonl")
    page = claims_page(records, curves) if name == "claims" else reproduction_page(records)
    shown, copy = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8"), tmp_path / "copy.md"
    copy.write_text(shown, encoding="utf-8")
    write_between_marks(copy, page)
    assert copy.read_text(encoding="utf-8") == shown, "run: make results"
