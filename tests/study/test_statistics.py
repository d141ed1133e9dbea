"""Paired comparisons, against enumeration and the textbook formulas."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import integrate

from gsat.study.statistics import compare_paired, deviation_ratio, holm


def t_test(gaps: np.ndarray) -> float:
    """Two-sided p of a paired t test, by integrating the density of Student's t."""
    n = len(gaps)
    t = abs(gaps.mean()) / (gaps.std(ddof=1) / math.sqrt(n))
    free = n - 1
    scale = math.gamma((free + 1) / 2) / (math.sqrt(free * math.pi) * math.gamma(free / 2))
    tail, _ = integrate.quad(lambda x: (1 + x * x / free) ** (-(free + 1) / 2), t, math.inf)
    return 2 * scale * tail


def signed_ranks(gaps: np.ndarray) -> float:
    """Two-sided p of Wilcoxon's test, over all ways the signs could have fallen."""
    ranks = np.abs(gaps).argsort().argsort() + 1
    middle = ranks.sum() / 2
    seen = abs(ranks[gaps > 0].sum() - middle)
    falls = [abs(ranks[list(signs)].sum() - middle)
             for signs in itertools.product([False, True], repeat=len(gaps))]  # fmt: skip
    return float(np.mean([fall >= seen for fall in falls]))


@pytest.fixture
def values() -> tuple[dict[int, float], dict[int, float]]:
    """Two methods on seeds 0 to 7, the first somewhat better."""
    draw = np.random.default_rng(3)
    first, second = draw.normal(80.5, 2, 8), draw.normal(78, 4, 8)
    return dict(enumerate(first.tolist())), dict(enumerate(second.tolist()))


def test_the_difference_over_seeds(values: tuple[dict[int, float], dict[int, float]]) -> None:
    first, second = values
    gaps = np.array([first[s] - second[s] for s in range(8)])
    found = compare_paired(first, second)
    assert found is not None
    assert found.n == 8
    assert found.difference == pytest.approx(gaps.mean())
    assert found.error == pytest.approx(math.sqrt(((gaps - gaps.mean()) ** 2).sum() / 7 / 8))
    assert found.p == pytest.approx(t_test(gaps))
    assert found.wilcoxon == pytest.approx(signed_ranks(gaps))


def test_only_seeds_that_both_have_are_compared(
    values: tuple[dict[int, float], dict[int, float]],
) -> None:
    first, second = values
    few = {seed: second[seed] for seed in (1, 3, 4)}
    found = compare_paired(first, few | {99: 0.0})
    assert found is not None
    assert found.n == 3
    assert found.difference == pytest.approx(np.mean([first[s] - second[s] for s in (1, 3, 4)]))
    assert found.wilcoxon is None
    assert compare_paired(first, {99: 0.0}) is None


def test_wilcoxon_needs_six_seeds(values: tuple[dict[int, float], dict[int, float]]) -> None:
    first, second = values
    six = compare_paired(first, {s: second[s] for s in range(6)})
    five = compare_paired(first, {s: second[s] for s in range(5)})
    assert six is not None
    assert six.wilcoxon is not None
    assert five is not None
    assert five.wilcoxon is None


def test_what_is_not_defined_is_none() -> None:
    one = compare_paired({0: 1.0}, {0: 0.5})
    assert one is not None
    assert (one.n, one.difference) == (1, 0.5)
    assert one.error is one.p is one.wilcoxon is one.ratio is None
    same = compare_paired(dict.fromkeys(range(8), 1.0), dict.fromkeys(range(8), 1.0))
    assert same is not None
    assert (same.difference, same.error) == (0.0, 0.0)
    assert same.p is same.wilcoxon is same.ratio is None


def test_the_ratio_of_deviations() -> None:
    first, second = [1.0, 2.0, 4.0], [1.0, 5.0, 3.0, 9.0]
    expected = math.sqrt(np.var(first, ddof=1) / np.var(second, ddof=1))
    assert deviation_ratio(first, second) == pytest.approx(expected)
    assert deviation_ratio(first, [2.0, 2.0]) is None
    assert deviation_ratio([1.0], second) is None
    assert deviation_ratio([1.0, 1.0], second) == 0.0


def test_holm_rejects_what_the_step_down_procedure_rejects() -> None:
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


def test_holm_counts_only_what_is_defined() -> None:
    assert holm([None, 0.4, None]) == [None, 0.4, None]
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
