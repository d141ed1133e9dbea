"""The paper's claims in prose, each judged by a printed rule on recorded runs.

There is no verdict where runs are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from gsat.study.records import Records
from paper import claim_rules as rules
from paper.claim_rules import Curves, Evidence

Verdict = Literal["holds", "holds in part", "does not hold", "no run yet"]
Rule = Callable[[Records, Curves], Iterable[Evidence | None]]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper in our words, what supports it, and the command that makes the runs.

    The rule yields the evidence of each case, or None where runs are missing.
    """

    statement: str
    criterion: str
    command: str
    rule: Rule

    def judge(self, records: Records, curves: Curves) -> Judgement:
        """Judge the claim by recorded runs and curves."""
        cases = list(self.rule(records, curves))
        evidence = [one for one in cases if one is not None]
        support = [one.supports for one in evidence]
        verdict: Verdict = "holds in part"
        if not support:
            verdict = "no run yet"
        elif len(set(support)) == 1:
            verdict = "holds" if support[0] else "does not hold"
        return Judgement(verdict, evidence, len(cases))


@dataclass(frozen=True)
class Judgement:
    """The verdict on a claim."""

    verdict: Verdict
    evidence: Sequence[Evidence]  # of the cases that have runs
    cases: int  # number of cases, with and without runs

    def __str__(self) -> str:
        return f"**{self.verdict}** ({len(self.evidence)} of {self.cases})"


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "GSAT works best, and about equally well, for r between 0.5 and 0.9.",
        "on a Spurious-Motif data set, the best mean explanation AUC is at an r of at least 0.5, "
        "and the means at such r differ by less than ten points (at least every second r of the "
        "sweep is needed)",
        "gsat bench run fig-regulariser",
        rules.r_is_robust,
    ),
    Claim(
        "Without stochasticity, explanations are worst.",
        "both ablations without stochasticity have a lower mean explanation AUC than both with it",
        "gsat bench run table5 table8",
        rules.needs_stochasticity,
    ),
    Claim(
        "GSAT's explanations vary less between seeds than those of the baselines.",
        "on a data set of table 1, the standard deviations of GSAT and GSAT* are below those of "
        "all five baselines",
        "gsat bench run table1",
        rules.varies_less,
    ),
    Claim(
        "Fine-tuning a trained model (GSAT*) does not hurt its predictions.",
        "after fine-tuning (at the epoch that is best on validation data), the mean is at most one "
        "point lower than before (after the last epoch of pre-training); Mutag is left out, since "
        "all its test graphs are of one class",
        "gsat bench run table1 table2 table3 table4 --only method=gsat-star",
        rules.fine_tuning_is_harmless,
    ),
    Claim(
        "On Mutag, post-hoc explainers are best within 5 to 10 epochs and get worse after that.",
        "the mean validation AUC of the last epoch is more than two points below the best of the "
        "first ten",
        "gsat bench run fig-posthoc",
        rules.posthoc_decays,
    ),
    Claim(
        "Except on the molecules of OGB, PNA does not converge without the sum among its "
        "aggregators.",
        "without it, accuracy is more than five points lower (on the constant features of "
        "BA-2Motifs and houses this is certain: no other aggregator distinguishes nodes there)",
        "gsat bench run claims --only backbone=pna",
        rules.pna_needs_sum,
    ),
    Claim(
        "IB-subgraph is far more expensive than GSAT.",
        "an epoch takes more than ten times as long, with our code for both",
        "gsat bench run table2 --only method=gsat,method=ib-subgraph",
        rules.ib_subgraph_is_slow,
    ),
    Claim(
        "r = 0.7 works well on all data sets and need not be tuned.",
        "where the paper uses another r, 0.7 costs at most two points of explanation AUC",
        "gsat bench run claims --only method=gsat",
        rules.fixed_r_is_enough,
    ),
)


def claims_page(records: Records, curves: Curves) -> str:
    """Write all claims with their verdicts and evidence."""
    judged = [(claim, claim.judge(records, curves)) for claim in CLAIMS]
    lines = ["| claim | verdict (cases with runs) |", "| --- | --- |"]
    lines += [f"| {claim.statement} | {found} |" for claim, found in judged]
    for number, (claim, found) in enumerate(judged, start=1):
        lines += ["", f"### {number}. {claim.statement}", ""]
        lines += [f"Supported if: {claim.criterion}.", ""]
        lines += [f"Verdict: {found}. Runs: `{claim.command}`."]
        lines += [""] if found.evidence else []
        lines += [f"- {'✓' if one.supports else '✗'} {one.text}" for one in found.evidence]
    return "\n".join(lines) + "\n"
