"""IRM and V-REx: their penalties, and environments that belong to the graphs."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.optim import Adam

import gsat
from gsat.core.errors import DataError
from gsat.datasets.load import Dataset
from gsat.graphs import GraphBatch, GraphStore, from_pyg
from gsat.methods import Context, TrainingSettings
from gsat.methods.environments import EnvironmentMethod, Group
from gsat.methods.irm import IRMMethod
from gsat.methods.vrex import VRExMethod
from gsat.ops import Draws
from gsat.tasks import Task
from gsat.training.recipe import make_recipe
from reference import TASKS, random_graphs, whole

BOTH = pytest.mark.parametrize("kind", [IRMMethod, VRExMethod])


@pytest.fixture(scope="module")
def data() -> Dataset:
    return gsat.load_dataset("spmotif-0.5", train_per_class=60)


def make(
    kind: type[EnvironmentMethod], data: Dataset, seed: int = 0, **settings: Any
) -> EnvironmentMethod:
    backbone = gsat.LEConvNet.for_data(data, hidden=8)
    training = TrainingSettings(lr=0.02)
    method = kind.create(backbone, kind.Settings(**settings), training, seed)
    method.prepare(data)
    method.begin("train")
    return method


def small(task: Task, y: Any, **fields: Any) -> Dataset:
    """Ten random graphs, all of them for training."""
    graphs = random_graphs(0, 10, awkward=False)
    for graph, label in zip(graphs, y, strict=True):
        graph.y = torch.as_tensor(label)[None]
    store = from_pyg(graphs)
    for name, values in fields.items():
        store.arrays[f"graph.{name}"] = np.asarray(values)
    return whole(store, task)


def answers(task: Task, count: int, seed: int) -> Group:
    """Random logits in double precision and labels; every third label is missing if it may be."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(count, task.num_logits, generator=generator, dtype=torch.float64)
    if task.kind == "multiclass":
        return logits, torch.randint(task.classes, (count,), generator=generator)
    if task.kind == "regression":
        y = torch.randn(count, 1, generator=generator, dtype=torch.float64)
    else:
        y = torch.randint(2, logits.shape, generator=generator).double()
    y.view(-1)[::3] = torch.nan
    return logits, y


EACH_TASK = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.kind)


def of_task(kind: type[EnvironmentMethod], data: Dataset, task: Task) -> EnvironmentMethod:
    method = make(kind, data)
    method.model.task = task
    return method


# -- the penalties --------------------------------------------------------------------------------


@EACH_TASK
def test_irm_penalty_by_finite_differences(task: Task, data: Dataset) -> None:
    """Against central differences over the scale."""
    method = of_task(IRMMethod, data, task)
    groups = [answers(task, count, seed) for seed, count in enumerate((9, 17))]
    step = 1e-5
    slopes = [
        (task.loss((1 + step) * logits, y) - task.loss((1 - step) * logits, y)) / (2 * step)
        for logits, y in groups
    ]
    expected = np.mean([float(slope) ** 2 for slope in slopes])
    penalty = method.penalty(groups).detach()
    assert float(penalty) == pytest.approx(expected, rel=1e-6)
    assert expected > 1e-4
    assert penalty >= 0


@BOTH
@EACH_TASK
def test_gradients_of_a_penalty_are_those_of_finite_differences(
    kind: type[EnvironmentMethod], task: Task, data: Dataset
) -> None:
    method = of_task(kind, data, task)
    (first, y), (second, z) = answers(task, 7, 1), answers(task, 5, 2)

    def penalty(one: Tensor, other: Tensor) -> Tensor:
        return method.penalty([(one, y), (other, z)])

    inputs = (first.requires_grad_(), second.requires_grad_())
    assert torch.autograd.gradcheck(penalty, inputs)
    for gradient in torch.autograd.grad(penalty(*inputs), inputs):
        assert gradient.abs().max() > 1e-4  # a variance of detached numbers would have none


def test_vrex_is_the_variance_of_the_risks(data: Dataset) -> None:
    method = make(VRExMethod, data)
    groups = [answers(method.model.task, count, seed) for seed, count in enumerate((5, 12, 30))]
    risks = [
        log_loss(y.numpy(), logits.softmax(dim=1).numpy(), labels=[0, 1, 2]) for logits, y in groups
    ]
    assert float(method.penalty(groups)) == pytest.approx(np.var(risks), rel=1e-9)
    sample = make(VRExMethod, data, variance="sample")
    assert float(sample.penalty(groups)) == pytest.approx(np.var(risks, ddof=1), rel=1e-9)
    assert float(sample.penalty(groups[:1])) == 0
    assert float(method.penalty(groups[:1])) == 0
    assert float(method.penalty([groups[0], groups[0]])) == 0


# -- the step -------------------------------------------------------------------------------------


def test_a_step_is_adam_on_loss_and_penalty(data: Dataset) -> None:
    """V-REx written again on plain cross-entropies, with the bases as environments."""
    method = make(VRExMethod, data, environments="base", penalty=3.0)
    plain = copy.deepcopy(method.model.backbone)
    optimiser = Adam(plain.parameters(), 0.02)
    view = data.train.select(np.arange(0, 180, 3))
    batch, base = view.batch(), torch.from_numpy(view.per_graph("base"))
    assert batch.y is not None
    for number in range(3):
        parts = method.step(batch, Context("train", number, Draws(number)))
        each = cross_entropy(plain(batch, draws=Draws(number)), batch.y, reduction="none")
        risks = [each[base == kind].mean() for kind in range(3)]
        mean = sum(risks) / 3
        spread = sum((risk - mean) ** 2 for risk in risks) / 3
        total = each.mean() + 3.0 * spread
        torch.testing.assert_close(parts["loss"], each.mean())
        torch.testing.assert_close(parts["penalty"], spread, rtol=1e-3, atol=1e-7)
        torch.testing.assert_close(parts["total"], total)
        optimiser.zero_grad()
        total.backward()
        optimiser.step()
    for ours, theirs in zip(method.model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


# -- the definition --------------------------------------------------------------------------------


class _Authors:
    """The definitions in GOOD's code: a mean over the environments of a batch, one by one."""

    def __init__(self, method: EnvironmentMethod) -> None:
        self.backbone = copy.deepcopy(method.model.backbone)
        self.optimiser = Adam(self.backbone.parameters(), 0.02)

    def step(self, batch: GraphBatch, environment: Tensor, kind: str, weight: float) -> Tensor:
        assert batch.y is not None
        scale = torch.ones(1, dtype=torch.float64, requires_grad=True)
        logits = scale * self.backbone(batch)
        losses = cross_entropy(logits, batch.y, reduction="none")
        risks = []
        for number in environment.unique():
            inside = [i for i, own in enumerate(environment) if own == number]
            risks.append(sum(losses[i] for i in inside) / len(inside))
        if kind == "irm":
            slopes = [torch.autograd.grad(risk, scale, create_graph=True)[0] for risk in risks]
            penalty = sum(slope.square().sum() for slope in slopes) / len(slopes)
        else:
            mean = sum(risks) / len(risks)
            penalty = sum((risk - mean) ** 2 for risk in risks) / max(len(risks) - 1, 1)
        total = losses.mean() + weight * penalty
        self.optimiser.zero_grad()
        total.backward()
        self.optimiser.step()
        return total.detach()


@BOTH
@pytest.mark.parametrize("environments", ["random", "base"])
def test_steps_are_those_of_the_definition(
    kind: type[EnvironmentMethod], environments: str, data: Dataset
) -> None:
    """Losses, gradients and weights in double precision, with the settings of the recipe."""
    recipe = make_recipe("spmotif-0.5", backbone="leconv", method=kind.name).settings
    settings = {**recipe.model_dump(), "environments": environments, "penalty": 3.0}
    method = make(kind, data, **settings)
    method.model.double()
    method.begin("train")
    authors = _Authors(method)
    one = int(method.environment[data.train.index[0]])
    alone = np.flatnonzero(method.environment[data.train.index].numpy() == one)[:9]
    for number, rows in enumerate([np.arange(0, 180, 5), np.arange(1, 180, 7), alone]):
        batch = data.train.select(rows).batch()
        assert batch.edge_attr is not None
        batch = replace(batch, x=batch.x.double(), edge_attr=batch.edge_attr.double())
        environment = method.environment[data.train.index[rows]]
        expected = authors.step(batch, environment, kind.name, 3.0)
        actual = method.step(batch, Context("train", number, Draws(number)))
        torch.testing.assert_close(actual["total"], expected, rtol=1e-11, atol=1e-13)
        theirs = dict(authors.backbone.named_parameters())
        for name, weights in method.model.backbone.named_parameters():
            torch.testing.assert_close(weights.grad, theirs[name].grad, rtol=1e-9, atol=1e-13)
            torch.testing.assert_close(weights, theirs[name], rtol=1e-9, atol=1e-10)


# -- environments ---------------------------------------------------------------------------------


def seen(
    method: EnvironmentMethod, store: GraphStore, order: np.ndarray[Any, Any]
) -> list[set[int]]:
    """The rows of the store that each environment gets, from batches of 16 in some order."""
    rows: dict[int, set[int]] = {}
    for start in range(0, len(order), 16):
        batch = store.batch(order[start : start + 16])
        named = batch.graph_row[:, None].double()
        for group, _ in method.groups(named, batch):
            members = {int(row) for row in group[:, 0]}
            environment = {int(method.environment[row]) for row in members}
            assert len(environment) == 1
            rows.setdefault(environment.pop(), set()).update(members)
    return [rows[e] for e in sorted(rows)]


@BOTH
@pytest.mark.parametrize("environments", ["random", "base"])
def test_an_environment_belongs_to_the_graph_in_any_order(
    kind: type[EnvironmentMethod], environments: str, data: Dataset
) -> None:
    method = make(kind, data, environments=environments)
    store = data.train
    orders = [Draws(0, epoch).permutation(len(store)) for epoch in range(3)]
    groups = [seen(method, store, order) for order in orders]
    assert groups[0] == groups[1] == groups[2]
    assert set.union(*groups[0]) == set(store.index.tolist())
    if environments == "base":
        base = store.per_graph("base")
        assert groups[0] == [set(store.index[base == kind].tolist()) for kind in range(3)]


def test_random_environments_are_two_fair_groups_fixed_by_the_seed(data: Dataset) -> None:
    one = make(IRMMethod, data).environment
    assert torch.equal(one, make(VRExMethod, data).environment)
    other = make(IRMMethod, data, seed=1).environment
    for sampled in (one, other):
        assert set(sampled.tolist()) == {0, 1}
        assert abs(float(sampled.double().mean()) - 0.5) < 4 * 0.5 / len(sampled) ** 0.5
    agree = float((one == other).double().mean())
    assert abs(agree - 0.5) < 4 * 0.5 / len(one) ** 0.5


@BOTH
def test_an_environment_without_labels_in_the_batch_is_left_out(
    kind: type[EnvironmentMethod],
) -> None:
    y = np.where(np.arange(10) % 3 == 2, np.nan, np.arange(10) % 2)[:, None].astype(np.float32)
    data = small(Task("binary"), y, environment=np.arange(10) % 3)
    method = make(kind, data, environments="base")
    batch = data.train.batch()
    logits = torch.randn(10, 1)
    assert [len(group) for group, _ in method.groups(logits, batch)] == [4, 3]
    alone = data.train.batch(np.array([0, 3, 6]))  # one environment
    assert [len(group) for group, _ in method.groups(logits[:3], alone)] == [3]
    parts = method.step(data.train.batch(np.array([2, 5])), Context("train", 0, Draws(0)))
    assert float(parts["penalty"]) == 0
    assert all(bool(p.isfinite().all()) for p in method.model.parameters())


def test_nodes_have_the_environment_of_their_graph() -> None:
    graphs = random_graphs(1, 6, awkward=False)
    rng = np.random.default_rng(0)
    for graph in graphs:
        graph.node_y = torch.from_numpy(rng.integers(0, 3, graph.num_nodes))
    store = from_pyg(graphs)
    store.arrays["graph.environment"] = np.array([5, 5, 7, 7, 5, 7])
    asked = np.flatnonzero(rng.random(store.num_nodes) < 0.6)
    task = Task("multiclass", classes=3, level="node")
    data = Dataset("nodes", store, task, {"train": asked, "valid": asked, "test": asked})
    method = make(IRMMethod, data, environments="base")
    batch = data.train.batch()
    rows = torch.arange(len(asked))[:, None]
    owner = np.repeat([5, 5, 7, 7, 5, 7], store.node_counts)[asked]
    actual = [group[:, 0].tolist() for group, _ in method.groups(rows, batch)]
    assert actual == [np.flatnonzero(owner == e).tolist() for e in (5, 7)]
    parts = method.step(batch, Context("train", 0, Draws(0)))
    assert parts["penalty"].item() > 0


@BOTH
def test_data_without_environments_is_refused(kind: type[EnvironmentMethod]) -> None:
    binary, y = Task("binary"), np.ones((10, 1), dtype=np.float32)
    with pytest.raises(DataError, match="a field 'environment', which those of made don't carry"):
        make(kind, small(binary, y), environments="base")
    with pytest.raises(DataError, match="one whole number per graph"):
        make(kind, small(binary, y, environment=np.ones(10, np.float32)), environments="base")
    with pytest.raises(DataError, match="one whole number per graph"):
        make(kind, small(binary, y, environment=np.ones((10, 2), int)), environments="base")
    same = small(binary, y, environment=np.ones(10, int))
    with pytest.raises(DataError, match=f"{kind.title} needs training graphs of at least 2"):
        make(kind, same, environments="base")
    make(kind, same)  # by chance they are of two
    train = {**same.splits, "train": np.arange(1)}
    with pytest.raises(DataError, match="those of made have 1"):
        make(kind, replace(same, splits=train))


# -- recipes --------------------------------------------------------------------------------------


@BOTH
def test_settings_of_erm_apply(kind: type[EnvironmentMethod]) -> None:
    """The learning rate and its schedule are the backbone's, not the method's."""
    erm, own, other = (
        make_recipe("ogbg-molbace", backbone="pna", method=name)
        for name in ("erm", kind.name, "gsat")
    )
    assert own.training == erm.training != other.training
    assert own.settings.plateau == erm.settings.plateau == 20
