"""The verdict of an audit: passed, mixed or failed, with the evidence for and against it.

The limits were chosen on models whose explanations are known to be right or wrong
(docs/audit.md). Measures without a limit are reported, and do not affect the verdict.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, get_args

from gsat.metric_names import METRIC_TITLES

Outcome = Literal["passed", "mixed", "failed"]
OUTCOMES: Final[tuple[Outcome, ...]] = get_args(Outcome)
Measured = Mapping[str, float | None]

LEAST_SKILL: Final = 0.3  # skill of prediction: 0 is guessing, 1 is no error
# Validation metrics below which a model is weak; guessing has 0.5 and 0.
WEAK: Final = {"roc_auc": (0.7, "ROC AUC"), "r2": (0.3, "R²")}
# For each way of removing information: minimum share of predictions that stay without the rest
# of the graph (sufficient), and how many fewer stay without the explanation (necessary).
LIMITS: Final = {"redrawn": (0.75, 0.2), "levelled": (0.9, 0.3), "removed": (0.85, 0.25)}
_DONE: Final = {"redrawn": "resampled", "levelled": "averaged", "removed": "removed"}
_KEPT: Final = {how: f"rest_{how}" for how in _DONE} | {"removed": "inside_agreement"}
# Bypass of the attention: 0 if predictions without it agree by chance, 1 if all agree.
FAILED_BYPASS: Final = 0.5
MIXED_BYPASS: Final = 0.3
NOTED_BYPASS: Final = 0.1
# Serious evidence: explanations that are sufficient and necessary are mixed.
UNSTABLE: Final = 0.5  # minimum rank correlation with other runs
LIKE_UNTRAINED: Final = 0.7  # maximum rank correlation with a model that has not learnt the task
LEAST_ADVANTAGE: Final = 0.02  # minimum agreement under EST above that of random units
# Evidence that is listed but does not change the outcome.
NARROW: Final = 0.2  # minimum range of the scores of a graph
UNSTEADY: Final = 0.7  # minimum rank correlation with the epoch before
INCONSISTENT: Final = 0.3  # minimum rank correlation with the scores of the attended graph
EST_REJECTED: Final = 0.2  # share of graphs rejected by EST that counts as fragile
COMPLEMENT: Final = 0.05  # minimum agreement of the explanation above that of the complement
CONSTANT: Final = 0.9  # agreement under constant attention that makes a narrow range serious
FLAT: Final = 0.02  # explanations fail if the range of the scores of a graph is smaller

# Settings that may make explanations more faithful, by the cause of a bad verdict; the first one
# that the model does not use already is recommended.
REMEDIES: Final[Mapping[str, tuple[str, ...]]] = {
    "bypass": ("readout=attended",),
    "constant": ("readout=attended", "extractor_norm=row"),
    "unnecessary": ("readout=attended", "extractor_norm=row", "members=3"),
    "insufficient": ("extractor_norm=row", "snapshots=10", "members=3"),
    "unstable": ("snapshots=10", "members=3"),
}
ALL_REMEDIES: Final = frozenset(setting for some in REMEDIES.values() for setting in some)


@dataclass(frozen=True)
class Verdict:
    """Whether explanations are faithful to their model."""

    outcome: Outcome
    reasons: tuple[str, ...]  # findings that decide the outcome
    against: tuple[str, ...] = ()  # evidence against the explanations, also where they passed
    remedy: str | None = None  # a setting that may help, as key=value for gsat train --set

    @property
    def faithful(self) -> bool:
        """Whether the explanations passed."""
        return self.outcome == "passed"

    @property
    def believe(self) -> bool:
        """Former name of ``faithful``."""
        return self.faithful

    @property
    def line(self) -> str:
        """The outcome and its reasons, in one sentence."""
        return f"{self.outcome}: {'; '.join(self.reasons)}"

    def as_dict(self) -> dict[str, object]:
        """Return plain values for JSON; ``believe`` and ``notes`` are former names."""
        return {
            "outcome": self.outcome,
            "verdict": self.line,
            "reasons": list(self.reasons),
            "against": list(self.against),
            "remedy": self.remedy,
            "faithful": self.faithful,
            "believe": self.faithful,
            "notes": list(self.against),
        }


class Finding(NamedTuple):
    """Evidence against explanations."""

    cause: str  # a key of ``REMEDIES``, or another name
    text: str  # a clause
    serious: bool = False  # explanations with it can't pass


def judge(measures: Measured, metric: str, remedies: Collection[str] = ALL_REMEDIES) -> Verdict:
    """Judge explanations by their measures.

    Explanations fail if the model predicts little better than guessing, or does not need its
    attention.
    Otherwise they pass if they are sufficient (predictions stay without the rest of the graph) and
    necessary (fewer stay without the explanation), and there is no serious evidence against them.
    Explanations that are only necessary are mixed: they show a part of what matters. Explanations
    that are only sufficient fail: those of a model that ignores its attention are sufficient, too.
    """
    findings = _findings(measures)

    def verdict(outcome: Outcome, reasons: Sequence[str], *causes: str) -> Verdict:
        against = tuple(finding.text for finding in findings if finding.text not in reasons)
        named = (*causes, *(finding.cause for finding in findings))
        return Verdict(outcome, tuple(reasons), against, _remedy(named, remedies))

    score, skill = measures.get("metric"), measures.get("skill")
    if skill is not None and score is not None and skill < LEAST_SKILL:
        better = "little" if skill > 0 else "no"
        reason = f"{METRIC_TITLES[metric]} {score:.2f}, {better} better than guessing"
        return replace(verdict("failed", [reason]), remedy=None)
    bypass = findings[0] if findings and findings[0].cause == "bypass" else None
    if bypass is not None and _reaches(measures.get("bypass"), FAILED_BYPASS):
        return verdict("failed", [bypass.text])
    spread = measures.get("spread")
    if spread is not None and spread < FLAT:
        narrow = next(finding for finding in findings if finding.cause in ("constant", "narrow"))
        return verdict("failed", [narrow.text], "constant")
    tests = [test for how in LIMITS if (test := _Test.of(measures, how)) is not None]
    both = next((test for test in tests if test.sufficient and test.necessary), None)
    if both is not None:
        reason = f"the explanations are {both.enough} and {both.needed}"
        serious = next((finding for finding in findings if finding.serious), None)
        if serious is not None:
            return verdict("mixed", [f"{reason}, but {serious.text}"], serious.cause)
        return verdict("passed", [reason, *_stable(measures)])
    necessary = next((test for test in tests if test.necessary), None)
    if necessary is not None:
        reason = f"the explanations are not {necessary.enough}, although {necessary.needed}"
        return verdict("mixed", [reason], "insufficient")
    if not tests:
        return verdict("failed", ["no test of sufficiency and necessity was possible"])
    causes = {finding.cause: finding for finding in findings}
    redundant = causes.get("redundant")
    unneeded = tests[0].needed.replace("of them", "of the predictions")
    reasons = [f"the explanations are not {unneeded}" if redundant is None else redundant.text]
    if not tests[0].sufficient:
        reasons.append(f"the explanations are not {tests[0].enough}")
    return verdict("failed", reasons, "constant" if "constant" in causes else "unnecessary")


class _Test(NamedTuple):
    """Sufficiency and necessity, by one way of removing information."""

    enough: str  # sufficiency with its number, in words
    needed: str  # necessity with its number, in words
    sufficient: bool
    necessary: bool

    @classmethod
    def of(cls, measures: Measured, how: str) -> _Test | None:
        """The test by one key of ``LIMITS``; None where it was not measured."""
        kept, gap = measures.get(_KEPT[how]), measures.get(f"{how}_gap")
        if kept is None or gap is None:
            return None
        least_kept, least_gap = LIMITS[how]
        if how == "removed":
            # Attention 0 removes information only from models that can't bypass their attention.
            # Without the explanation a model predicts by chance: the limit is for a chance of 1/2.
            bypass = measures.get("bypass")
            if bypass is None or _reaches(bypass, NOTED_BYPASS):
                return None
            chance = measures.get("chance")
            least_gap *= 1.0 if chance is None else 2 * (1 - chance)
        done = _DONE[how]
        return cls(
            f"sufficient ({kept:.0%} of the predictions stay with the rest of the graph {done})",
            f"necessary ({max(kept - gap, 0):.0%} of them stay with the explanation {done})",
            _reaches(kept, least_kept),
            _reaches(gap, least_gap),
        )


def _findings(measures: Measured) -> list[Finding]:
    """The evidence against explanations, the most important first."""
    findings = []
    bypass, zero = measures.get("bypass"), measures.get("zero_agreement")
    if bypass is not None and zero is not None and _reaches(bypass, NOTED_BYPASS):
        text = f"{zero:.0%} of the predictions need node features only"
        if _reaches(bypass, FAILED_BYPASS):
            text += ": the model bypasses its attention"
        findings.append(Finding("bypass", text, _reaches(bypass, MIXED_BYPASS)))
    for name, what in (
        ("untrained_correlation", "an untrained model"),
        ("shuffled_correlation", "a model trained on shuffled labels"),
    ):
        value = measures.get(name)
        if value is not None and value > LIKE_UNTRAINED:
            text = f"{what} gives similar scores (rank correlation {value:.2f})"
            findings.append(Finding("unlearnt", text, serious=True))
    other = measures.get("stable_correlation")
    if other is not None and other < UNSTABLE:
        text = f"other runs give different scores (rank correlation {other:.2f})"
        findings.append(Finding("unstable", text, serious=True))
    advantage = measures.get("est_advantage")
    if advantage is not None and advantage < LEAST_ADVANTAGE:
        agreement = measures.get("est_agreement") or 0.0
        text = (
            f"random parts of the graph keep {agreement - advantage:.0%} of the predictions, the "
            f"explanation with random parts {agreement:.0%} (EST)"
        )
        findings.append(Finding("unspecific", text, serious=True))
    inside, outside = measures.get("inside_agreement"), measures.get("outside_agreement")
    halfway = (1 + (measures.get("chance") or 0.0)) / 2
    if inside is not None and outside is not None and outside >= max(inside - COMPLEMENT, halfway):
        text = (
            f"the complement alone gives {outside:.0%} of the predictions, the explanation alone "
            f"{inside:.0%}: the graph has several explanations, or the model needs none"
        )
        findings.append(Finding("redundant", text))
    spread, prior = measures.get("spread"), measures.get("prior_agreement")
    if spread is not None and spread < NARROW:
        text = f"the scores of a graph span only {spread:.2f}"
        collapsed = prior is not None and _reaches(prior, CONSTANT)
        if collapsed:
            text += f", and {prior:.0%} of the predictions stay under constant attention"
        # Equal attention may keep all predictions, although removing the explanation does not.
        removed = _Test.of(measures, "removed")
        needed = removed is not None and removed.necessary
        serious = collapsed and not needed
        findings.append(Finding("constant" if serious else "narrow", text, serious))
    steady = measures.get("steady")
    if steady is not None and steady < UNSTEADY:
        text = f"scores change between the last epochs (rank correlation {steady:.2f})"
        findings.append(Finding("unstable", text))
    again = measures.get("again_correlation")
    if again is not None and again < INCONSISTENT:
        text = f"the attended graph has another explanation (rank correlation {again:.2f})"
        findings.append(Finding("inconsistent", text))
    rejected = measures.get("est_rejected")
    if rejected is not None and _reaches(rejected, EST_REJECTED):
        text = f"EST rejects {rejected:.0%} of the graphs"
        findings.append(Finding("fragile", text))
    return findings


def _stable(measures: Measured) -> list[str]:
    value = measures.get("stable_correlation")
    if value is None or value < UNSTABLE:
        return []
    return [f"other runs give similar scores (rank correlation {value:.2f})"]


def _remedy(causes: Iterable[str], remedies: Collection[str]) -> str | None:
    """The first setting for the first cause that has one which is not used yet."""
    for cause in causes:
        for setting in REMEDIES.get(cause, ()):
            if setting in remedies:
                return setting
    return None


def _reaches(value: float | None, limit: float) -> bool:
    """Whether a share reaches a limit, up to rounding errors of sums."""
    return value is not None and value >= limit - 1e-6


def model_notes(valid: Mapping[str, Any], majority: float | None = None) -> list[str]:
    """List the weaknesses of a model on its validation data."""
    notes = []
    for name, (least, title) in WEAK.items():
        value = valid.get(name)
        if value is not None and value < least:
            notes.append(
                f"the model is weak: its {title} on validation data is {value:.2f}, below {least:g}"
            )
    accuracy = valid.get("accuracy")
    if accuracy is None or majority is None:
        return notes
    # Skill is accuracy with guessing at 0 and no error at 1.
    if accuracy < 1 and accuracy - majority < LEAST_SKILL * (1 - majority):
        notes.append(
            f"the model is weak: its accuracy on validation data is {accuracy:.2f}, and always "
            f"answering the most frequent class would have {majority:.2f}"
        )
    return notes
