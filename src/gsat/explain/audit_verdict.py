"""The verdict of an audit: one line, with its reasons.

Which measures it uses, and their limits, were chosen on models of known truth (docs/audit.md):
those that separate explanations from scores which explain nothing. The others are printed, and do
not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gsat.metric_names import METRIC_TITLES

# Chosen on some models of the study, checked on others; see docs/audit.md.
LEAST_SKILL: Final = 0.3  # of prediction: 0 is guessing, 1 is no error
# The share of answers that stay when the rest is taken away, and how many fewer stay when the
# explanation is: by noise, as stochastic attention was trained with, or by giving all one score.
LIMITS: Final = {"redrawn": (0.75, 0.2), "levelled": (0.9, 0.3)}
# Notes, which do not change the verdict.
NARROW: Final = 0.2  # scores of a graph that span less
UNSTEADY: Final = 0.7  # rank correlation with the epoch before
UNSTABLE: Final = 0.5  # rank correlation with other runs
LIKE_UNTRAINED: Final = 0.7  # rank correlation with a model that has not learnt the task


@dataclass(frozen=True)
class Verdict:
    """Whether to believe explanations.

    Attributes:
        believe: Whether nothing speaks against them.
        reasons: What it rests on, each a clause.
        notes: What else a reader should know; it does not change the verdict.
    """

    believe: bool
    reasons: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The reasons and what follows, in one line."""
        end = "believe it" if self.believe else "do not believe these explanations"
        return f"{'; '.join(self.reasons)}: {end}"


def judge(measures: Mapping[str, float | None], metric: str) -> Verdict:
    """Judge explanations by what was measured.

    Args:
        measures: Numbers by name, None where undefined; see :class:`gsat.explain.audit.Audit`.
        metric: The name of the metric of prediction.

    Returns:
        The verdict. A model that hardly predicts explains nothing; else the explanation has to be
        sufficient (the answers stay while everything else is redrawn at random, or gets one
        score) and necessary (they do not while the explanation does).

    Example:
        >>> judge({"metric": 0.58, "skill": 0.1}, "accuracy").line
        'accuracy 0.58, little better than guessing: do not believe these explanations'
    """
    notes = _notes(measures)
    score, skill = measures.get("metric"), measures.get("skill")
    if skill is not None and score is not None and skill < LEAST_SKILL:
        title = METRIC_TITLES[metric]
        better = "little" if skill > 0 else "no"
        return Verdict(False, (f"{title} {score:.2f}, {better} better than guessing",), notes)
    against: list[str] = []
    for how, (least_kept, least_gap) in LIMITS.items():
        kept, gap = measures.get(f"rest_{how}"), measures.get(f"{how}_gap")
        if kept is None or gap is None:
            continue
        enough, differs = _reaches(kept, least_kept), _reaches(gap, least_gap)
        if enough and differs:
            reasons = [
                f"sufficient ({kept:.0%} of the answers stay with the rest of the graph {how}) and "
                f"necessary ({max(kept - gap, 0):.0%} stay with the explanation {how})"
            ]
            return Verdict(True, (*reasons, *_stable(measures)), notes)
        if not against:  # one way of taking edges away is enough to say why
            if not differs:
                against.append(_not_necessary(measures, kept - gap))
            if not enough:
                against.append(
                    f"not sufficient: with the rest of the graph {how}, only {kept:.0%} of the "
                    "answers stay"
                )
    return Verdict(False, tuple(against), notes)


def _reaches(value: float, limit: float) -> bool:
    """Whether a share reaches a limit; 0.3 does, however its sums were rounded."""
    return value >= limit - 1e-6


def _stable(measures: Mapping[str, float | None]) -> list[str]:
    value = measures.get("stable_correlation")
    if value is None or value < UNSTABLE:
        return []
    return [f"stable (rank correlation {value:.2f} with other runs)"]


def _not_necessary(measures: Mapping[str, float | None], stay: float) -> str:
    """Say why an explanation that could be left out is none."""
    inside, outside = measures.get("inside_agreement"), measures.get("outside_agreement")
    chance = measures.get("chance") or 0.0
    halfway = (1 + chance) / 2
    if inside is not None and outside is not None and outside >= max(inside - 0.05, halfway):
        return (
            f"the complement predicts as well ({outside:.0%} of the answers, the explanation "
            f"{inside:.0%}): two explanations exist, or none is needed"
        )
    return (
        f"not necessary: {stay:.0%} of the answers stay with the explanation redrawn, so what is "
        "highlighted hardly matters"
    )


def _notes(measures: Mapping[str, float | None]) -> tuple[str, ...]:
    def low(name: str, limit: float) -> float | None:
        value = measures.get(name)
        return value if value is not None and value < limit else None

    notes = []
    if (spread := low("spread", NARROW)) is not None:
        notes.append(f"scores span only {spread:.2f} in a graph: a narrow spread")
    if (moved := low("steady", UNSTEADY)) is not None:
        notes.append(
            f"not steady: between the last epochs, ranks of edges correlate by {moved:.2f} only"
        )
    if (other := low("stable_correlation", UNSTABLE)) is not None:
        notes.append(f"not stable: the ranks of other runs correlate by {other:.2f} only")
    for name, what in (
        ("untrained_correlation", "an untrained model"),
        ("shuffled_correlation", "a model trained on shuffled labels"),
    ):
        value = measures.get(name)
        if value is not None and value > LIKE_UNTRAINED:
            notes.append(f"{what} ranks edges alike (correlation {value:.2f})")
    rejected = measures.get("est_rejected")
    if rejected is not None:
        notes.append(f"{rejected:.0%} of graphs rejected by EST")
    return tuple(notes)
