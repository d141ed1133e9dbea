"""The same seed gives the same bytes, whatever else happens in the process."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gsat
from gsat.core.errors import RecipeError
from gsat.datasets.load import Dataset
from gsat.methods.gsat import GSATMethod
from gsat.training.recipe import load_data
from training_harness import SMALL, differing, outcome, small_recipe

# `fit` takes the data and the network as they are.
FIT = {name: SMALL[name] for name in ("epochs", "batch_size", "r_interval")}


@pytest.fixture
def data() -> Dataset:
    return load_data(small_recipe())


def fresh_model(data: Dataset, seed: int = 0) -> gsat.GSAT:
    return gsat.GSAT(gsat.GIN.for_data(data, hidden=8, layers=1, seed=seed), seed=seed)


def weights(model: torch.nn.Module) -> dict[str, bytes]:
    return {name: t.numpy().tobytes() for name, t in model.state_dict().items()}


@pytest.fixture
def generators() -> Iterator[None]:
    """Fail if a test has drawn from a global generator, which belongs to the user."""
    before = (torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate())
    yield
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])
    assert random.getstate() == before[2]


def test_the_same_seed_gives_the_same_bytes(
    run_path: Path, uninterrupted: dict[str, bytes]
) -> None:
    # Whatever was drawn before, and however often a run came before this one.
    torch.manual_seed(17)
    torch.rand(5)
    np.random.seed(3)
    random.seed(4)
    gsat.train(small_recipe(), run_path)
    assert differing(outcome(run_path), uninterrupted) == []


def test_another_seed_gives_another_model(run_path: Path, uninterrupted: dict[str, bytes]) -> None:
    gsat.train(small_recipe(seed=1), run_path)
    same = outcome(run_path).keys() - set(differing(outcome(run_path), uninterrupted))
    assert same == set()


@pytest.mark.usefixtures("generators")
def test_training_leaves_the_users_generators_alone(data: Dataset) -> None:
    gsat.train(small_recipe(epochs=2))
    gsat.fit(fresh_model(data), data, **{**FIT, "epochs": 2})


def test_fit_trains_the_model_as_it_stands(data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[dict[str, bytes]] = []
    step = GSATMethod.step

    def spy(self: GSATMethod, *args: Any) -> Any:
        started.append(weights(self.model))
        return step(self, *args)

    monkeypatch.setattr(GSATMethod, "step", spy)
    model = fresh_model(data, seed=5)
    before = weights(model)
    run = gsat.fit(model, data, **{**FIT, "epochs": 2})
    assert started[0] == before
    assert run.model is model
    assert weights(model) != before
    assert not model.training


def test_fit_and_train_agree(data: Dataset, run_path: Path) -> None:
    run = gsat.fit(fresh_model(data), data, **FIT)
    assert weights(run.model) == weights(gsat.train(small_recipe(), run_path).model)
    # The seed of `fit` decides the order and the draws, not the split of the data.
    other = gsat.fit(fresh_model(data), data, seed=1, **FIT)
    assert weights(other.model) != weights(run.model)
    assert other.recipe.data.split_seed == 0


def test_fit_records_what_it_was_given(data: Dataset) -> None:
    model = gsat.GSAT(
        gsat.GIN.for_data(data, hidden=8, layers=1, dropout=0.1),
        "node",
        extractor_dropout=0.2,
        temperature=2.0,
        sampling="none",
    )
    recipe = gsat.fit(model, data, seed=3, epochs=1, lr=0.5).recipe
    net, own = recipe.backbone, recipe.settings
    assert (net.hidden, net.layers, net.dropout) == (8, 1, 0.1)
    assert (own.attention, own.extractor_dropout) == ("node", 0.2)
    assert (own.temperature, own.sampling) == (2.0, "none")
    assert recipe.data.options["graphs"] == 60
    assert (recipe.seed, recipe.data.split_seed, recipe.training.lr) == (3, 0, 0.5)


@pytest.mark.parametrize(
    "wrong",
    [{"hidden": 16}, {"attention": "node"}, {"graphs": 100}, {"data_seed": 1}, {"split_seed": 7}],
)
def test_fit_refuses_settings_that_the_model_or_data_contradict(
    wrong: dict[str, Any], data: Dataset
) -> None:
    (name,) = wrong
    with pytest.raises(RecipeError, match=name):
        gsat.fit(fresh_model(data), data, epochs=1, **wrong)


def test_every_epoch_sees_every_graph_once_in_an_order_of_its_own(
    data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[int, list[list[int]]] = {}
    step = GSATMethod.step

    def spy(self: GSATMethod, batch: Any, context: Any) -> Any:
        seen.setdefault(context.epoch, []).append(batch.graph_row.tolist())
        return step(self, batch, context)

    monkeypatch.setattr(GSATMethod, "step", spy)
    gsat.train(small_recipe(epochs=3))
    orders = [[row for rows in seen[epoch] for row in rows] for epoch in range(3)]
    for epoch, order in enumerate(orders):
        assert [len(rows) for rows in seen[epoch]] == [32, 16]  # the last batch is not dropped
        assert sorted(order) == sorted(data.splits["train"])
    assert orders[0] != orders[1] != orders[2] != orders[0]
