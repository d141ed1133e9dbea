"""Comparing two methods over the seeds that both have: pure functions of numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

WILCOXON_FROM = 6  # with fewer pairs it can't fall below 5 %


@dataclass(frozen=True)
class Paired:
    """Two methods on the same seeds.

    Attributes:
        n: how many seeds both have. difference: mean of first minus second. error: its standard
            error. p: of the paired t test, two-sided. wilcoxon: of the signed-rank test, two-sided.
        ratio: of the sample standard deviations, first over second.
            All but the difference are None where they are not defined.
    """

    n: int
    difference: float
    error: float | None
    p: float | None
    wilcoxon: float | None
    ratio: float | None


def paired(first: Mapping[int, float], second: Mapping[int, float]) -> Paired | None:
    """Compare values by seed on the seeds that both have; None if there are none."""
    # Takes a second to import, which only those who compare should pay.
    from scipy import stats

    seeds = sorted(first.keys() & second.keys())
    if not seeds:
        return None
    one = np.array([first[seed] for seed in seeds])
    two = np.array([second[seed] for seed in seeds])
    gaps, n = one - two, len(seeds)
    error = float(gaps.std(ddof=1)) / math.sqrt(n) if n > 1 else None
    return Paired(
        n=n,
        difference=float(gaps.mean()),
        error=error,
        # Differences that are all equal leave the test nothing to measure them by.
        p=float(stats.ttest_rel(one, two).pvalue) if n > 1 and _varies(gaps, one) else None,
        wilcoxon=float(stats.wilcoxon(gaps).pvalue) if n >= WILCOXON_FROM and gaps.any() else None,
        ratio=deviation_ratio(one, two),
    )


def deviation_ratio(first: ArrayLike, second: ArrayLike) -> float | None:
    """Sample standard deviation of the first over that of the second; below 1, the first varies
    less. None with fewer than two values, or where the second does not vary."""
    one, two = np.asarray(first), np.asarray(second)
    if len(one) < 2 or len(two) < 2 or not _varies(two, two):
        return None
    return float(one.std(ddof=1) / two.std(ddof=1))


def _varies(values: ArrayLike, scale: ArrayLike) -> bool:
    """Whether values differ by more than rounding, for numbers of such a size."""
    return bool(np.ptp(values) > 1e-9 * np.abs(scale).max())


def holm(p: Sequence[float | None]) -> list[float | None]:
    """p values corrected for their number by Holm's method; those that are None don't count.

    Example:
        >>> holm([0.01, 0.04, None, 0.03])
        [0.03, 0.06, None, 0.06]
    """
    known = sorted((value, place) for place, value in enumerate(p) if value is not None)
    corrected: list[float | None] = [None] * len(p)
    least = 0.0
    for rank, (value, place) in enumerate(known):
        least = max(least, min(1.0, (len(known) - rank) * value))
        corrected[place] = least
    return corrected
