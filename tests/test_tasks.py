"""Losses, probabilities, decisions and metrics of every kind of task."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import accuracy_score, roc_auc_score

from gsat.core.errors import DataError
from gsat.tasks import Task

NAN = float("nan")
BINARY, RANKED = Task("binary"), Task("binary", metric="roc_auc")
THREE = Task("multiclass", 3)
LABELS = Task("multilabel", 4, "roc_auc")


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


def test_multilabel_loss_is_the_mean_over_the_labels_that_are_there() -> None:
    given, y = logits(1, 30, 4).requires_grad_(), labels(1, 30, 4, missing=0.4)
    kept = [(i, j) for i in range(30) for j in range(4) if not y[i, j].isnan()]
    assert 40 < len(kept) < 110
    p = given.detach().double().sigmoid()
    right = [p[at] if y[at] == 1 else 1 - p[at] for at in kept]
    found = LABELS.loss(given, y)
    assert float(found.detach()) == pytest.approx(-np.mean(np.log(right)), rel=1e-5)
    found.backward()
    assert given.grad is not None
    assert torch.equal(given.grad == 0, y.isnan())  # a missing label pulls at nothing


@pytest.mark.parametrize("task", [BINARY, LABELS])
def test_a_batch_without_any_label_has_no_loss_but_a_gradient(task: Task) -> None:
    given = logits(2, 5, task.num_logits).requires_grad_()
    loss = task.loss(given, torch.full((5, task.num_logits), NAN))
    assert float(loss.detach()) == 0.0
    loss.backward()
    assert given.grad is not None
    assert (given.grad == 0).all()


def test_the_loss_is_finite_for_a_sure_model() -> None:
    sure = torch.tensor([[200.0], [-200.0]])
    assert float(BINARY.loss(sure, torch.tensor([[1.0], [0.0]]))) == 0.0
    assert float(BINARY.loss(sure, torch.tensor([[0.0], [1.0]]))) == pytest.approx(200.0)


def test_the_loss_keeps_float64() -> None:
    assert BINARY.loss(logits(0, 3, 1).double(), labels(0, 3, 1)).dtype == torch.float64


# -- answers -----------------------------------------------------------------------------------


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
def test_a_decision_is_the_likely_answer(task: Task) -> None:
    given = logits(4, 50, task.num_logits)
    p = task.probabilities(given)
    expected = (p > 0.5).long() if task is LABELS else p.argmax(1)
    assert torch.equal(task.decide(given), expected)


# -- metrics -----------------------------------------------------------------------------------


def test_scores_are_sklearns() -> None:
    one, y = logits(5, 40, 1), labels(5, 40, 1)
    assert BINARY.score(one, y) == pytest.approx(accuracy_score(y[:, 0], one[:, 0] > 0))
    assert RANKED.score(one, y) == pytest.approx(roc_auc_score(y[:, 0], one[:, 0]))
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


def test_scores_take_logits_that_carry_gradients() -> None:
    given = logits(7, 8, 1).requires_grad_()
    assert BINARY.score(given, labels(7, 8, 1)) is not None


def test_an_undefined_score_is_none() -> None:
    assert RANKED.score(logits(8, 5, 1), torch.ones(5, 1)) is None
    assert BINARY.score(logits(8, 0, 1), torch.ones(0, 1)) is None


# -- mistakes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "binary", "classes": 3}, "binary task has 2 classes, not 3"),
        ({"kind": "multiclass", "classes": 1}, "at least 2 classes, not 1"),
        ({"kind": "multiclass", "classes": 3, "metric": "roc_auc"}, "metric='accuracy'"),
        ({"kind": "multilabel", "classes": 3}, "metric='roc_auc'"),
        ({"kind": "multilabel", "classes": 0, "metric": "roc_auc"}, "at least 1 label, not 0"),
        ({"kind": "banana"}, "'multilabel' or 'regression', not 'banana'"),
        ({"kind": "binary", "metric": "f1"}, "'accuracy' or 'roc_auc', not 'f1'"),
    ],
)
def test_impossible_tasks(settings: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Task(**settings)


@pytest.mark.parametrize(
    ("task", "y", "said"),
    [
        (Task("binary"), [[0.0], [5.0]], "graph 1 has the label"),
        (Task("binary"), [0.0, 1.0], "shape"),
        (Task("multiclass", 3), [0, 3], "graph 1 has the label 3"),
        (Task("multiclass", 3), [0.0, 1.0], "must be integers, not torch.float32"),
        (Task("multilabel", 2, "roc_auc"), [[0.0, 1.0, 1.0]], "shape"),
        (Task("multilabel", 2, "roc_auc"), [[0.0, 1.0], [0.0, -1.0]], "graph 1 has the label"),
    ],
)
def test_labels_that_can_not_be_name_their_graph(task: Task, y: list[object], said: str) -> None:
    with pytest.raises(DataError, match=said):
        task.check_labels(torch.tensor(y))


def test_labels_that_can_be() -> None:
    Task("binary").check_labels(torch.tensor([[0.0], [float("nan")], [1.0]]))
    Task("multiclass", 3).check_labels(torch.tensor([0, 2]))
    Task("multilabel", 2, "roc_auc").check_labels(torch.tensor([[0.0, float("nan")]]))


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel", "regression"])
def test_losses_of_single_labels_have_the_loss_as_their_mean(kind: str) -> None:
    task = {
        "binary": Task("binary"),
        "multiclass": Task("multiclass", 4),
        "multilabel": Task("multilabel", 3, "roc_auc"),
        "regression": Task("regression", 1, "r2", centre=2.0, scale=3.0),
    }[kind]
    draw = torch.Generator().manual_seed(1)
    logits = torch.randn(5, 7, task.num_logits, generator=draw)
    if kind == "multiclass":
        y = torch.randint(4, (7,), generator=draw)
    else:
        y = torch.randint(2, (7, task.num_logits), generator=draw).float()
        y[2, 0] = torch.nan
    found = task.losses(logits, y)
    assert found.shape == (5, 7 if kind == "multiclass" else y.numel() - 1)
    expected = torch.stack([task.loss(each, y) for each in logits])
    torch.testing.assert_close(found.mean(dim=1), expected)


@pytest.mark.parametrize(
    "task",
    [
        Task("binary"),
        Task("multiclass", 3),
        Task("multilabel", 4, "roc_auc"),
        Task("regression", 1, "r2", centre=2.0, scale=3.0),
    ],
)
def test_the_loss_of_a_graph_is_that_of_a_batch_of_it_alone(task: Task) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(6, task.num_logits, generator=generator)
    if task.kind == "multiclass":
        y = torch.tensor([0, 1, 2, 2, 1, 0])
    else:
        y = (torch.rand(6, task.num_logits, generator=generator) < 0.5).float()
        y[1] = float("nan")  # none is present
        y[2, 0] = float("nan")
    alone = torch.stack([task.loss(logits[i : i + 1], y[i : i + 1]) for i in range(6)])
    torch.testing.assert_close(task.graph_losses(logits, y), alone)


def test_weights_of_classes_are_those_of_torch() -> None:
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


@pytest.mark.parametrize("weights", [(1.0,), (1.0, 0.0), (1.0, float("inf"))])
def test_weights_that_are_none(weights: tuple[float, ...]) -> None:
    with pytest.raises(DataError, match="weights must be 2 numbers above 0"):
        Task("binary", weights=weights)
