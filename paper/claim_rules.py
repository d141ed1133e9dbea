"""Rules that judge the paper's claims by recorded runs and curves.

Each rule goes through the cases that its claim is about (data sets, or pairs of experiments) and
yields one piece of evidence per case, or None where runs are missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from statistics import fmean, median, stdev

from scipy import stats

from gsat.study.records import Record, RecordedRuns, Records
from gsat.study.study import PREDICTION, Experiment, StudyCell, find_study
from gsat.study.table import BACKBONE_TITLES, row_name
from gsat.training.results import summarise

Curves = Sequence[Record]  # records of ``results/curves.jsonl``
MIN_SEEDS = 3  # of every experiment that decides a case
SIGNIFICANCE = 0.05
_AUC = "explanation_auc"
_REQUIRED_R = (0.9, 0.7, 0.5, 0.3, 0.1)  # points of the sweep that have to be there
_SPURIOUS = ("spmotif-0.5", "spmotif-0.7", "spmotif-0.9")


@dataclass(frozen=True)
class Evidence:
    """The evidence of one case of a claim.

    Attributes:
        text: The numbers, in one line.
        supports: Whether they support the claim.
        seeds: The fewest seeds of any experiment in it.
    """

    text: str
    supports: bool
    seeds: int

    @property
    def decides(self) -> bool:
        """Whether there are enough seeds to count; otherwise it is shown only."""
        return self.seeds >= MIN_SEEDS


Found = Iterator[Evidence | None]


class _Values:
    """The values of an experiment in per cent; none if a seed is missing, failed or has no value.

    Such a seed might change the verdict.
    """

    def __init__(self, records: Records, experiment: Experiment, metric: str) -> None:
        runs = records.of(experiment)
        values = list(runs.values(metric).values())
        known = [100 * value for value in values if value is not None]
        self.values = known if _is_complete(runs) and len(known) == len(values) else []
        self.seeds = len(self.values)

    def __bool__(self) -> bool:
        return self.seeds > 0

    @property
    def mean(self) -> float:
        return fmean(self.values)

    @property
    def deviation(self) -> float:
        """The deviation of the sample, since numbers of seeds differ; 0 for one seed."""
        return stdev(self.values) if self.seeds > 1 else 0.0

    def __str__(self) -> str:
        spread = f" ± {self.deviation:.1f}" if self.seeds > 1 else ""
        return f"{self.mean:.1f}{spread}"


def _is_complete(runs: RecordedRuns) -> bool:
    return not runs.failed and not runs.has_gap


def _fewest(values: Sequence[_Values]) -> int:
    return min(one.seeds for one in values)


def _columns(
    records: Records, name: str, metric: str, backbone: str = ""
) -> dict[str, list[tuple[StudyCell, _Values]]]:
    """The values of a table by data set, without trivial baselines and quoted rows."""
    columns = defaultdict[str, list[tuple[StudyCell, _Values]]](list)
    for cell in find_study(name).cells:
        fits = cell.table.metric == metric and backbone in ("", cell.row.backbone)
        if fits and not cell.row.trivial:
            columns[cell.dataset].append((cell, _Values(records, cell.experiment, metric)))
    return columns


def _ours_against_best(
    records: Records, name: str, metric: str, ours: Sequence[str], backbone: str = "gin"
) -> Found:
    """Per data set of a table, the best of our methods has a higher mean than the best other."""
    study = find_study(name)
    for dataset, column in _columns(records, name, metric, backbone).items():
        if not all(values for _, values in column):
            yield None
            continue
        groups: tuple[list[tuple[StudyCell, _Values]], ...] = ([], [])
        for cell, values in column:
            groups[cell.row.method in ours].append((cell, values))
        best = [max(group, key=lambda pair: pair[1].mean) for group in groups]
        (theirs, other), (mine, values) = best
        paper, their_paper = (
            max((cell.published[0] for cell, _ in group if cell.published), default=nan)
            for group in reversed(groups)
        )
        yield Evidence(
            f"{dataset}: {row_name(study, mine.row)} {values}, {row_name(study, theirs.row)} "
            f"{other}: {values.mean - other.mean:+.1f} points (paper {paper - their_paper:+.1f})",
            values.mean > other.mean,
            _fewest([values for _, values in column]),
        )


def explains_best(records: Records, curves: Curves) -> Found:
    """GSAT or GSAT* has a higher explanation AUC than every baseline."""
    yield from _ours_against_best(records, "table1", _AUC, ("gsat", "gsat-star"))


def predicts_best(records: Records, curves: Curves) -> Found:
    """GSAT or GSAT* predicts better than every other method on the same backbone."""
    yield from _ours_against_best(records, "table2", PREDICTION, ("gsat", "gsat-star"))


def removes_spurious_correlations(records: Records, curves: Curves) -> Found:
    """GSAT or GSAT* predicts better than invariant learning on DIR's network."""
    ours = ("gsat", "gsat-star")
    yield from _ours_against_best(records, "table4", PREDICTION, ours, "leconv")


def finds_rationales(records: Records, curves: Curves) -> Found:
    """GSAT or GSAT* has a higher precision@5 than every other method on DIR's network."""
    ours = ("gsat", "gsat-star")
    yield from _ours_against_best(records, "table7", "precision_at_5", ours, "leconv")


def beats_its_backbone(records: Records, curves: Curves) -> Found:
    """On Spurious-Motif, GIN + GSAT is significantly more accurate than GIN."""
    study = find_study("table2")
    for dataset in _SPURIOUS:
        gsat, alone = (
            _Values(records, study.experiment(dataset, method, "gin"), PREDICTION)
            for method in ("gsat", "erm")
        )
        if not (gsat and alone):
            yield None
            continue
        seeds, higher, tested = _fewest([gsat, alone]), gsat.mean > alone.mean, ""
        if seeds > 1:
            p = float(stats.ttest_ind(gsat.values, alone.values, equal_var=False).pvalue)
            higher, tested = higher and p < SIGNIFICANCE, f" (Welch's p = {p:.2f})"
        yield Evidence(f"{dataset}: GIN + GSAT {gsat}, GIN {alone}{tested}", higher, seeds)


def does_not_hurt(records: Records, curves: Curves) -> Found:
    """On the other data sets, GIN + GSAT predicts at most one point worse than GIN."""
    study = find_study("table2")
    for dataset in study.datasets:
        gsat, alone = (
            _Values(records, study.experiment(dataset, method, "gin"), PREDICTION)
            for method in ("gsat", "erm")
        )
        if dataset in _SPURIOUS:
            continue
        if not (gsat and alone):
            yield None
        else:
            yield Evidence(
                f"{dataset}: GIN + GSAT {gsat}, GIN {alone}",
                gsat.mean >= alone.mean - 1.0,
                _fewest([gsat, alone]),
            )


def improves_pna(records: Records, curves: Curves) -> Found:
    """GSAT or GSAT* predicts better than PNA."""
    for name in ("table2", "table3"):
        yield from _ours_against_best(records, name, PREDICTION, ("gsat", "gsat-star"), "pna")


def _second_is_higher(
    records: Records, pairs: Sequence[tuple[str, Experiment, Experiment]]
) -> Found:
    """The second experiment of each pair has the higher explanation AUC."""
    for title, first, second in pairs:
        one, other = (_Values(records, experiment, _AUC) for experiment in (first, second))
        if not (one and other):
            yield None
        else:
            yield Evidence(
                f"{title}: {one} and {other}", other.mean > one.mean, _fewest([one, other])
            )


def fine_tuning_explains_better(records: Records, curves: Curves) -> Found:
    """GSAT* has a higher explanation AUC than GSAT."""
    study = find_study("table1")
    pairs = [
        (
            f"{BACKBONE_TITLES[backbone]} on {dataset}, GSAT and GSAT*",
            study.experiment(dataset, "gsat", backbone),
            study.experiment(dataset, "gsat-star", backbone),
        )
        for backbone in ("gin", "pna")
        for dataset in study.datasets
    ]
    yield from _second_is_higher(records, pairs)


def pna_explains_better(records: Records, curves: Curves) -> Found:
    """PNA + GSAT has a higher explanation AUC than GIN + GSAT."""
    study = find_study("table1")
    pairs = [
        (
            f"{dataset}, GIN + GSAT and PNA + GSAT",
            study.experiment(dataset, "gsat", "gin"),
            study.experiment(dataset, "gsat", "pna"),
        )
        for dataset in study.datasets
    ]
    yield from _second_is_higher(records, pairs)


def _best_of(points: Mapping[float, _Values]) -> tuple[float, _Values]:
    return max(points.items(), key=lambda item: item[1].mean)


def beats_l1(records: Records, curves: Curves) -> Found:
    """The best r explains better than the best weight of the ℓ1 norm."""
    study = find_study("fig-regulariser")
    assert study.figure is not None
    for dataset in study.datasets:
        ours, norm = (
            {
                value: found
                for value in sweep.values
                if (found := _Values(records, study.point(dataset, "gsat", sweep, value), _AUC))
            }
            for sweep in study.figure.sweep[:2]
        )
        if not (ours and norm):
            yield None
            continue
        (r, best), (weight, other) = _best_of(ours), _best_of(norm)
        yield Evidence(
            f"{dataset}: {best} at r = {r}, {other} at the ℓ1 norm's weight {weight:g} "
            f"({len(ours)} and {len(norm)} points)",
            best.mean > other.mean,
            _fewest([*ours.values(), *norm.values()]),
        )


def r_is_robust(records: Records, curves: Curves) -> Found:
    """The best r is at least 0.5, AUCs differ little from there on, and r = 0.1 is worse."""
    study = find_study("fig-regulariser")
    assert study.figure is not None
    sweep = study.figure.sweep[0]
    for dataset in study.datasets:
        found = {
            r: _Values(records, study.point(dataset, "gsat", sweep, r), _AUC) for r in sweep.values
        }
        if not all(found[r] for r in _REQUIRED_R):
            yield None
            continue
        points = {r: one for r, one in found.items() if one}
        high = [one for r, one in points.items() if r >= 0.5]
        means = [one.mean for one in high]
        low = points[0.1]
        worse = low.mean < min(means) or low.deviation > max(one.deviation for one in high)
        shown = ", ".join(f"{one} at r = {r}" for r, one in points.items())
        yield Evidence(
            f"{dataset}: {shown}",
            _best_of(points)[0] >= 0.5 and max(means) - min(means) < 10.0 and worse,
            _fewest(list(points.values())),
        )


def needs_stochasticity(records: Records, curves: Curves) -> Found:
    """Both ablations without stochasticity have a lower explanation AUC than both with it."""
    for title, dataset, found in _ablations(records):
        if not all(found.values()):
            yield None
        else:
            shown = ", ".join(f"{v or 'GSAT'} {one}" for v, one in found.items())
            without = [one.mean for v, one in found.items() if v.startswith("nostoch")]
            with_it = [one.mean for v, one in found.items() if not v.startswith("nostoch")]
            yield Evidence(
                f"{title} on {dataset}: {shown}",
                max(without) < min(with_it),
                _fewest(list(found.values())),
            )


def needs_information_loss(records: Records, curves: Curves) -> Found:
    """Without the information loss, explanations are worse and vary more between seeds."""
    for title, dataset, found in _ablations(records):
        whole, without = found[""], found["beta0"]
        if not (whole and without):
            yield None
        else:
            seeds, lower = _fewest([whole, without]), without.mean < whole.mean
            varies = seeds < 2 or without.deviation >= whole.deviation
            text = f"{title} on {dataset}: GSAT {whole}, β = 0 {without}"
            yield Evidence(text, lower and varies, seeds)


def _ablations(records: Records) -> Iterator[tuple[str, str, dict[str, _Values]]]:
    """The explanation AUCs of GSAT and its ablations, by backbone and data set."""
    for name, title in (("table5", "GIN"), ("table8", "PNA")):
        for dataset, column in _columns(records, name, _AUC).items():
            yield title, dataset, {cell.row.variant: one for cell, one in column}


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
            seeds = _fewest(list(found.values()))
            if seeds < 2:  # no deviation
                yield None
            else:
                yield Evidence(f"{dataset}: {shown}", ours < baselines, seeds)


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
        if not pairs or not _is_complete(runs):
            yield None
        else:
            before, after = (100 * fmean(values) for values in zip(*pairs, strict=True))
            yield Evidence(
                f"{BACKBONE_TITLES[experiment.backbone]} on {experiment.dataset}: {before:.1f} "
                f"before, {after:.1f} after",
                after > before - 1.0,
                len(pairs),
            )


def posthoc_decays(records: Records, curves: Curves) -> Found:
    """The validation AUC of post-hoc explainers falls by over two points after ten epochs."""
    for method in ("pgexplainer", "graphmask"):
        recipe = find_study("fig-posthoc").point("mutag", method).hash
        runs = [
            list(curve["phases"].values())[-1].get("valid_auc", [])
            for curve in curves
            if curve["recipe_hash"] == recipe and records.matches(curve)
        ]
        spreads = [summarise(values) for values in zip(*runs, strict=False)]
        means = [100 * spread[0] for spread in spreads if spread is not None]
        if not runs or len(means) < len(spreads) or len(means) <= 10:
            yield None
        else:
            early, last = max(means[:10]), means[-1]
            yield Evidence(
                f"{method}: at best {early:.1f} within ten epochs, {last:.1f} after the last",
                last < early - 2.0,
                len(runs),
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
                f"{dataset}: accuracy {one} with the sum, {other} without",
                other.mean < one.mean - 5.0,
                _fewest([one, other]),
            )


def ib_subgraph_is_slow(records: Records, curves: Curves) -> Found:
    """An epoch of IB-subgraph takes more than ten times as long as one of GSAT."""
    for dataset in find_study("table2").datasets:
        seconds = {}
        for method in ("gsat", "ib-subgraph"):
            runs = records.of(Experiment(dataset, method)).done.values()
            times = [
                r.get("cpu_seconds", r["seconds"])
                / r.get("epochs", r["recipe"]["training"]["epochs"])
                for r in runs
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
                "each)",
                theirs > 10 * ours,
                MIN_SEEDS,  # a running time needs no further seeds
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
                f"{dataset}: explanation AUC {other} with r = 0.7, {one} with r = 0.5",
                other.mean > one.mean - 2.0,
                _fewest([one, other]),
            )
