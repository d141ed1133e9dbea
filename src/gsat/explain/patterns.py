"""Patterns: fragments of molecules that recur in explanations, with statistics by class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gsat.explain.molecules import ExplainedMolecule, ReportInfo
from gsat.tasks import Task

EXAMPLES: Final = 3
_SEVERAL: Final = ("multilabel", "regression")  # kinds of tasks with one answer per name
FEWEST: Final = 3  # molecules whose explanations hold a pattern


@dataclass(frozen=True)
class Pattern:
    """A fragment that recurs, and its association with one group of molecules."""

    name: str
    kind: str  # "group", "ring" or "chain"
    smiles: str  # the most frequent one
    occurs: int  # number of molecules with it
    used: int  # of these, number with it in the explanation
    used_in_group: int  # of these, number in the group
    # Odds of being in the group with the pattern in the explanation, divided by the odds without;
    # 0.5 is added to each count if one of the four is 0. NaN if the group is empty or everything.
    odds_ratio: float
    p_value: float  # Fisher's exact test, one-sided
    q_value: float  # adjusted by Benjamini and Hochberg for all patterns of all groups
    effect: float | None  # mean effect on the output of the group, over all explanations with it
    deviation: float | None  # of these effects
    log_odds: float | None  # mean effect on the log-odds of the output
    examples: tuple[int, ...]  # positions of molecules: the group's with the largest effect first


@dataclass(frozen=True)
class PatternGroup:
    """The patterns of the molecules with one prediction, such as ``"mutagen"``."""

    name: str
    target: int  # the output whose effects are shown
    size: int  # number of molecules with the prediction
    total: int  # number of all molecules
    patterns: tuple[Pattern, ...]  # the smallest p-value first


@dataclass(frozen=True)
class PatternReport:
    """Patterns with the molecules they were found in, which write themselves to files."""

    groups: Sequence[PatternGroup]
    molecules: Sequence[ExplainedMolecule]
    info: ReportInfo

    def save(self, path: str | Path) -> Path:
        """Write a page (``.html``) or a table (``.csv``)."""
        from gsat.draw.export import write_patterns

        return write_patterns(self, path)


@dataclass
class _Occurrences:
    """The molecules with a fragment, by their positions."""

    kind: str
    occurs: set[int] = field(default_factory=set)
    used: set[int] = field(default_factory=set)
    # Position, and the effects on each output, also in log-odds.
    effects: list[tuple[int, tuple[float, ...], tuple[float, ...] | None]] = field(
        default_factory=list
    )
    smiles: dict[str, int] = field(default_factory=dict)


def find_patterns(
    molecules: Sequence[ExplainedMolecule],
    task: Task,
    names: Sequence[str],
    *,
    fewest: int = FEWEST,
) -> list[PatternGroup]:
    """Find the fragments that recur in explanations, for every answer of the model.

    Groups are the molecules predicted to be of a class or to have a label; in a regression, those
    predicted above and below the median.
    """
    occurrences = _collect(molecules)
    kept = {name: f for name, f in occurrences.items() if len(f.used) >= fewest}
    groups = _groups(molecules, task, names)
    tested = [
        [_pattern(name, f, member, target, fewer) for name, f in kept.items()]
        for _, target, member, fewer in groups
    ]
    p_values = np.array([pattern.p_value for patterns in tested for pattern in patterns])
    q_values = iter(_adjusted(p_values).tolist())
    out = []
    for (name, target, member, _), patterns in zip(groups, tested, strict=True):
        adjusted = [replace(pattern, q_value=next(q_values)) for pattern in patterns]
        adjusted.sort(key=lambda p: (p.p_value, -p.used_in_group, p.name))
        out.append(PatternGroup(name, target, int(member.sum()), len(member), tuple(adjusted)))
    return out


def _collect(molecules: Sequence[ExplainedMolecule]) -> dict[str, _Occurrences]:
    occurrences: dict[str, _Occurrences] = {}
    for place, molecule in enumerate(molecules):
        for fragment in molecule.fragments:
            one = occurrences.setdefault(fragment.name, _Occurrences(fragment.kind))
            one.occurs.add(place)
            smiles = fragment.smiles
            one.smiles[smiles] = one.smiles.get(smiles, 0) + 1
            if fragment.used:
                one.used.add(place)
                if fragment.effects is not None:
                    one.effects.append((place, fragment.effects, fragment.log_odds))
    return occurrences


Group = tuple[str, int, NDArray[np.bool_], bool]  # name, output, members, whether it is the lower


def _groups(
    molecules: Sequence[ExplainedMolecule], task: Task, names: Sequence[str]
) -> list[Group]:
    predicted = np.array([m.explanation.prediction.reshape(-1).tolist() for m in molecules])
    predicted = predicted.reshape(len(molecules), len(names) if task.kind in _SEVERAL else 1)
    if task.kind == "regression":
        out: list[Group] = []
        for number, name in enumerate(names):
            middle = np.median(predicted[:, number]) if len(predicted) else 0.0
            above = predicted[:, number] > middle
            out.append((f"{name} above {middle:.4g}", number, above, False))
            out.append((f"{name} up to {middle:.4g}", number, ~above, True))
        return out
    if task.kind == "multilabel":
        return [(name, i, predicted[:, i] == 1, False) for i, name in enumerate(names)]
    return [(name, i, predicted[:, 0] == i, False) for i, name in enumerate(names)]


def _pattern(
    name: str, occurrences: _Occurrences, member: NDArray[np.bool_], target: int, fewer: bool
) -> Pattern:
    from scipy.stats import fisher_exact

    used = np.zeros(len(member), dtype=bool)
    used[list(occurrences.used)] = True
    table = np.array(
        [[(used & member).sum(), (~used & member).sum()],
         [(used & ~member).sum(), (~used & ~member).sum()]]
    )  # fmt: skip
    effects = np.array([effect[target] for _, effect, _ in occurrences.effects])
    changes = np.array([change[target] for *_, change in occurrences.effects if change is not None])
    largest: dict[int, float] = {}
    for place, effect, change in occurrences.effects:
        towards = (effect if change is None else change)[target]
        largest[place] = max(largest.get(place, -np.inf), -towards if fewer else towards)
    order = sorted(occurrences.used, key=lambda i: (not member[i], -largest.get(i, -np.inf), i))
    return Pattern(
        name=name,
        kind=occurrences.kind,
        smiles=max(occurrences.smiles, key=lambda text: (occurrences.smiles[text], text)),
        occurs=len(occurrences.occurs),
        used=len(occurrences.used),
        used_in_group=int(table[0, 0]),
        odds_ratio=_odds_ratio(table),
        p_value=float(fisher_exact(table, alternative="greater").pvalue),
        q_value=1.0,
        effect=float(effects.mean()) if len(effects) else None,
        deviation=float(effects.std()) if len(effects) else None,
        log_odds=float(changes.mean()) if len(changes) else None,
        examples=tuple(order[:EXAMPLES]),
    )


def _odds_ratio(table: NDArray[np.int64]) -> float:
    if not table.sum(axis=1).all():
        return math.nan  # one group is empty
    counts = table + (0.5 if (table == 0).any() else 0.0)
    return float(counts[0, 0] * counts[1, 1] / (counts[0, 1] * counts[1, 0]))


def _adjusted(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.stats import false_discovery_control

    return false_discovery_control(p_values) if len(p_values) else p_values
