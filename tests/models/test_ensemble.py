"""Ensembles of models: means, spreads, refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import gsat
from gsat.core.errors import GSATError
from gsat.models.ensemble import Ensemble, mean_logits, spread_of_answers
from gsat.tasks import Task
from gsat.training.evaluation import evaluate
from reference import TASKS


@pytest.fixture(scope="module")
def data() -> gsat.Dataset:
    return gsat.load_dataset("ba2motifs", graphs=40)


def model(data: gsat.Dataset, seed: int, on: str = "edge") -> gsat.GSAT:
    return gsat.GSAT(gsat.GIN.for_data(data, hidden=8, seed=seed), on, seed=seed).eval()


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.kind)
def test_answers_are_means_of_probabilities_or_numbers(task: Task) -> None:
    logits = torch.randn(5, 7, task.num_logits, generator=torch.Generator().manual_seed(1))
    mean = mean_logits(task, logits)
    if task.kind == "regression":
        each: list[Tensor] = [task.decide(part) for part in logits]
        actual = task.decide(mean)
    else:
        each = [task.probabilities(part) for part in logits]
        actual = task.probabilities(mean)
    torch.testing.assert_close(actual, torch.stack(each).mean(dim=0))
    spread = spread_of_answers(task, logits).numpy().reshape(7, -1)
    expected = np.std([part.numpy() for part in each], axis=0).reshape(7, -1)
    np.testing.assert_allclose(spread, expected, rtol=1e-4, atol=1e-6)


def test_probabilities_near_0_and_1_keep_their_precision() -> None:
    sure = torch.tensor([[[80.0]], [[80.0]]])
    assert mean_logits(Task("binary"), sure).item() == pytest.approx(80, rel=1e-3)


def test_scores_are_means_with_their_spread(data: gsat.Dataset) -> None:
    members = [model(data, seed) for seed in range(3)]
    ensemble = Ensemble(members)
    each = [member.explain(data.test) for member in members]
    for number, explanation in enumerate(ensemble.explain(data.test)):
        masks = torch.stack([own[number].edge_mask for own in each])
        torch.testing.assert_close(explanation.edge_mask, masks.mean(dim=0))
        torch.testing.assert_close(explanation.edge_spread, masks.std(dim=0, correction=0))
        sure = torch.stack([own[number].probabilities for own in each])
        torch.testing.assert_close(explanation.probabilities, sure.mean(dim=0))
        torch.testing.assert_close(explanation.spread, sure.std(dim=0, correction=0))
    predicted, spread = ensemble.predict_with_spread(data.test)
    torch.testing.assert_close(predicted.probabilities[-1], explanation.probabilities)
    assert spread is not None
    torch.testing.assert_close(spread[-1], explanation.spread)
    assert evaluate(ensemble, data.test)["loss"] > 0


def test_an_ensemble_of_one_is_its_member(data: gsat.Dataset) -> None:
    one = model(data, 0)
    ensemble = Ensemble([one])
    scores = [part.score_edges(data.test) for part in (one, ensemble)]
    torch.testing.assert_close(scores[0], scores[1])
    assert float(ensemble.explain(data.test[0]).edge_spread.max()) == 0


def test_members_are_refined(data: gsat.Dataset) -> None:
    members = [model(data, seed) for seed in range(2)]
    ensemble = Ensemble(members)
    again = torch.stack([member.refined(1).score_edges(data.test)[1] for member in members])
    torch.testing.assert_close(ensemble.refined(1).score_edges(data.test)[1], again.mean(dim=0))
    first = torch.stack([member.score_edges(data.test)[1] for member in members])
    torch.testing.assert_close(ensemble.score_edges(data.test)[1], first.mean(dim=0))


def test_members_may_be_folders(data: gsat.Dataset, tmp_path: Path) -> None:
    members = [model(data, seed) for seed in range(2)]
    for number, member in enumerate(members):
        member.save(tmp_path / str(number))
    loaded = Ensemble([tmp_path / "0", str(tmp_path / "1")])
    assert torch.equal(
        loaded.predict(data.test).logits, Ensemble(members).predict(data.test).logits
    )


def test_members_that_do_not_fit_are_refused(data: gsat.Dataset, tmp_path: Path) -> None:
    with pytest.raises(GSATError, match="at least one model"):
        Ensemble([])
    with pytest.raises(GSATError, match="attention of member 1"):
        Ensemble([model(data, 0), model(data, 1, "node")])
    other = gsat.GSAT(gsat.GIN(10, Task("multiclass", 3)))
    with pytest.raises(GSATError, match="task of member 1"):
        Ensemble([model(data, 0), other])
    with pytest.raises(GSATError, match="save each of its members"):
        Ensemble([model(data, 0)]).save(tmp_path / "x")
