"""Regression, and tasks whose labels stand on nodes."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

from gsat.core.errors import DataError
from gsat.tasks import Task

NAN = float("nan")
PLAIN = Task("regression", 1, "r2")
SCALED = Task("regression", 1, "mae", centre=20.0, scale=4.0)


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
    nothing.backward()  # a batch without labels is no error


def test_answers_and_scores(numbers: tuple[torch.Tensor, torch.Tensor]) -> None:
    logits, y = numbers
    kept = ~y[:, 0].isnan()
    said = SCALED.decide(logits)
    torch.testing.assert_close(said, 4 * logits[:, 0] + 20)
    assert SCALED.probabilities(logits).shape == (30, 0)
    scores = SCALED.scores(logits, y)
    assert scores == {
        "r2": pytest.approx(r2_score(y[kept, 0], said[kept]), rel=1e-5),
        "mae": pytest.approx(mean_absolute_error(y[kept, 0], said[kept]), rel=1e-5),
        "rmse": pytest.approx(mean_squared_error(y[kept, 0], said[kept]) ** 0.5, rel=1e-5),
    }
    assert SCALED.score(logits, y) == scores["mae"]
    assert PLAIN.scores(logits, torch.ones(30, 1))["r2"] is None


def test_more_merit_is_better() -> None:
    near, far = {"mae": 0.1, "r2": 0.9}, {"mae": 0.4, "r2": 0.2}
    for task in (PLAIN, SCALED):
        better, worse = task.merit(near), task.merit(far)
        assert better is not None
        assert worse is not None
        assert better > worse
        assert task.merit({}) is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "regression", "classes": 1}, "set metric='r2', 'mae' or 'rmse'"),
        ({"kind": "regression", "classes": 0, "metric": "r2"}, "1 number or more, not 0"),
        ({"kind": "regression", "classes": 1, "metric": "r2", "scale": 0.0}, "a scale above 0"),
        ({"kind": "regression", "classes": 1, "metric": "r2", "centre": math.inf}, "finite centre"),
        ({"kind": "binary", "scale": 2.0}, "belong to a regression, not to a binary task"),
        ({"kind": "binary", "metric": "r2"}, "'accuracy' or 'roc_auc', not 'r2'"),
        ({"kind": "binary", "level": "edge"}, "level must be 'graph' or 'node', not 'edge'"),
    ],
)
def test_impossible(settings: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        Task(**settings)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_labels_that_can_not_be() -> None:
    PLAIN.check_labels(torch.tensor([[1.0], [NAN]]))
    with pytest.raises(DataError, match=r"graph 1 has the label \[inf\]"):
        PLAIN.check_labels(torch.tensor([[1.0], [math.inf]]))
    with pytest.raises(DataError, match=r"must have shape \[G, 1\], not \[2\]"):
        PLAIN.check_labels(torch.tensor([1.0, 2.0]))
    with pytest.raises(DataError, match="node 1 has the label 3; it must be 0 to 2"):
        Task("multiclass", 3, level="node").check_labels(torch.tensor([0, 3]))


def test_several_numbers() -> None:
    rng = np.random.default_rng(1)
    y = torch.from_numpy(rng.normal([5.0, -80.0], [1.0, 30.0], size=(40, 2)).astype(np.float32))
    y[::5, 0] = NAN
    logits = torch.from_numpy(rng.normal(size=(40, 2)).astype(np.float32))
    task = Task("regression", 2, "rmse", centre=(5.0, -80.0), scale=(1.0, 30.0))
    assert task.num_logits == 2
    assert Task(**json.loads(json.dumps(task.as_dict()))) == task
    said = task.decide(logits)
    torch.testing.assert_close(
        said, logits * torch.tensor([1.0, 30.0]) + torch.tensor([5.0, -80.0])
    )
    present = ~y.isnan()
    errors = ((said - y) / torch.tensor([1.0, 30.0]))[present].square()
    assert float(task.loss(logits, y)) == pytest.approx(float(errors.mean()), rel=1e-5)
    torch.testing.assert_close(task.losses(logits[None], y)[0], errors)
    expected = [
        mean_squared_error(y[present[:, k], k], said[present[:, k], k]) ** 0.5 for k in range(2)
    ]
    assert task.score(logits, y) == pytest.approx(np.mean(expected), rel=1e-5)
    with pytest.raises(DataError, match="as many centres and scales"):
        Task("regression", 3, "r2", centre=(1.0, 2.0))


def test_a_regression_is_of_one_number_unless_said_otherwise() -> None:
    assert Task("regression", metric="r2") == PLAIN
    assert PLAIN.as_dict()["classes"] == PLAIN.num_logits == 1
    assert Task("binary").classes == Task("multilabel", metric="roc_auc").classes == 2
    with pytest.raises(DataError, match="1 number or more, not 0"):
        Task("regression", 0, "r2")
