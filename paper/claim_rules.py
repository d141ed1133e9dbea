"""Rules that judge the paper's claims by recorded runs and curves.

Each rule goes through the cases that its claim is about (data sets, or pairs of experiments) and
yields one piece of evidence per case, or None where runs are missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from gsat.study.records import Record, RecordedRuns, Records
from gsat.study.study import PREDICTION, Experiment, find_study
from gsat.training.results import summarise

Curves = Sequence[Record]  # records of ``results/curves.jsonl``
MIN_SEEDS = 3  # of every experiment that evidence is made of; a running time needs one
_AUC = "explanation_auc"
_REQUIRED_R = (0.9, 0.7, 0.5, 0.3, 0.1)  # points of the sweep that have to be there


@dataclass(frozen=True)
class Evidence:
    """The evidence of one case of a claim.

    Attributes:
        text: The numbers, in one line.
        supports: Whether they support the claim.
    """

    text: str
    supports: bool


Found = Iterator[Evidence | None]


class _Values:
    """The values of an experiment in per cent, if they are enough to judge by.

    Where a seed is missing, failed or has no value there are none: it might change the verdict.
    """

    def __init__(self, records: Records, experiment: Experiment, metric: str) -> None:
        runs = records.of(experiment)
        values = list(runs.values(metric).values())
        known = [100 * value for value in values if value is not None]
        self.values = known if _is_complete(runs) and len(known) == len(values) else []
        self.seeds = len(self.values)

    def __bool__(self) -> bool:
        return self.seeds >= MIN_SEEDS

    @property
    def mean(self) -> float:
        return fmean(self.values)

    @property
    def deviation(self) -> float:
        return stdev(self.values)  # of the sample, since numbers of seeds differ

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.deviation:.1f}"


def _is_complete(runs: RecordedRuns) -> bool:
    return not runs.failed and not runs.has_gap


def r_is_robust(records: Records, curves: Curves) -> Found:
    """The best r is at least 0.5, and from there on explanation AUCs differ by under ten points."""
    study = find_study("fig-regulariser")
    assert study.figure is not None
    sweep = study.figure.sweep[0]
    for dataset in study.datasets:
        found = {
            r: _Values(records, study.point(dataset, "gsat", sweep, r), _AUC) for r in sweep.values
        }
        if not all(found[r] for r in _REQUIRED_R):
            yield None
        else:
            means = {r: one.mean for r, one in found.items() if one}
            within = [mean for r, mean in means.items() if r >= 0.5]
            shown = ", ".join(f"{mean:.1f} at r = {r}" for r, mean in means.items())
            yield Evidence(
                f"{dataset}: {shown} ({min(one.seeds for one in found.values() if one)} seeds)",
                max(within) == max(means.values()) and max(within) - min(within) < 10.0,
            )


def needs_stochasticity(records: Records, curves: Curves) -> Found:
    """Both ablations without stochasticity have a lower explanation AUC than both with it."""
    for name, backbone in (("table5", "GIN"), ("table8", "PNA")):
        study = find_study(name)
        for dataset in study.datasets:
            found = {
                cell.row.variant: _Values(records, cell.experiment, _AUC)
                for cell in study.cells
                if cell.table.metric == _AUC and cell.dataset == dataset
            }
            if not all(found.values()):
                yield None
            else:
                shown = ", ".join(f"{v or 'GSAT'} {one.mean:.1f}" for v, one in found.items())
                without = [one.mean for v, one in found.items() if v.startswith("nostoch")]
                with_it = [one.mean for v, one in found.items() if not v.startswith("nostoch")]
                yield Evidence(
                    f"{backbone} on {dataset}: {shown} "
                    f"({min(one.seeds for one in found.values())} seeds)",
                    max(without) < min(with_it),
                )


def varies_less(records: Records, curves: Curves) -> Found:
    """GSAT and GSAT* deviate less over seeds than every baseline of table 1."""
    study = find_study("table1")
    for dataset in study.datasets:
        found = {
            cell.row.method: _Values(records, cell.experiment, _AUC)
            for cell in study.cells
            if cell.row.backbone == "gin" and cell.dataset == dataset and not cell.row.trivial
        }
        if not all(found.values()):
            yield None
        else:
            shown = ", ".join(f"{name} {one.deviation:.1f}" for name, one in found.items())
            ours = max(found[name].deviation for name in study.ours)
            baselines = min(o.deviation for name, o in found.items() if name not in study.ours)
            seeds = min(one.seeds for one in found.values())
            yield Evidence(f"{dataset}: {shown} ({seeds} seeds or more)", ours < baselines)


def fine_tuning_is_harmless(records: Records, curves: Curves) -> Found:
    """Fine-tuning costs no more than one point of the prediction metric."""
    names = ("table1", "table2", "table3", "table4")
    experiments = dict.fromkeys(e for name in names for e in find_study(name).experiments)
    for experiment in experiments:
        # All test graphs of Mutag are of one class: a constant prediction would be right.
        if experiment.method != "gsat-star" or experiment.dataset == "mutag":
            continue
        metric = "roc_auc" if experiment.dataset.startswith("ogbg") else "accuracy"
        runs = records.of(experiment)
        pairs = [
            (run["pretrained"]["test"][metric], run["test"][metric]) for run in runs.done.values()
        ]
        if len(pairs) < MIN_SEEDS or not _is_complete(runs):
            yield None
        else:
            before, after = (100 * fmean(values) for values in zip(*pairs, strict=True))
            yield Evidence(
                f"{experiment.backbone} on {experiment.dataset}: {before:.1f} before, {after:.1f} "
                f"after ({len(pairs)} seeds)",
                after > before - 1.0,
            )


def posthoc_decays(records: Records, curves: Curves) -> Found:
    """The validation AUC of post-hoc explainers falls by over two points after ten epochs."""
    for method in ("pgexplainer", "graphmask"):
        recipe = Experiment("mutag", method).hash
        runs = [
            list(curve["phases"].values())[-1].get("valid_auc", [])
            for curve in curves
            if curve["recipe_hash"] == recipe and records.matches(curve)
        ]
        spreads = [summarise(values) for values in zip(*runs, strict=False)]
        means = [100 * spread[0] for spread in spreads if spread is not None]
        if len(runs) < MIN_SEEDS or len(means) < len(spreads) or len(means) <= 10:
            yield None
        else:
            early, last = max(means[:10]), means[-1]
            yield Evidence(
                f"{method}: at best {early:.1f} within ten epochs, {last:.1f} after the last "
                f"({len(runs)} seeds)",
                last < early - 2.0,
            )


def pna_needs_sum(records: Records, curves: Curves) -> Found:
    """PNA without the sum aggregator loses more than five points of accuracy."""
    study = find_study("claims")
    for dataset in study.datasets:
        with_sum = study.experiment(dataset, "erm", "pna")
        without = study.experiment(dataset, "erm", "pna", "no-sum")
        one, other = (_Values(records, e, PREDICTION) for e in (with_sum, without))
        if not (one and other):
            yield None
        else:
            yield Evidence(
                f"{dataset}: accuracy {one} with the sum, {other} without ({other.seeds} seeds)",
                other.mean < one.mean - 5.0,
            )


def ib_subgraph_is_slow(records: Records, curves: Curves) -> Found:
    """An epoch of IB-subgraph takes more than ten times as long as one of GSAT."""
    for dataset in find_study("table2").datasets:
        seconds = {}
        for method in ("gsat", "ib-subgraph"):
            runs = records.of(Experiment(dataset, method)).done.values()
            times = [
                r["seconds"] / r.get("epochs", r["recipe"]["training"]["epochs"]) for r in runs
            ]
            if times:
                seconds[method] = median(times), len(times)
        if len(seconds) < 2:
            yield None
        else:
            (ours, n), (theirs, m) = seconds["gsat"], seconds["ib-subgraph"]
            yield Evidence(
                f"{dataset}: an epoch of IB-subgraph takes {theirs / ours:.1f} times as long as "
                f"one of GSAT, {theirs:.1f} s against {ours:.1f} s ({m} and {n} seeds, one core "
                "each, on a machine with other work)",
                theirs > 10 * ours,
            )


def fixed_r_is_enough(records: Records, curves: Curves) -> Found:
    """Where the paper uses another r, 0.7 costs no more than two points of explanation AUC."""
    study = find_study("claims")
    for dataset in ("ba2motifs", "mutag"):
        tuned = study.experiment(dataset, "gsat")
        fixed = study.experiment(dataset, "gsat", variant="r-0.7")
        one, other = (_Values(records, e, _AUC) for e in (tuned, fixed))
        if not (one and other):
            yield None
        else:
            yield Evidence(
                f"{dataset}: explanation AUC {other} with r = 0.7 ({other.seeds} seeds), "
                f"{one} with r = 0.5 ({one.seeds} seeds)",
                other.mean > one.mean - 2.0,
            )
