"""Claims are judged by the rule beside them, from made-up runs whose verdict is plain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from paper.claims import CLAIMS, claims_page

from gsat.models import GIN
from gsat.study.records import Records
from gsat.study.study import Experiment, find_study, study_names
from study_harness import failure, line, lines

ROOT = Path(__file__).parents[2]
BY_RULE = {claim.rule.__name__: claim for claim in CLAIMS}
ROBUST, STOCHASTIC, VARIANCE, TUNING, DECAY, SUM, COST, FIXED = (
    BY_RULE[name]
    for name in (
        "r_is_robust", "needs_stochasticity", "varies_less", "fine_tuning_is_harmless",
        "posthoc_decays", "pna_needs_sum", "ib_subgraph_is_slow", "fixed_r_is_enough",
    )
)  # fmt: skip


_STUDY, _SWEEPS = find_study("claims"), find_study("fig-regulariser")
assert _SWEEPS.figure is not None
WITH_SUM = _STUDY.experiment("ba2motifs", "erm", "pna")
WITHOUT_SUM = _STUDY.experiment("ba2motifs", "erm", "pna", "no-sum")
R_SWEEP = _SWEEPS.figure.sweep[0].values


def thrice(experiment: Experiment, auc: float) -> list[dict[str, Any]]:
    """Three seeds around an AUC."""
    return lines(experiment, {0: auc - 0.01, 1: auc, 2: auc + 0.01})


def judge(claim: Any, runs: list[dict[str, Any]], curves: Any = ()) -> str:
    return str(claim.judge(Records(runs), curves).verdict)


def test_without_runs_there_is_no_verdict() -> None:
    for claim in CLAIMS:
        judged = claim.judge(Records([]), [])
        assert (judged.verdict, judged.evidence) == ("open", [])
        assert judged.cases >= 2  # data sets, or pairs of runs
        assert claim.command.startswith("gsat bench run ")
        for name in claim.command.split("--")[0].split()[3:]:
            assert name in study_names()


def test_a_verdict_comes_with_the_number_of_cases() -> None:
    whole, without = WITH_SUM, WITHOUT_SUM
    found = SUM.judge(Records(thrice(whole, 0.9) + thrice(without, 0.7)), [])
    assert str(found) == "**holds so far** (1 of 4)"
    assert str(SUM.judge(Records([]), [])) == "**open** (0 of 4)"


def test_missing_or_failed_seeds_leave_a_case_open() -> None:
    whole, without = WITH_SUM, WITHOUT_SUM
    good, low = thrice(whole, 0.9), thrice(without, 0.7)
    for more in (
        failure(without, 3),  # a run that broke
        line(without, 4),  # number 3 is missing
        line(without, 3, test={"accuracy": None}),
    ):
        assert judge(SUM, [*good, *low, more]) == "open"
    tuned = Experiment("spmotif-0.5", "gsat-star")
    before = {"pretrained": {"test": {"accuracy": 0.5}}}
    runs = [line(tuned, seed, **before) for seed in range(3)]
    assert judge(TUNING, runs) == "holds"
    assert judge(TUNING, [*runs, failure(tuned, 3)]) == "open"


@pytest.mark.parametrize(("best", "verdict"), [(0.7, "holds"), (0.2, "does not hold")])
def test_the_best_r_decides_and_half_a_sweep_is_not_judged(best: float, verdict: str) -> None:
    sweep = [Experiment("spmotif-0.5", "gsat", settings=(("r_final", r),)) for r in R_SWEEP]
    aucs = [0.8 if r == best else 0.75 if r >= 0.5 else 0.7 for r in R_SWEEP]
    runs = [run for e, auc in zip(sweep, aucs, strict=True) for run in thrice(e, auc)]
    assert judge(ROBUST, runs) == verdict
    assert judge(ROBUST, runs[1:]) == "open"


def test_r_is_not_robust_if_it_works_at_one_value_only() -> None:
    sweep = {r: Experiment("spmotif-0.5", "gsat", settings=(("r_final", r),)) for r in R_SWEEP}
    runs = [run for r, e in sweep.items() for run in thrice(e, 0.9 if r == 0.7 else 0.5)]
    assert judge(ROBUST, runs) == "does not hold"


def test_a_small_r_must_be_worse() -> None:
    sweep = {r: Experiment("spmotif-0.5", "gsat", settings=(("r_final", r),)) for r in R_SWEEP}
    aucs = {r: {0.7: 0.8, 0.1: 0.76}.get(r, 0.75) for r in R_SWEEP}
    runs = [run for r, e in sweep.items() for run in thrice(e, aucs[r])]
    assert judge(ROBUST, runs) == "does not hold"


def column(name: str, dataset: str, aucs: dict[str, float], backbone: str = "gin") -> Any:
    """Three seeds of every method in a column of a table; accuracies are half the AUCs."""
    cells = [cell for cell in find_study(name).cells if cell.dataset == dataset]
    chosen = {
        cell.row.method: cell.experiment
        for cell in cells
        if cell.row.backbone == backbone and not cell.row.trivial and not cell.row.variant
    }
    return [run for m, e in chosen.items() for run in thrice(e, aucs.get(m, 0.5))]


@pytest.mark.parametrize(
    ("rule", "table", "dataset", "backbone"),
    [
        ("explains_best", "table1", "mutag", "gin"),
        ("predicts_best", "table2", "spmotif-0.7", "gin"),
        ("removes_spurious_correlations", "table4", "spmotif-0.9", "leconv"),
        ("improves_pna", "table2", "spmotif-0.5", "pna"),
    ],
)
def test_the_best_of_ours_is_compared_with_the_best_other(
    rule: str, table: str, dataset: str, backbone: str
) -> None:
    claim = BY_RULE[rule]
    higher = column(table, dataset, {"gsat-star": 0.9, "gsat": 0.4}, backbone)
    lower = column(table, dataset, {"erm": 0.92, "dir": 0.93, "gsat-star": 0.9}, backbone)
    assert judge(claim, higher) == "holds"
    assert judge(claim, lower) == "does not hold"
    assert judge(claim, higher[3:]) == "open"  # a method has no run
    (one,) = claim.judge(Records(higher), []).evidence
    assert one.seeds == 3


def test_a_case_with_one_seed_is_shown_and_does_not_count() -> None:
    claim, runs = BY_RULE["explains_best"], column("table1", "mutag", {"gsat": 0.9})
    only_one = [run for run in runs if run["seed"] == 0 or run["method"] != "dir"]
    found = claim.judge(Records(only_one), [])
    assert (found.verdict, found.decided, len(found.evidence)) == ("open", 0, 1)
    assert found.evidence[0].supports
    page = claims_page(Records(only_one), [])
    assert "- (✓, 1 seed) mutag:" in page


@pytest.mark.parametrize(("auc", "verdict"), [(0.9, "holds"), (0.505, "does not hold")])
def test_a_higher_accuracy_than_gins_must_be_significant(auc: float, verdict: str) -> None:
    runs = column("table2", "spmotif-0.5", {"gsat": auc, "erm": 0.5})
    assert judge(BY_RULE["beats_its_backbone"], runs) == verdict
    assert judge(BY_RULE["does_not_hurt"], runs) == "open"  # about the other data sets


def test_prediction_may_cost_a_point_on_other_data() -> None:
    claim = BY_RULE["does_not_hurt"]
    assert judge(claim, column("table2", "mnist75sp", {"gsat": 0.985, "erm": 1.0})) == "holds"
    assert judge(claim, column("table2", "mnist75sp", {"gsat": 0.9, "erm": 1.0})) != "holds"


def test_pairs_of_explanations_are_compared_in_order() -> None:
    star = column("table1", "mutag", {"gsat": 0.8, "gsat-star": 0.9})
    assert judge(BY_RULE["fine_tuning_explains_better"], star) == "holds"
    pna = column("table1", "mutag", {"gsat": 0.7}, "pna")
    assert judge(BY_RULE["pna_explains_better"], star + pna) == "does not hold"


def test_the_best_weights_of_both_regularisers_are_compared() -> None:
    study = _SWEEPS
    assert study.figure is not None
    ours, norm = (
        [study.point("spmotif-0.7", "gsat", sweep, value) for value in sweep.values]
        for sweep in study.figure.sweep[:2]
    )

    def runs(best: float) -> list[dict[str, Any]]:
        made = [run for e in ours[1:] for run in thrice(e, 0.5)] + thrice(ours[0], 0.8)
        return made + [run for e in norm[1:] for run in thrice(e, 0.4)] + thrice(norm[0], best)

    assert judge(BY_RULE["beats_l1"], runs(0.75)) == "holds"
    assert judge(BY_RULE["beats_l1"], runs(0.85)) == "does not hold"


def test_without_the_information_loss_means_fall_and_deviations_grow() -> None:
    study, claim = find_study("table5"), BY_RULE["needs_information_loss"]
    whole, without = (study.experiment("spmotif-0.5", "gsat", variant=v) for v in ("", "beta0"))
    wide = lines(without, {0: 0.6, 1: 0.7, 2: 0.8})
    assert judge(claim, thrice(whole, 0.8) + wide) == "holds"
    assert judge(claim, thrice(whole, 0.6) + wide) == "does not hold"
    assert judge(claim, lines(whole, {0: 0.6, 1: 0.8, 2: 1.0}) + wide) == "does not hold"


@pytest.mark.parametrize(
    ("aucs", "verdict"),
    [
        ({"": 0.8, "beta0": 0.7, "nostoch": 0.5, "nostoch-beta0": 0.6}, "holds"),
        ({"": 0.8, "beta0": 0.55, "nostoch": 0.5, "nostoch-beta0": 0.6}, "does not hold"),
    ],
)
def test_both_ablations_without_stochasticity_are_below(
    aucs: dict[str, float], verdict: str
) -> None:
    study = find_study("table5")
    runs = [
        run
        for variant, auc in aucs.items()
        for run in thrice(study.experiment("spmotif-0.5", "gsat", variant=variant), auc)
    ]
    assert judge(STOCHASTIC, runs) == verdict
    assert judge(STOCHASTIC, runs[1:]) == "open"


def test_deviations_are_compared_where_every_method_has_three_seeds() -> None:
    def runs(ours: float, others: float, steady: float = 0.5) -> list[dict[str, Any]]:
        made = []
        for cell in find_study("table1").cells:
            method = cell.row.method
            if cell.row.backbone == "gin" and cell.dataset == "mutag" and not cell.row.trivial:
                step = ours if method.startswith("gsat") else others
                step = steady if method == "graphmask" else step
                made += lines(cell.experiment, {k: 0.5 + k * step for k in range(3)})
        return made

    assert judge(VARIANCE, runs(0.01, 0.1)) == "holds"
    assert judge(VARIANCE, runs(0.1, 0.01)) == "does not hold"
    assert judge(VARIANCE, runs(0.01, 0.1, steady=0.005)) == "does not hold"  # one varies less
    assert judge(VARIANCE, runs(0.01, 0.1)[1:]) == "open"


def test_fine_tuning_may_cost_a_point() -> None:
    def run(before: float, after: float, dataset: str = "spmotif-0.5") -> list[dict[str, Any]]:
        experiment = Experiment(dataset, "gsat-star")
        return [line(experiment, seed, test={"accuracy": after, "explanation_auc": 0.5},
                     pretrained={"test": {"accuracy": before}}) for seed in range(3)]  # fmt: skip

    assert judge(TUNING, run(0.50, 0.495)) == "holds"
    assert judge(TUNING, run(0.50, 0.48)) == "does not hold"
    assert judge(TUNING, run(0.50, 0.48)[1:]) == "open"
    assert judge(TUNING, run(0.50, 0.48, "mutag")) == "open"  # a test set of one class


def test_decay_is_from_the_first_ten_epochs_to_the_last() -> None:
    def three(method: str, values: list[Any], **other: Any) -> list[dict[str, Any]]:
        identity = {"data_hash": "graphs", "backbone": "gin", **other}
        identity.setdefault("results_version", GIN.results_version)
        phases = {"pretrain": {}, "explain": {"valid_auc": values}}
        recipe = find_study("fig-posthoc").point("mutag", method).hash
        return [{"recipe_hash": recipe, "phases": phases, **identity} for _ in range(3)]

    drawn = [find_study("fig-posthoc").point("mutag", m) for m in ("graphmask", "pgexplainer")]
    runs = [line(experiment, seconds=1.0) for experiment in drawn]
    falls, stays = [0.9] * 8 + [0.7] * 20, [0.9] * 28
    assert judge(DECAY, runs, three("graphmask", falls)) == "holds"
    assert judge(DECAY, runs, three("graphmask", stays)) == "does not hold"
    both = three("graphmask", stays) + three("pgexplainer", falls)
    assert judge(DECAY, runs, both) == "holds in part"
    for unfit in (
        three("graphmask", falls[:9]),
        three("graphmask", falls)[1:],
        three("graphmask", falls, results_version=GIN.results_version - 1),
        three("graphmask", falls, data_hash="others"),
        three("graphmask", [*falls[:-1], None]),
    ):
        assert judge(DECAY, runs, unfit) == "open"


def test_the_sum_is_needed_if_accuracy_falls_without() -> None:
    whole, without = WITH_SUM, WITHOUT_SUM
    assert without.recipe(0).backbone.aggregators == ["mean", "min", "max", "std"]
    # Accuracies are half the AUCs here.
    assert judge(SUM, thrice(whole, 0.9) + thrice(without, 0.7)) == "holds"
    assert judge(SUM, thrice(whole, 0.9) + thrice(without, 0.85)) == "does not hold"


@pytest.mark.parametrize("dataset", ["spmotif-0.5", "mnist75sp", "ogbg-molhiv"])
def test_cost_is_per_epoch_of_those_that_were_run(dataset: str) -> None:
    experiment = Experiment(dataset, "gsat")
    gsat = line(experiment, seconds=1.0 * experiment.recipe(0).training.epochs)
    bottleneck = Experiment(dataset, "ib-subgraph")
    assert judge(COST, [gsat, line(bottleneck, seconds=600.0, epochs=30)]) == "holds"  # 20 s, 1 s
    assert judge(COST, [gsat, line(bottleneck, seconds=600.0, epochs=100)]) == "does not hold"


def test_one_r_for_all_may_cost_two_points() -> None:
    tuned = _STUDY.experiment("ba2motifs", "gsat")
    fixed = _STUDY.experiment("ba2motifs", "gsat", variant="r-0.7")
    assert judge(FIXED, thrice(tuned, 0.95) + thrice(fixed, 0.94)) == "holds"
    assert judge(FIXED, thrice(tuned, 0.95) + thrice(fixed, 0.90)) == "does not hold"
    assert judge(FIXED, thrice(tuned, 0.95) + thrice(fixed, 0.90)[1:]) == "open"
