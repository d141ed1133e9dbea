"""Losses, probabilities, predictions and metrics of all tasks."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import (
    accuracy_score,
    mean_absolute_error,
    mean_squared_error,
    r2_score,
    roc_auc_score,
)

from gsat.core.errors import DataError
from gsat.tasks import Task
from reference import TASKS

NAN = float("nan")
BINARY, RANKED = Task("binary"), Task("binary", metric="roc_auc")
THREE = Task("multiclass", 3)
LABELS = Task("multilabel", 4, "roc_auc")
PLAIN = Task("regression", 1, "r2")
SCALED = Task("regression", 1, "mae", centre=20.0, scale=4.0)


def logits(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def labels(seed: int, *shape: int, missing: float = 0.0) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, size=shape).astype(np.float32)
    y[rng.random(shape) < missing] = np.nan
    return torch.from_numpy(y)


@pytest.mark.parametrize(
    ("task", "outputs"),
    [(BINARY, 1), (RANKED, 1), (THREE, 3), (Task("multiclass"), 2), (LABELS, 4)],
)
def test_outputs(task: Task, outputs: int) -> None:
    assert task.num_logits == outputs
    assert Task(**task.as_dict()) == task


# -- loss --------------------------------------------------------------------------------------


def test_binary_loss() -> None:
    given, y = logits(0, 9, 1), labels(0, 9, 1)
    expected = F.binary_cross_entropy(given.sigmoid(), y)
    torch.testing.assert_close(BINARY.loss(given, y), expected)
    torch.testing.assert_close(BINARY.loss(given, y.long()), expected)


def test_multiclass_loss() -> None:
    given, y = logits(0, 9, 3), torch.arange(9) % 3
    expected = -given.log_softmax(1)[torch.arange(9), y].mean()
    torch.testing.assert_close(THREE.loss(given, y), expected)


def test_multilabel_loss_is_the_mean_over_present_labels() -> None:
    given, y = logits(1, 30, 4).requires_grad_(), labels(1, 30, 4, missing=0.4)
    kept = [(i, j) for i in range(30) for j in range(4) if not y[i, j].isnan()]
    assert 40 < len(kept) < 110
    p = given.detach().double().sigmoid()
    right = [p[at] if y[at] == 1 else 1 - p[at] for at in kept]
    found = LABELS.loss(given, y)
    assert float(found.detach()) == pytest.approx(-np.mean(np.log(right)), rel=1e-5)
    found.backward()
    assert given.grad is not None
    assert torch.equal(given.grad == 0, y.isnan())  # missing labels have no gradient


@pytest.mark.parametrize("task", [BINARY, LABELS])
def test_a_batch_without_labels_has_a_zero_loss_and_gradient(task: Task) -> None:
    given = logits(2, 5, task.num_logits).requires_grad_()
    loss = task.loss(given, torch.full((5, task.num_logits), NAN))
    assert float(loss.detach()) == 0.0
    loss.backward()
    assert given.grad is not None
    assert (given.grad == 0).all()


def test_the_loss_is_finite_for_large_logits() -> None:
    sure = torch.tensor([[200.0], [-200.0]])
    assert float(BINARY.loss(sure, torch.tensor([[1.0], [0.0]]))) == 0.0
    assert float(BINARY.loss(sure, torch.tensor([[0.0], [1.0]]))) == pytest.approx(200.0)


def test_the_loss_keeps_float64() -> None:
    assert BINARY.loss(logits(0, 3, 1).double(), labels(0, 3, 1)).dtype == torch.float64


# -- predictions -------------------------------------------------------------------------------


def test_probabilities() -> None:
    one, three, four = logits(3, 6, 1), logits(3, 6, 3), logits(3, 6, 4)
    p = 1 / (1 + torch.exp(-one[:, 0]))
    torch.testing.assert_close(BINARY.probabilities(one), torch.stack([1 - p, p], 1))
    expected = three.exp() / three.exp().sum(1, keepdim=True)
    torch.testing.assert_close(THREE.probabilities(three), expected)
    torch.testing.assert_close(LABELS.probabilities(four), 1 / (1 + torch.exp(-four)))


def test_decisions() -> None:
    given = torch.tensor([[-0.1], [0.1], [3.0], [-3.0]])
    assert BINARY.decide(given).tolist() == [0, 1, 1, 0]
    assert THREE.decide(torch.tensor([[1.0, 3.0, 2.0], [0.0, -1.0, -2.0]])).tolist() == [1, 0]
    found = LABELS.decide(torch.tensor([[1.0, -1.0, 0.5, -0.5]]))
    assert found.tolist() == [[1, 0, 1, 0]]
    assert found.dtype == torch.int64


@pytest.mark.parametrize("task", [BINARY, THREE, LABELS])
def test_the_decision_is_the_most_probable_class(task: Task) -> None:
    given = logits(4, 50, task.num_logits)
    p = task.probabilities(given)
    expected = (p > 0.5).long() if task is LABELS else p.argmax(1)
    assert torch.equal(task.decide(given), expected)


# -- metrics -----------------------------------------------------------------------------------


def test_scores_equal_sklearns() -> None:
    one, y = logits(5, 40, 1).requires_grad_(), labels(5, 40, 1)
    assert BINARY.score(one, y) == pytest.approx(accuracy_score(y[:, 0], one[:, 0] > 0))
    assert RANKED.score(one, y) == pytest.approx(roc_auc_score(y[:, 0], one.detach()[:, 0]))
    three, classes = logits(5, 40, 3), torch.arange(40) % 3
    assert THREE.score(three, classes) == pytest.approx(accuracy_score(classes, three.argmax(1)))


def test_multilabel_score_is_the_mean_over_labels_with_both_classes() -> None:
    given, y = logits(6, 40, 4), labels(6, 40, 4, missing=0.3)
    y[:, 2] = torch.where(y[:, 2].isnan(), y[:, 2], torch.ones(()))  # one class: left out
    columns = []
    for j in (0, 1, 3):
        there = ~y[:, j].isnan()
        columns.append(roc_auc_score(y[there, j], given[there, j]))
    assert LABELS.score(given, y) == pytest.approx(np.mean(columns))


def test_an_undefined_score_is_none() -> None:
    assert RANKED.score(logits(8, 5, 1), torch.ones(5, 1)) is None
    assert BINARY.score(logits(8, 0, 1), torch.ones(0, 1)) is None


# -- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "value"),
    [
        ({"kind": "binary", "classes": 3}, "3"),
        ({"kind": "multiclass", "classes": 1}, "1"),
        ({"kind": "multiclass", "classes": 3, "metric": "roc_auc"}, "metric='accuracy'"),
        ({"kind": "multilabel", "classes": 3}, "metric='roc_auc'"),
        ({"kind": "multilabel", "classes": 0, "metric": "roc_auc"}, "0"),
        ({"kind": "banana"}, "'banana'"),
        ({"kind": "binary", "metric": "f1"}, "'f1'"),
        ({"kind": "regression", "classes": 1}, "metric='r2'"),
        ({"kind": "regression", "classes": 0, "metric": "r2"}, "0"),
        ({"kind": "regression", "classes": 1, "metric": "r2", "scale": 0.0}, "scale"),
        ({"kind": "regression", "classes": 1, "metric": "r2", "centre": math.inf}, "centre"),
        ({"kind": "regression", "classes": 3, "metric": "r2", "centre": (1.0, 2.0)}, "2"),
        ({"kind": "binary", "scale": 2.0}, "scale"),
        ({"kind": "binary", "metric": "r2"}, "'r2'"),
        ({"kind": "binary", "level": "edge"}, "'edge'"),
        ({"kind": "binary", "weights": (1.0,)}, "weights"),
        ({"kind": "binary", "weights": (1.0, 0.0)}, "weights"),
        ({"kind": "binary", "weights": (1.0, math.inf)}, "weights"),
    ],
)
def test_impossible_tasks(settings: dict, value: str) -> None:
    with pytest.raises(DataError, match=value) as caught:
        Task(**settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("task", "y", "value"),
    [
        (Task("binary"), [[0.0], [5.0]], "graph 1"),
        (Task("binary"), [0.0, 1.0], r"\[2\]"),
        (Task("multiclass", 3), [0, 3], "graph 1 .*3"),
        (Task("multiclass", 3, level="node"), [0, 3], "node 1 .*3"),
        (Task("multiclass", 3), [0.0, 1.0], "torch.float32"),
        (Task("multilabel", 2, "roc_auc"), [[0.0, 1.0, 1.0]], r"\[1, 3\]"),
        (Task("multilabel", 2, "roc_auc"), [[0.0, 1.0], [0.0, -1.0]], "graph 1"),
        (PLAIN, [[1.0], [math.inf]], "graph 1 .*inf"),
        (PLAIN, [1.0, 2.0], r"\[2\]"),
    ],
)
def test_invalid_labels_are_named(task: Task, y: list[object], value: str) -> None:
    with pytest.raises(DataError, match=value):
        task.check_labels(torch.tensor(y))


def test_valid_labels() -> None:
    PLAIN.check_labels(torch.tensor([[1.0], [NAN]]))
    Task("binary").check_labels(torch.tensor([[0.0], [float("nan")], [1.0]]))
    Task("multiclass", 3).check_labels(torch.tensor([0, 2]))
    Task("multilabel", 2, "roc_auc").check_labels(torch.tensor([[0.0, float("nan")]]))


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.kind)
def test_the_loss_is_the_mean_over_labels_and_that_of_a_graph_is_its_own(task: Task) -> None:
    given, y = logits(1, 5, 7, task.num_logits), torch.arange(7) % 3
    if task.kind != "multiclass":
        y = labels(1, 7, task.num_logits)
        y[1] = NAN  # none is present
        y[2, 0] = NAN
    each = task.losses(given, y)
    assert each.shape == (5, 7 if task.kind == "multiclass" else int((~y.isnan()).sum()))
    torch.testing.assert_close(each.mean(dim=1), torch.stack([task.loss(one, y) for one in given]))
    alone = torch.stack([task.loss(given[0, i : i + 1], y[i : i + 1]) for i in range(7)])
    torch.testing.assert_close(task.graph_losses(given[0], y), alone)


def test_class_weights_equal_torchs() -> None:
    generator = torch.Generator().manual_seed(0)
    logits, y = torch.randn(50, 3, generator=generator), torch.randint(0, 3, (50,))
    task = Task("multiclass", 3, weights=(0.5, 1.0, 1.5))
    each = F.cross_entropy(logits, y, torch.tensor([0.5, 1.0, 1.5]), reduction="none")
    torch.testing.assert_close(task.loss(logits, y), each.mean())

    y = (torch.rand(50, 2, generator=generator) < 0.2).float()
    y[::4, 1] = torch.nan
    labels = Task("multilabel", 2, "roc_auc", weights=(3.0, 4.0))
    each = F.binary_cross_entropy_with_logits(
        logits[:, :2], y.nan_to_num(), pos_weight=torch.tensor([3.0, 4.0]), reduction="none"
    )
    torch.testing.assert_close(labels.loss(logits[:, :2], y), each[~y.isnan()].mean())

    binary = Task("binary", weights=(1.0, 3.0))
    torch.testing.assert_close(binary.loss(logits[:, :1], y[:, :1]), each[:, 0].mean())
    assert Task(**binary.as_dict()) == binary
    assert "weights" not in Task("binary").as_dict()


# -- regression --------------------------------------------------------------------------------


@pytest.fixture
def numbers() -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(0)
    y = torch.from_numpy(rng.normal(20, 4, size=(30, 1)).astype(np.float32))
    y[::7] = NAN
    return torch.from_numpy(rng.normal(size=(30, 1)).astype(np.float32)), y


def test_the_loss_is_the_squared_error_in_units_of_the_scale(
    numbers: tuple[torch.Tensor, torch.Tensor],
) -> None:
    logits, y = numbers
    kept = ~y[:, 0].isnan()
    for task in (PLAIN, SCALED):
        expected = mean_squared_error(y[kept], task.decide(logits)[kept]) / task.scale**2
        assert float(task.loss(logits, y)) == pytest.approx(expected, rel=1e-5)
        assert Task(**task.as_dict()) == task
    nothing = SCALED.loss(logits.clone().requires_grad_(), torch.full((30, 1), NAN))
    assert float(nothing.detach()) == 0
    nothing.backward()  # a batch without labels is allowed


def test_predictions_and_scores_of_a_regression(numbers: tuple[torch.Tensor, torch.Tensor]) -> None:
    logits, y = numbers
    kept = ~y[:, 0].isnan()
    predicted = SCALED.decide(logits)
    torch.testing.assert_close(predicted, 4 * logits[:, 0] + 20)
    assert SCALED.probabilities(logits).shape == (30, 0)
    scores = SCALED.scores(logits, y)
    assert scores == {
        "r2": pytest.approx(r2_score(y[kept, 0], predicted[kept]), rel=1e-5),
        "mae": pytest.approx(mean_absolute_error(y[kept, 0], predicted[kept]), rel=1e-5),
        "rmse": pytest.approx(mean_squared_error(y[kept, 0], predicted[kept]) ** 0.5, rel=1e-5),
    }
    assert SCALED.score(logits, y) == scores["mae"]
    assert PLAIN.scores(logits, torch.ones(30, 1))["r2"] is None


def test_merit_is_greater_for_better_scores() -> None:
    near, far = {"mae": 0.1, "r2": 0.9}, {"mae": 0.4, "r2": 0.2}
    for task in (PLAIN, SCALED):
        better, worse = task.merit(near), task.merit(far)
        assert better is not None
        assert worse is not None
        assert better > worse
        assert task.merit({}) is None


def test_a_regression_of_several_numbers() -> None:
    rng = np.random.default_rng(1)
    y = torch.from_numpy(rng.normal([5.0, -80.0], [1.0, 30.0], size=(40, 2)).astype(np.float32))
    y[::5, 0] = NAN
    logits = torch.from_numpy(rng.normal(size=(40, 2)).astype(np.float32))
    task = Task("regression", 2, "rmse", centre=(5.0, -80.0), scale=(1.0, 30.0))
    assert task.num_logits == 2
    assert Task(**json.loads(json.dumps(task.as_dict()))) == task
    predicted = task.decide(logits)
    torch.testing.assert_close(
        predicted, logits * torch.tensor([1.0, 30.0]) + torch.tensor([5.0, -80.0])
    )
    present = ~y.isnan()
    errors = ((predicted - y) / torch.tensor([1.0, 30.0]))[present].square()
    assert float(task.loss(logits, y)) == pytest.approx(float(errors.mean()), rel=1e-5)
    torch.testing.assert_close(task.losses(logits[None], y)[0], errors)
    expected = [
        mean_squared_error(y[present[:, k], k], predicted[present[:, k], k]) ** 0.5
        for k in range(2)
    ]
    assert task.score(logits, y) == pytest.approx(np.mean(expected), rel=1e-5)


def test_default_numbers_of_classes() -> None:
    assert Task("regression", metric="r2") == PLAIN
    assert PLAIN.as_dict()["classes"] == PLAIN.num_logits == 1
    assert Task("binary").classes == Task("multilabel", metric="roc_auc").classes == 2
