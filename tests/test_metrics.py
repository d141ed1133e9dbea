"""Metrics against other libraries and plain loops, and undefined values and invalid input."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
import torchmetrics.functional as tm
from numpy.typing import NDArray
from scipy import stats
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score, roc_auc_score

from gsat import metrics
from gsat.metrics import (
    accuracy,
    better,
    explanation_auc,
    mae,
    mean_graph_auc,
    precision_at_k,
    r2,
    roc_auc,
)

NAN, INF = float("nan"), float("inf")
Array = NDArray[Any]


def random_split(seed: int, levels: int, graphs: int = 60) -> tuple[Array, Array, Array]:
    """Scores with ties, labels and a pointer with empty, one-edge and one-class graphs."""
    rng = np.random.default_rng(seed)
    size = rng.integers(0, 14, graphs)
    size[:6] = [0, 1, 2, 0, 1, 9]
    size[-1] = 0
    ptr = np.concatenate([[0], np.cumsum(size)])
    scores = rng.integers(0, levels, ptr[-1]) / levels
    truth = rng.random(ptr[-1]) < 0.4
    truth[ptr[5] : ptr[6]] = True
    return scores, truth, ptr


def pair_auc(scores: Array, truth: Array) -> float:
    """The definition: fraction of (positive, negative) pairs in order; ties count one half."""
    wins = [1.0 if p > n else 0.5 if p == n else 0.0 for p in scores[truth] for n in scores[~truth]]
    return sum(wins) / len(wins)


def slow_mean_graph_auc(scores: Array, truth: Array, ptr: Array) -> float:
    areas = []
    for a, b in pairwise(ptr):
        if 0 < truth[a:b].sum() < b - a:
            areas.append(pair_auc(scores[a:b], truth[a:b]))
    return sum(areas) / len(areas)


def slow_precision(scores: Array, truth: Array, ptr: Array, k: int) -> float:
    values = []
    for a, b in pairwise(ptr):
        edges = sorted(range(a, b), key=lambda e: (-scores[e], e))[:k]
        values.append(sum(int(truth[e]) for e in edges) / k)
    return sum(values) / len(values)


# Accuracy


def test_accuracy_equals_torchmetrics() -> None:
    rng = np.random.default_rng(0)
    predicted, target = torch.tensor(rng.integers(0, 3, (2, 200)))
    expected = tm.accuracy(predicted, target, "multiclass", num_classes=3, average="micro")
    assert accuracy(predicted, target) == pytest.approx(float(expected), abs=1e-6)


def test_accuracy_leaves_out_missing_targets() -> None:
    assert accuracy([1, 0, 1, 1], [1, NAN, 0, NAN]) == 0.5
    assert accuracy([[1, 0], [1, 1]], [[1.0, NAN], [1.0, 1.0]]) == 1.0
    assert accuracy([0, 0], [1, 1]) == 0.0
    assert accuracy([1, 0], [NAN, NAN]) is None
    assert accuracy([], []) is None


# ROC area


@pytest.mark.parametrize("levels", [2, 7, 10**6])
@pytest.mark.parametrize("seed", range(5))
def test_roc_auc_equals_sklearn(seed: int, levels: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(-levels, levels, 300) / 3
    target = rng.random(300) < 0.3
    expected = roc_auc_score(target, scores)
    assert roc_auc(scores, target) == pytest.approx(expected, rel=0, abs=1e-12)
    assert explanation_auc(scores, target) == pytest.approx(expected, rel=0, abs=1e-12)
    keep = np.arange(300) % 3 > 0
    missing = np.where(keep, target, NAN)
    assert roc_auc(scores, missing) == pytest.approx(
        roc_auc_score(target[keep], scores[keep]), abs=1e-12
    )


def test_roc_auc_multi_task_follows_ogb() -> None:
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 20, (150, 6)) / 4 + 10 * np.arange(6)  # tasks have different scales
    target = (rng.random((150, 6)) < 0.4).astype(float)
    target[rng.random((150, 6)) < 0.3] = NAN
    target[:, 1] = 0  # one class
    target[:, 2] = NAN  # no labels
    target[target[:, 4] == 0, 4] = NAN  # one class without the missing entries
    areas = []
    for task in range(6):
        known = ~np.isnan(target[:, task])
        if len(set(target[known, task])) == 2:
            areas.append(roc_auc_score(target[known, task], scores[known, task]))
    assert len(areas) == 3
    assert roc_auc(scores, target) == pytest.approx(np.mean(areas), rel=0, abs=1e-12)
    assert roc_auc(scores[:, [1, 2, 4]], target[:, [1, 2, 4]]) is None


def test_offsets_between_graphs_change_the_pooled_area_but_not_the_mean() -> None:
    scores, truth, ptr = [0.1, 0.2, 5.1, 5.2], [0, 1, 0, 1], [0, 2, 4]
    assert explanation_auc(scores, truth) == 0.75
    assert mean_graph_auc(scores, truth, ptr) == 1.0


@pytest.mark.parametrize("value", [0, 1])
def test_one_class_is_undefined(value: int) -> None:
    truth = [value] * 4
    scores = [0.1, 0.2, 0.3, 0.4]
    results = [
        roc_auc(scores, truth),
        explanation_auc(scores, truth),
        mean_graph_auc(scores, truth, [0, 2, 4]),
    ]
    assert json.dumps(results) == "[null, null, null]"


def test_empty_input_is_undefined() -> None:
    assert roc_auc([], []) is None
    assert roc_auc(np.zeros((0, 3)), np.zeros((0, 3))) is None
    assert roc_auc(np.zeros((3, 0)), np.zeros((3, 0))) is None
    assert roc_auc([0.5, 0.6], [NAN, NAN]) is None
    assert explanation_auc([], []) is None
    assert mean_graph_auc([], [], [0]) is None
    assert mean_graph_auc([], [], [0, 0, 0]) is None


def test_ties_count_one_half() -> None:
    assert roc_auc([0.3] * 5, [1, 0, 0, 1, 0]) == 0.5
    assert roc_auc([0.0, -0.0], [1, 0]) == 0.5
    assert roc_auc([0, 1], [0, 1]) == 1.0
    assert roc_auc([1, 0], [0, 1]) == 0.0


@pytest.mark.parametrize("levels", [2, 5, 10**6])
@pytest.mark.parametrize("seed", range(5))
def test_mean_graph_auc_equals_loop(seed: int, levels: int) -> None:
    scores, truth, ptr = random_split(seed, levels)
    expected = slow_mean_graph_auc(scores, truth, ptr)
    assert mean_graph_auc(scores, truth, ptr) == pytest.approx(expected, rel=0, abs=1e-12)


# Precision


@pytest.mark.parametrize("k", [1, 5, 8])
@pytest.mark.parametrize("levels", [2, 5, 10**6])
@pytest.mark.parametrize("seed", range(4))
def test_precision_equals_loop(seed: int, levels: int, k: int) -> None:
    scores, truth, ptr = random_split(seed, levels)
    expected = slow_precision(scores, truth, ptr, k)
    assert precision_at_k(scores, truth, ptr, k) == pytest.approx(expected, rel=0, abs=1e-12)


def test_precision_uses_five_edges_by_default_and_divides_by_five() -> None:
    assert precision_at_k([0.1, 0.2, 0.3], [1, 1, 1], [0, 3]) == 3 / 5
    assert precision_at_k(np.arange(7), [1, 1, 0, 0, 0, 1, 0], [0, 7]) == 1 / 5


def test_ties_are_resolved_in_favour_of_the_earlier_edge() -> None:
    # NumPy sorts up to 16 values by insertion, which is always stable.
    truth = np.zeros(100)
    truth[:5] = 1
    assert precision_at_k(np.full(100, 0.5), truth, [0, 100]) == 1.0
    assert precision_at_k(np.full(100, 0.5), truth[::-1], [0, 100]) == 0.0


def test_precision_without_true_edges_is_zero_but_without_edges_undefined() -> None:
    assert precision_at_k([0.3, 0.2], [0, 0], [0, 2]) == 0.0
    assert precision_at_k([], [], [0]) is None
    assert precision_at_k([], [], [0, 0, 0]) is None


# Regression


def test_regression_equals_sklearn() -> None:
    rng = np.random.default_rng(11)
    pred, target = rng.normal(2, 1, 80), rng.normal(2, 1, 80)
    target[::4] = NAN
    known = ~np.isnan(target)
    assert r2(pred, target) == pytest.approx(r2_score(target[known], pred[known]))
    assert r2(pred[:, None], target[:, None]) == r2(pred, target)
    assert mae(pred, target) == pytest.approx(mean_absolute_error(target[known], pred[known]))
    squared = mean_squared_error(target[known], pred[known])
    assert metrics.rmse(pred, target) == pytest.approx(squared**0.5)
    known_pred, known_target = torch.tensor(pred[known]), torch.tensor(target[known])
    assert r2(pred, target) == pytest.approx(float(tm.r2_score(known_pred, known_target)))
    table = np.stack([target, target[::-1]], axis=1)
    assert mae(np.zeros((80, 2)), table) == pytest.approx(np.nanmean(np.abs(table)))


def test_regression_undefined() -> None:
    assert r2([0.1, 0.2, 0.3, 0.4], [0.1, 0.1, 0.1, NAN]) is None  # the mean of three 0.1 is not
    assert r2([1.0, 2.0], [NAN, 3.0]) is None
    assert r2([1.0], [NAN]) is None
    assert metrics.rmse([1.0], [NAN]) is None
    assert r2([], []) is None
    assert mae([1.0], [NAN]) is None
    assert mae([], []) is None
    assert mae([1.0, 2.0], [3.0, 3.0]) == 1.5


# Selection


@pytest.mark.parametrize(
    ("metric", "loss", "best_metric", "best_loss", "wins"),
    [
        (0.9, 5.0, 0.8, 0.1, True),
        (0.8, 0.1, 0.9, 5.0, False),
        (0.9, 0.4, 0.9, 0.5, True),
        (0.9, 0.5, 0.9, 0.5, False),
        (0.9, 0.6, 0.9, 0.5, False),
        (0.0, 9.0, None, None, True),
        (-1.0, 9.0, None, 0.1, True),
        (0.1, 9.0, NAN, 0.1, True),
        (None, 0.1, None, None, False),
        (NAN, 0.1, None, None, False),
        (None, 0.1, 0.5, 0.2, False),
        (NAN, 0.1, 0.5, 0.2, False),
        (0.9, NAN, 0.9, 0.5, False),
        (0.9, None, 0.9, 0.5, False),
        (0.9, NAN, 0.9, NAN, False),
        (0.9, 0.4, 0.9, None, True),
        (0.9, 0.4, 0.9, NAN, True),
        (0.9, NAN, 0.8, 0.5, True),
    ],
)
def test_better(
    metric: float | None,
    loss: float | None,
    best_metric: float | None,
    best_loss: float | None,
    wins: bool,
) -> None:
    assert better(metric, loss, best_metric, best_loss) is wins


# Input


def test_tensors_of_any_kind() -> None:
    scores, truth = torch.tensor([0.2, 0.9, 0.4, 0.7]), torch.tensor([False, True, True, False])
    ptr = torch.tensor([0, 2, 4])
    results = [
        accuracy(truth.long(), truth),
        roc_auc(scores[:, None], truth[:, None].float()),
        explanation_auc(scores.half(), truth.int()),
        mean_graph_auc(scores, truth, ptr),
        precision_at_k(scores, truth, ptr.int(), 1),
        r2(truth[:, None].float(), truth[:, None].float()),
        mae(scores, scores + 1),
    ]
    assert results == [1.0, 0.75, 0.75, 0.5, 0.5, 1.0, pytest.approx(1.0)]
    assert {type(result) for result in results} == {float}


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
@pytest.mark.parametrize(
    "function",
    [
        accuracy,
        roc_auc,
        explanation_auc,
        lambda s, t: mean_graph_auc(s, t, [0, 3]),
        lambda s, t: precision_at_k(s, t, [0, 3]),
        r2,
        mae,
    ],
)
def test_scores_must_be_finite(function: Callable[..., float | None], bad: float) -> None:
    with pytest.raises(ValueError, match="1 of 3"):
        function([0.0, bad, 1.0], [0, 1, 0])


@pytest.mark.parametrize("function", [accuracy, roc_auc, explanation_auc, r2, mae])
def test_shapes_must_match(function: Callable[..., float | None]) -> None:
    with pytest.raises(ValueError, match=r"\(2,\)"):
        function([0.0, 1.0], [[0.0], [1.0]])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: roc_auc([0.1, 0.2], [0, 2]), "target"),
        (lambda: roc_auc(np.zeros((1, 1, 1)), np.zeros((1, 1, 1))), r"\(1, 1, 1\)"),
        (lambda: explanation_auc([0.1, 0.2], [0, 0.5]), "truth"),
        (lambda: explanation_auc([0.1, 0.2], [0, NAN]), "truth"),
        (lambda: explanation_auc([[0.1]], [[0]]), r"\(1, 1\)"),
        (lambda: r2([[0.1, 0.2]], [[0.1, 0.2]]), "pred"),
        (lambda: mae([0.1], [INF]), "target"),
        (lambda: precision_at_k([0.1], [1], [0, 1], k=0), "k "),
        (lambda: precision_at_k([0.1], [1], [1, 1]), "ptr"),
        (lambda: mean_graph_auc([0.1, 0.2], [0, 1], [0, 1]), "2"),
        (lambda: mean_graph_auc([0.1, 0.2], [0, 1], [0, 2, 1, 2]), "ptr"),
        (lambda: mean_graph_auc([0.1], [1], [0.0, 1.0]), "ptr"),
        (lambda: mean_graph_auc([], [], np.zeros(0, dtype=int)), "ptr"),
        (lambda: mean_graph_auc([0.1], [1], [[0, 1]]), "ptr"),
    ],
)
def test_bad_input_is_refused(function: Callable[[], float | None], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        function()


def test_inputs_are_left_alone() -> None:
    scores, truth, ptr = random_split(0, 5)
    before = scores.copy(), truth.copy(), ptr.copy()
    mean_graph_auc(scores, truth, ptr)
    precision_at_k(scores, truth, ptr)
    for old, new in zip(before, (scores, truth, ptr), strict=True):
        np.testing.assert_array_equal(old, new)


def test_large_splits_keep_their_precision() -> None:
    rng = np.random.default_rng(5)
    scores = rng.random(200_000)
    truth = rng.random(200_000) < 0.1 + 0.2 * scores
    expected = roc_auc_score(truth, scores)
    assert explanation_auc(scores, truth) == pytest.approx(expected, rel=0, abs=1e-12)


def test_top_n_by_brute_force() -> None:
    rng = np.random.default_rng(3)
    ptr = [0, 6, 7, 15, 20]
    truth = (rng.random(20) < 0.3).astype(float)
    truth[15:] = 0  # a graph without any
    scores = rng.permutation(20) / 20
    shares = []
    for first, last in pairwise(ptr):
        true = np.flatnonzero(truth[first:last])
        if len(true):
            best = np.argsort(-scores[first:last])[: len(true)]
            shares.append(len(set(best) & set(true)) / len(true))
    assert metrics.top_n(scores, truth, ptr) == pytest.approx(np.mean(shares))
    # Equal scores say nothing: as good as chance.
    assert metrics.top_n(np.ones(8), [1, 1, 0, 0, 0, 0, 0, 0], [0, 8]) == pytest.approx(0.25)
    assert metrics.top_n(scores, np.zeros(20), ptr) is None


def test_rank_correlation_by_scipy() -> None:
    rng = np.random.default_rng(4)
    ptr = [0, 6, 6, 7, 20, 24]
    first, second = rng.integers(0, 6, 24) / 6, rng.random(24)
    second[20:] = 0.5  # constant: left out, as are the graphs of no edge and of one
    known = [stats.spearmanr(first[a:b], second[a:b]).statistic for a, b in ((0, 6), (7, 20))]
    actual = metrics.mean_graph_correlation(first, second, ptr)
    assert actual == pytest.approx(np.mean(known), abs=1e-12)
    assert metrics.mean_graph_correlation(first, np.ones(24), ptr) is None
    assert metrics.mean_graph_correlation([], [], [0]) is None
    for one, two in (([0.1, 0.2], [NAN, 1]), (np.ones((2, 2)), np.ones((2, 2)))):
        with pytest.raises(ValueError, match="scores"):
            metrics.mean_graph_correlation(one, two, [0, 2])


def test_spearman_is_scipys_with_ties_and_without_and_undefined_for_constants() -> None:
    draw = np.random.default_rng(0)
    for size, levels in ((2, 3), (5, 3), (40, 3), (40, 1000)):
        for _ in range(20):
            one, two = draw.integers(0, levels, (2, size)) / 7
            constant = np.ptp(one) == 0 or np.ptp(two) == 0
            expected = None if constant else pytest.approx(stats.spearmanr(one, two).statistic)
            assert metrics.spearman(one, two) == expected
    assert metrics.spearman([1.0], [1.0]) is None
    assert metrics.spearman([], []) is None
