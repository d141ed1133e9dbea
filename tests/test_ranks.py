"""Ranks within segments, against SciPy and scikit-learn for each segment."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from gsat.metrics import spearman
from gsat.ranks import (
    agreement_within,
    areas_within,
    correlations_within,
    order_within,
    ranks_within,
    upper_group_within,
)

COUNT = 12  # segments, of which the last has no value


def scores(kind: str, size: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers of all signs and sizes, with ties."""
    values = rng.normal(size=size)
    return {
        "single precision": values.astype(np.float32),
        "double precision": values,
        "ties": np.round(values, 1).astype(np.float32),
        "ties in double precision": np.round(values, 1),
        "zeros of both signs": rng.choice([-1.0, -0.0, 0.0, 1.0], size),
        "huge and tiny": rng.choice([-1e300, -1e-300, 1e-300, 1e300], size),
        "at the ends of single precision": rng.choice(
            np.array([-3.4e38, -1e-45, 1e-45, 3.4e38], dtype=np.float32), size
        ),
        "whole numbers": rng.integers(-5, 5, size),
    }[kind]


KINDS = (
    "single precision", "double precision", "ties", "ties in double precision",
    "zeros of both signs", "huge and tiny", "at the ends of single precision", "whole numbers",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shuffled", [False, True])
def test_segments_are_ranked_independently(kind: str, shuffled: bool) -> None:
    rng = np.random.default_rng(3)
    segment = rng.integers(0, COUNT - 1, 300)
    segment = segment if shuffled else np.sort(segment)
    first, second = scores(kind, 300, rng), rng.random(300)
    labels = rng.integers(0, 2, 300) * (segment > 0)  # segment 0 has one class
    order = order_within(first, segment)
    assert sorted(order) == list(range(300))
    pairs = list(zip(segment[order], first[order], strict=True))
    assert pairs == sorted(pairs)
    ranks = ranks_within(first, segment, COUNT)
    others = ranks_within(second, segment, COUNT)
    areas = areas_within(first, labels, segment, COUNT)
    correlations = correlations_within(ranks, others, segment, COUNT)
    for number in range(COUNT - 1):
        own = segment == number
        np.testing.assert_array_equal(ranks[own], stats.rankdata(first[own]))
        expected = stats.spearmanr(first[own], second[own]).statistic
        assert correlations[number] == pytest.approx(expected, abs=1e-12)
        if number:
            level = stats.rankdata(first[own])  # scikit-learn would equate close numbers
            assert areas[number] == pytest.approx(roc_auc_score(labels[own], level), abs=1e-12)
    assert np.isnan(areas[[0, -1]]).all()
    assert np.isnan(correlations[-1])
    assert spearman(first, second) == stats.spearmanr(first, second).statistic


def test_constant_scores_have_no_correlation_and_half_the_area() -> None:
    segment, labels = np.array([0, 0, 0, 0]), np.array([1, 0, 0, 1])
    ranks = ranks_within(np.ones(4), segment, 1)
    assert ranks.tolist() == [2.5] * 4
    assert np.isnan(correlations_within(ranks, np.arange(4.0), segment, 1)).all()
    assert areas_within(np.ones(4), labels, segment, 1).tolist() == [0.5]


def test_no_values() -> None:
    none, segment = np.zeros(0), np.zeros(0, dtype=np.intp)
    assert ranks_within(none, segment, 2).shape == (0,)
    assert np.isnan(areas_within(none, none, segment, 2)).all()


def test_agreement_is_the_mean_correlation_over_pairs_of_scorings_that_are_not_constant() -> None:
    rng = np.random.default_rng(5)
    segment = rng.integers(0, COUNT - 1, 200)
    scorings = np.round(rng.normal(size=(4, 200)), 1)
    scorings[0, segment == 0] = 0.5
    scorings[1:, segment == 1] = 0.5  # one scoring is left: nothing to compare
    actual = agreement_within(scorings, segment, COUNT)
    assert np.isnan(actual[[1, COUNT - 1]]).all()
    for number in (0, *range(2, COUNT - 1)):
        own = scorings[:, segment == number]
        pairs = combinations([row for row in own if np.ptp(row) > 0], 2)
        expected = np.mean([stats.spearmanr(a, b).statistic for a, b in pairs])
        assert actual[number] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("kind", ["single precision", "ties", "whole numbers"])
def test_the_upper_group_is_the_split_with_the_largest_variance_between_groups(kind: str) -> None:
    rng = np.random.default_rng(7)
    segment = rng.integers(0, COUNT - 1, 150)
    segment[segment == 3] = 4  # no values
    segment[0], segment[segment == 5] = 5, 6  # a single value
    values = scores(kind, 150, rng).astype(np.float64)
    upper = upper_group_within(values, segment, COUNT)
    for number in np.unique(segment):
        own, mine = values[segment == number], upper[segment == number]
        assert mine.any()
        if len(own) == 1:
            continue

        def between(limit: float, own: np.ndarray = own) -> float:
            high, low = own[own >= limit], own[own < limit]
            return len(high) * len(low) * (high.mean() - low.mean()) ** 2

        limits = np.unique(own)[1:]
        best = max(between(limit) for limit in limits)
        assert between(own[mine].min()) == pytest.approx(best)
        assert set(own[mine]).isdisjoint(own[~mine])
