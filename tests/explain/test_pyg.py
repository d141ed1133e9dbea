"""``torch_geometric.explain``: its metrics and algorithms on our models, and ours in it."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
import torch_geometric.nn as pyg
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.explain import (
    CaptumExplainer,
    Explainer,
    ExplainerAlgorithm,
    GNNExplainer,
    PGExplainer,
    characterization_score,
    fidelity,
    groundtruth_metrics,
    unfaithfulness,
)
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks
from torch_geometric.utils import k_hop_subgraph

import gsat
from gsat.attention import edge_weights
from gsat.core.errors import DataError, GSATError
from gsat.graphs import from_pyg
from gsat.methods.erm import PlainModel
from gsat.ops import Draws
from gsat.tasks import Task
from reference import random_graph, random_graphs

BINARY, THREE, LABELS = Task("binary"), Task("multiclass", 3), Task("multilabel", 4, "roc_auc")


def make(kind: str = "gin", task: Task = BINARY, on: str = "edge", features: int = 0) -> gsat.GSAT:
    """A model that has seen a few batches and answers with some decision, left in training mode."""
    torch.manual_seed(1)
    backbone: Any
    if kind == "gin":
        backbone = gsat.GIN(4, task, edge_features=features, hidden=16, seed=2)
    elif kind == "gcn":
        backbone = gsat.wrap(pyg.GCN(4, 16, num_layers=2, dropout=0.3), task=task)
    else:
        backbone = gsat.wrap(pyg.GIN(4, 16, num_layers=2, norm="batch_norm"), task=task)
    model = gsat.GSAT(backbone, on, seed=3)
    batch = from_pyg(random_graphs(1, edge_features=features)).batch()
    with torch.no_grad():
        for step in range(5):
            model(batch, Draws(step))
        for layer in (model.extractor.last, backbone.head):  # answers that differ
            layer.weight.mul_(5)
    return model


def explainer_for(
    model: gsat.GSAT, algorithm: ExplainerAlgorithm | None = None, **how: Any
) -> Explainer:
    viewed = model.as_pyg()
    settings = {"explanation_type": "model", "edge_mask_type": "object", **how}
    return Explainer(
        viewed, algorithm or gsat.GSATExplainer(), model_config=viewed.model_config, **settings
    )


def graph(seed: int = 0, **kind: int) -> Data:
    return random_graph(np.random.default_rng(seed), 9, 14, **kind)


# -- the view -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gin", "wrapped gin", "gcn"])
@pytest.mark.parametrize("task", [BINARY, THREE, LABELS])
def test_the_view_gives_the_models_probabilities(kind: str, task: Task) -> None:
    model, listed = make(kind, task), random_graphs(2)
    listed = [g for g in listed if g.num_nodes]
    both: Any = Batch.from_data_list(listed)
    found = model.predict(listed)
    labels = range(4) if task is LABELS else [None]
    for label in labels:
        values = model.as_pyg(label)(both.x, both.edge_index, both.batch)
        expected = found.probabilities
        if label is not None:
            expected = torch.stack([1 - expected[:, label], expected[:, label]], dim=1)
        torch.testing.assert_close(values.softmax(-1).detach(), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("features", [0, 3])
@pytest.mark.parametrize("on", ["edge", "node"])
def test_any_order_of_edges_even_across_graphs(on: str, features: int) -> None:
    model = make(on=on, features=features)
    listed = random_graphs(3, awkward=False, edge_features=features)
    both: Any = Batch.from_data_list(listed)
    order = torch.randperm(both.edge_index.shape[1], generator=torch.Generator().manual_seed(0))
    attributes = {"edge_attr": both.edge_attr[order]} if features else {}
    viewed = model.as_pyg()
    moved = viewed.edge_mask(both.x, both.edge_index[:, order], batch=both.batch, **attributes)
    expected = torch.cat([e.edge_mask for e in model.explain(listed)])
    torch.testing.assert_close(moved, expected[order], rtol=0, atol=1e-5)
    values = viewed(both.x, both.edge_index[:, order], both.batch, *attributes.values())
    logits = model.predict(listed).logits
    torch.testing.assert_close(values[:, 1:].detach() * 2, logits, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["gin", "wrapped gin", "gcn"])
def test_a_mask_of_pyg_weighs_the_prediction_pass(kind: str) -> None:
    model, data = make(kind), graph()
    viewed = model.as_pyg()
    weights = torch.rand(data.edge_index.shape[1], generator=torch.Generator().manual_seed(0))
    plain = viewed(data.x, data.edge_index)
    set_masks(viewed, weights, data.edge_index, apply_sigmoid=False)
    found = viewed(data.x, data.edge_index)
    set_masks(viewed, torch.logit(weights), data.edge_index, apply_sigmoid=True)
    torch.testing.assert_close(viewed(data.x, data.edge_index), found)
    clear_masks(viewed)
    assert torch.equal(viewed(data.x, data.edge_index), plain)

    # By hand: attention first, the mask only on the second run.
    batch = from_pyg([data]).batch()
    with model.evaluating():
        p = torch.sigmoid(model.extractor(model.backbone.embed(batch), batch))
        attention = edge_weights(p, batch, "edge")
        attention[batch.by_caller] *= weights
        logits = model.backbone(batch, attention)
    torch.testing.assert_close(found[:, 1:].detach(), logits / 2, rtol=0, atol=1e-6)
    assert not torch.allclose(found, plain, atol=1e-4)


@pytest.mark.parametrize("kind", ["gin", "gcn"])
@pytest.mark.parametrize("task", [BINARY, THREE])
def test_a_model_without_attention_is_viewed_as_its_backbone(kind: str, task: Task) -> None:
    model = PlainModel(make(kind, task).backbone)
    listed = random_graphs(2, awkward=False)
    both: Any = Batch.from_data_list(listed)
    viewed = gsat.PyGModel(model)
    torch.testing.assert_close(
        viewed(both.x, both.edge_index, both.batch).softmax(-1).detach(),
        model.predict(listed).probabilities,
        rtol=0,
        atol=1e-6,
    )
    weights = torch.rand(both.edge_index.shape[1], generator=torch.Generator().manual_seed(0))
    set_masks(viewed, weights, both.edge_index, apply_sigmoid=False)
    masked = viewed(both.x, both.edge_index, both.batch).softmax(-1)
    batch = from_pyg(listed).batch()
    stored = torch.empty_like(weights)
    stored[batch.by_caller] = weights
    with model.evaluating():
        expected = task.probabilities(model.backbone(batch, stored))
    torch.testing.assert_close(masked.detach(), expected, rtol=0, atol=1e-6)


def test_pyg_explains_a_model_without_attention_and_gsat_refuses() -> None:
    torch.manual_seed(0)
    gsat_model, data = forced(make()), graph(7)
    model = PlainModel(gsat_model.backbone)
    data.x = torch.zeros(9, 4)
    hub = int(data.edge_index[0].bincount().argmax())
    data.x[hub] = 10.0
    carrying = data.edge_index[0] == hub
    viewed = model.as_pyg()
    how = {"explanation_type": "model", "edge_mask_type": "object"}
    explainer = Explainer(
        viewed, GNNExplainer(epochs=60, lr=0.1), model_config=viewed.model_config, **how
    )
    found = explainer(data.x, data.edge_index)
    assert found.edge_mask[carrying].min() > found.edge_mask[~carrying].max()
    with pytest.raises(GSATError, match="PlainModel"):
        viewed.edge_mask(data.x, data.edge_index)


def test_a_post_hoc_explainers_scores_in_pyg() -> None:
    class Sources(PlainModel):
        """Scores each edge by the first feature of its source."""

        explains = True

        def edge_scores(self, batch: Any) -> Tensor:
            return batch.x[batch.src, 0]

    model, data = Sources(make().backbone), graph()
    viewed = model.as_pyg()
    explainer = Explainer(
        viewed, gsat.GSATExplainer(), "model", viewed.model_config, edge_mask_type="object"
    )
    found = explainer(data.x, data.edge_index)
    assert torch.equal(found.edge_mask, data.x[data.edge_index[0], 0])


def test_the_view_leaves_the_model_alone() -> None:
    model, data = make("wrapped gin"), graph()
    before = copy.deepcopy(model.state_dict())
    explainer = explainer_for(model, GNNExplainer(epochs=3), node_mask_type="attributes")
    explainer(data.x, data.edge_index)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(module.training for module in model.modules())
    assert not any(m.explain for m in model.modules() if isinstance(m, pyg.MessagePassing))
    assert list(model.as_pyg().parameters()) == []


def test_mistakes() -> None:
    with pytest.raises(GSATError, match="needs a label from 0 to 3"):
        make(task=LABELS).as_pyg()
    with pytest.raises(GSATError, match="no label 4"):
        make(task=LABELS).as_pyg(4)
    with pytest.raises(GSATError, match="needs no label"):
        make().as_pyg(0)
    data, viewed = graph(), make().as_pyg()
    with pytest.raises(DataError, match="rising order"):
        viewed(data.x, data.edge_index, torch.arange(9).flip(0))
    with pytest.raises(DataError, match="different graphs"):
        viewed(data.x, data.edge_index, torch.arange(9))
    conv = pyg.GCNConv(4, 2)
    explainer = Explainer(
        conv, gsat.GSATExplainer(), "model", viewed.model_config, edge_mask_type="object"
    )
    with pytest.raises(GSATError, match=r"as_pyg\(\), not a GCNConv"):
        explainer(data.x, data.edge_index)
    for wrong in (
        {"node_mask_type": "object"},
        {"edge_mask_type": None, "node_mask_type": "object"},
    ):
        with pytest.raises(ValueError, match="does not support"):
            explainer_for(make(), **wrong)


# -- GSAT as an algorithm -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gin", "gcn"])
@pytest.mark.parametrize("task", [BINARY, THREE])
def test_gsat_explains_in_pyg_as_by_itself(kind: str, task: Task) -> None:
    model = make(kind, task)
    for data in random_graphs(4, awkward=False):
        found = explainer_for(model)(data.x, data.edge_index)
        own = model.explain(data)
        torch.testing.assert_close(found.edge_mask, own.edge_mask, rtol=0, atol=1e-6)
        assert found.validate(raise_on_error=True)
        assert found.target.tolist() == [int(own.prediction)]
        for size in (4, 7):
            top = explainer_for(model, threshold_config=("topk", size))(data.x, data.edge_index)
            kept = top.edge_mask.nonzero()[:, 0]
            assert len(kept) == min(size, len(own.edge_mask))
            assert own.edge_mask[kept].min() >= own.edge_mask.sort().values[-size:].min() - 1e-6
        hard = explainer_for(model, threshold_config=("hard", 0.5))(data.x, data.edge_index)
        assert torch.equal(hard.edge_mask.bool(), own.edge_mask > 0.5)


def forced(model: gsat.GSAT) -> gsat.GSAT:
    """A model whose decision depends on the edges: sums over neighbours of positive features."""

    class Degree(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = pyg.GraphConv(4, 16)
            self.head = nn.Linear(16, model.task.num_logits)

        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
            return self.head(pyg.global_mean_pool(self.conv(x, edge_index), batch))

    module = Degree()
    with torch.no_grad():
        for weight in module.parameters():
            weight.zero_()
        module.conv.lin_rel.weight.fill_(0.02)
        module.head.weight[-1] = 0.3
        module.head.bias[-1] = -0.5
    return gsat.GSAT(gsat.wrap(module, task=model.task))


@pytest.mark.parametrize("task", [BINARY, THREE])
def test_the_metrics_of_pyg(task: Task) -> None:
    model, data = forced(make(task=task)), graph(5)
    data.x = data.x.abs() + 1
    truth = torch.rand(data.edge_index.shape[1], generator=torch.Generator().manual_seed(0)) > 0.6
    explainer = explainer_for(model)
    found = explainer(data.x, data.edge_index)
    assert found.target.tolist() == [task.classes - 1]
    auroc = groundtruth_metrics(found.edge_mask, truth.float(), "auroc")
    assert auroc == pytest.approx(roc_auc_score(truth, found.edge_mask), abs=1e-6)

    # KL by hand, from the model's own probabilities.
    kept = found.edge_mask
    with model.evaluating():
        batch = from_pyg([data]).batch()
        weight = torch.empty_like(kept)
        weight[batch.by_caller] = kept**2  # its own attention, times the mask
        masked = model.task.probabilities(model.backbone(batch, weight))
    y = model.predict(data).probabilities
    kl = (masked * (masked / y).log()).sum()
    assert unfaithfulness(explainer, found) == pytest.approx(float(1 - torch.exp(-kl)), abs=1e-5)

    found.edge_mask = torch.zeros_like(kept)  # nothing is left of the explanation
    assert fidelity(explainer, found) == (0.0, 1.0)
    assert unfaithfulness(explainer, found) > 0.01
    found.edge_mask = torch.ones_like(kept)
    plus, minus = fidelity(explainer, found)
    assert (plus, minus) == (1.0, 0.0)
    assert characterization_score(plus, minus) == 1.0
    assert unfaithfulness(explainer, found) == pytest.approx(0, abs=1e-6)


# -- PyG's algorithms on our models ---------------------------------------------------------------


ALGORITHMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "GNNExplainer": (lambda: GNNExplainer(epochs=20), {"node_mask_type": "attributes"}),
    "PGExplainer": (
        lambda: PGExplainer(epochs=5, lr=0.01), {"explanation_type": "phenomenon"}
    ),
    "Captum on edges": (lambda: CaptumExplainer("Saliency"), {}),
    "Captum on both": (
        lambda: CaptumExplainer("IntegratedGradients", n_steps=8),
        {"node_mask_type": "attributes"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("GNNExplainer", "gcn"),
        ("PGExplainer", "gin"),
        ("Captum on edges", "wrapped gin"),
        ("Captum on both", "gin"),
    ],
)
def test_pygs_own_algorithms(name: str, kind: str) -> None:
    if "Captum" in name:
        pytest.importorskip("captum")
    torch.manual_seed(0)
    build, how = ALGORITHMS[name]
    model = make(kind)
    explainer = explainer_for(model, build(), **how)
    listed = random_graphs(6, 3, awkward=False)
    both: Any = Batch.from_data_list(listed)
    target = model.predict(listed).labels
    given: dict[str, Any] = {"batch": both.batch}
    if name == "PGExplainer":
        given["target"] = target
        for epoch in range(5):
            loss = explainer.algorithm.train(
                epoch, explainer.model, both.x, both.edge_index, target=target, batch=both.batch
            )
            assert np.isfinite(loss)
    found = explainer(both.x, both.edge_index, **given)
    assert found.edge_mask.shape == (both.edge_index.shape[1],)
    assert found.edge_mask.std() > 0
    assert torch.equal(found.target, target)
    if "node_mask_type" in how:
        assert found.node_mask.std() > 0
    found.edge_mask = torch.zeros_like(found.edge_mask)
    found.pop("node_mask", None)
    assert unfaithfulness(explainer, found) > 1e-4


def test_gnnexplainer_finds_the_edges_that_decide() -> None:
    """With one node whose features count, the edges that carry them must score highest."""
    torch.manual_seed(0)
    model, data = forced(make()), graph(7)
    data.x = torch.zeros(9, 4)
    hub = int(data.edge_index[0].bincount().argmax())
    data.x[hub] = 10.0
    carrying = data.edge_index[0] == hub
    found = explainer_for(model, GNNExplainer(epochs=60, lr=0.1))(data.x, data.edge_index)
    assert found.edge_mask[carrying].min() > found.edge_mask[~carrying].max()


def test_pgexplainer_learns_after_gnnexplainer_on_the_same_view() -> None:
    """PyG turns a layer's mask into a parameter for good; ours stays open to gradients."""
    torch.manual_seed(0)
    model, data = make(), graph(8)
    explainer_for(model)
    viewed = model.as_pyg()
    first = Explainer(
        viewed, GNNExplainer(epochs=2), "model", viewed.model_config, edge_mask_type="object"
    )
    first(data.x, data.edge_index)
    second = Explainer(
        viewed, PGExplainer(epochs=2, edge_size=0.0, edge_ent=0.0), "phenomenon",
        viewed.model_config, edge_mask_type="object",
    )  # fmt: skip
    target = model.predict(data).labels
    second.algorithm.train(0, viewed, data.x, data.edge_index, target=target)
    slopes = [p.grad for p in second.algorithm.mlp.parameters()]
    assert any(slope is not None and slope.abs().max() > 0 for slope in slopes)


# -- nodes and numbers ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gin", "gcn"])
def test_a_nodes_explanation_stays_in_its_computation_graph(kind: str) -> None:
    model = make(kind, Task("multiclass", 3, level="node"))
    data = random_graph(np.random.default_rng(3), 30, 36)
    explainer = explainer_for(model)
    found = explainer(data.x, data.edge_index, index=4)
    _, _, _, inside = k_hop_subgraph(4, 2, data.edge_index, num_nodes=30)
    whole = model.explain(data).edge_mask
    assert not inside.all()
    assert torch.equal(found.edge_mask[~inside], torch.zeros(int((~inside).sum())))
    torch.testing.assert_close(found.edge_mask[inside], whole[inside])
    output = model.explain(data).of_node(4)
    assert int(found.target[4]) == int(output.prediction)
    positive, negative = fidelity(explainer, found)
    assert 0 <= positive <= 1
    assert 0 <= negative <= 1


def test_a_number_is_explained() -> None:
    model = make(task=Task("regression", 1, "r2"))
    explainer = explainer_for(model)
    data = graph()
    found = explainer(data.x, data.edge_index)
    assert explainer.model_config.mode.value == "regression"
    torch.testing.assert_close(found.prediction[0], model.predict(data).logits[0])
    torch.testing.assert_close(found.edge_mask, model.explain(data).edge_mask)
