"""Comparison of two methods over the seeds they share, as pure functions of numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

MIN_WILCOXON_PAIRS = 6  # with fewer pairs its p value can't fall below 5 %


@dataclass(frozen=True)
class PairedComparison:
    """Two methods on the same seeds; all but ``n`` and ``difference`` may be undefined (None)."""

    n: int
    difference: float  # mean of the first minus the second
    error: float | None  # standard error of that difference
    p: float | None  # two-sided, of the paired t test
    wilcoxon: float | None  # two-sided p value of the signed-rank test
    ratio: float | None  # sample standard deviation of the first over that of the second


def compare_paired(
    first: Mapping[int, float], second: Mapping[int, float]
) -> PairedComparison | None:
    """Compare the values of two methods on the seeds that both have."""
    from scipy import stats  # takes a second to import

    seeds = sorted(first.keys() & second.keys())
    if not seeds:
        return None
    one = np.array([first[seed] for seed in seeds])
    two = np.array([second[seed] for seed in seeds])
    differences, n = one - two, len(seeds)
    # The t test is undefined where all differences are equal, the signed-rank test where all are 0.
    has_t = n > 1 and _varies(differences, one)
    has_wilcoxon = n >= MIN_WILCOXON_PAIRS and bool(differences.any())
    return PairedComparison(
        n=n,
        difference=float(differences.mean()),
        error=float(differences.std(ddof=1)) / math.sqrt(n) if n > 1 else None,
        p=float(stats.ttest_rel(one, two).pvalue) if has_t else None,
        wilcoxon=float(stats.wilcoxon(differences).pvalue) if has_wilcoxon else None,
        ratio=float(one.std(ddof=1) / two.std(ddof=1)) if n > 1 and _varies(two, two) else None,
    )


def _varies(values: ArrayLike, scale: ArrayLike) -> bool:
    """Whether values differ by more than rounding errors of numbers as large as ``scale``."""
    return bool(np.ptp(values) > 1e-9 * np.abs(scale).max())


def holm(p: Sequence[float | None]) -> list[float | None]:
    """Correct p values for multiple comparisons by Holm's method (scipy has none)."""
    defined = sorted((value, place) for place, value in enumerate(p) if value is not None)
    corrected: list[float | None] = [None] * len(p)
    least = 0.0
    for rank, (value, place) in enumerate(defined):
        least = max(least, min(1.0, (len(defined) - rank) * value))
        corrected[place] = least
    return corrected
