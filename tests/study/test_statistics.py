"""Paired comparisons, against enumeration and the textbook formulas."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from gsat.study.statistics import PairedComparison, compare_paired, holm


def signed_ranks(gaps: np.ndarray) -> float:
    """Two-sided p of Wilcoxon's test, over all combinations of signs."""
    ranks = np.abs(gaps).argsort().argsort() + 1
    middle = ranks.sum() / 2
    seen = abs(ranks[gaps > 0].sum() - middle)
    every = itertools.product([False, True], repeat=len(gaps))
    falls = [abs(ranks[list(signs)].sum() - middle) for signs in every]
    return float(np.mean([fall >= seen for fall in falls]))


def test_the_difference_is_over_the_seeds_that_both_have() -> None:
    draw = np.random.default_rng(3)
    one, two = draw.normal(80.5, 2, 8), draw.normal(78, 4, 8)
    first, second = dict(enumerate(one.tolist())), dict(enumerate(two.tolist()))
    gaps = one - two
    pair = compare_paired(first, second | {99: 0.0})
    assert pair is not None
    assert pair.n == 8
    assert pair.difference == pytest.approx(gaps.mean())
    assert pair.error == pytest.approx(math.sqrt(((gaps - gaps.mean()) ** 2).sum() / 7 / 8))
    assert pair.p == pytest.approx(stats.ttest_1samp(gaps, 0).pvalue)
    assert pair.wilcoxon == pytest.approx(signed_ranks(gaps))
    assert pair.ratio == pytest.approx(math.sqrt(np.var(one, ddof=1) / np.var(two, ddof=1)))
    few = compare_paired(first, {seed: second[seed] for seed in (1, 3, 4)})
    assert few is not None
    assert (few.n, few.wilcoxon) == (3, None)
    assert few.difference == pytest.approx(gaps[[1, 3, 4]].mean())
    six, five = (compare_paired(first, {s: second[s] for s in range(n)}) for n in (6, 5))
    assert six is not None
    assert five is not None
    assert six.wilcoxon is not None
    assert five.wilcoxon is None
    assert compare_paired(first, {99: 0.0}) is None


def test_undefined_values_are_none() -> None:
    one = compare_paired({0: 1.0}, {0: 0.5})
    assert one == PairedComparison(1, 0.5, None, None, None, None)
    flat = dict.fromkeys(range(8), 1.0)
    assert compare_paired(flat, flat) == PairedComparison(8, 0.0, 0.0, None, None, None)
    varied = compare_paired(flat, dict(enumerate(np.arange(8.0))))
    assert varied is not None
    assert varied.ratio == 0.0


def test_holm_rejects_the_same_hypotheses_as_the_step_down_procedure() -> None:
    draw = np.random.default_rng(0)
    for _ in range(50):
        p = draw.uniform(0, 0.2, 6).tolist()
        corrected = holm(p)
        for level in (0.01, 0.05, 0.1):
            # The procedure itself: go up from the smallest until one is too large.
            rejected = set()
            for rank, place in enumerate(np.argsort(p)):
                if p[place] > level / (len(p) - rank):
                    break
                rejected.add(int(place))
            assert {i for i, value in enumerate(corrected) if value <= level} == rejected


def test_holm_counts_only_defined_values() -> None:
    assert holm([None, 0.4, None]) == [None, 0.4, None]
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
