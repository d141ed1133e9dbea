"""One step of each post-hoc explainer against its definition: equal networks, masks and noise.

PyG's classes state GNNExplainer and PGExplainer; what they leave out or add is set aside here, and
docs/methods.md names it. PyG's GraphMask is another method, so its definition is written out below.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from scipy import stats
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.explain import Explainer, ModelConfig
from torch_geometric.explain import GNNExplainer as TheirGNNExplainer
from torch_geometric.explain import PGExplainer as TheirPGExplainer
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks

import gsat
from gsat.graphs import GraphBatch, from_pyg
from gsat.methods import Context
from gsat.methods.base import TrainingSettings
from gsat.methods.gnnexplainer import GNNExplainer
from gsat.methods.graphmask import GraphMaskMethod, GraphMaskSettings, LayerGate
from gsat.methods.pgexplainer import PGExplainerMethod, PGExplainerSettings
from gsat.methods.post_hoc import EXPLAIN
from gsat.ops import Draws
from gsat.tasks import Task
from reference import lived_in, random_graph

THREE = Task("multiclass", 3)
CONFIG = ModelConfig("multiclass_classification", "graph", "raw")
TRAINING = TrainingSettings.model_validate({})


class Net(nn.Module):
    """A PyG network whose last convolution gives the node embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.body = pyg.GIN(4, 16, num_layers=2, norm="batch_norm", dropout=0.2)
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Tensor:
        return self.head(pyg.global_add_pool(self.body(x, edge_index), batch))


def network() -> Net:
    torch.manual_seed(0)
    return lived_in(Net())


def directed_graphs(count: int) -> list[Data]:
    """Graphs with one direction of each edge, as PyG does not average the two, and 25 edges each,
    so that the mean over the edges of a batch is the mean over graphs of their means."""
    rng = np.random.default_rng(1)
    return [random_graph(rng, 10 + number, 25, directed=True) for number in range(count)]


# -- GNNExplainer ---------------------------------------------------------------------------------


class Regularised(TheirGNNExplainer):
    """PyG's GNNExplainer with regularisers from the first step on, as in its authors' program.

    Its entropy is that of PyG's PGExplainer, or its own.
    """

    own_entropy = False

    def begin(self, mask: Tensor) -> None:
        self.edge_mask = nn.Parameter(mask.clone())
        self.hard_edge_mask = torch.ones(len(mask), dtype=torch.bool)

    def _add_mask_regularization(self, loss: Tensor, mask: Tensor, *how: Any) -> Tensor:
        if self.own_entropy:
            return super()._add_mask_regularization(loss, mask, *how)
        _, size, _, entropy = how
        other = TheirPGExplainer(1)
        other.coeffs = {"edge_size": size, "edge_ent": entropy}
        return other._add_mask_regularization(loss, mask)


def search_both(
    graph: Data, steps: int, *, own_entropy: bool, lr: float, size: float, entropy: float
) -> tuple[list[tuple[Tensor, Tensor, Tensor]], ...]:
    """Loss, gradient and mask of every step of GNNExplainer, ours and PyG's, from one start."""
    explained = network()
    batch, wrapped = from_pyg([graph]).batch(), gsat.wrap(explained, THREE, example=graph)
    model = GNNExplainer(wrapped, lr=lr, size=size, entropy=entropy)
    search = model.start(batch)
    algorithm = Regularised(edge_size=size, edge_ent=entropy)
    algorithm.own_entropy = own_entropy
    Explainer(
        explained, algorithm, explanation_type="model", edge_mask_type="object", model_config=CONFIG
    )
    algorithm.begin(search.mask.detach()[batch.by_caller])
    mask = algorithm.edge_mask
    set_masks(explained, mask, graph.edge_index, apply_sigmoid=True)
    adam = torch.optim.Adam([mask], lr)
    theirs = []
    for _ in range(steps):
        adam.zero_grad()
        loss = algorithm._loss(explained(graph.x, graph.edge_index), search.answer)
        loss.backward()
        adam.step()
        theirs.append((loss.detach(), mask.grad.clone(), mask.detach().clone()))
    clear_masks(explained)
    ours = []
    for step in range(1, steps + 1):
        model.search(search, batch, step)
        now = (search.mask.grad[batch.by_caller], search.mask.detach()[batch.by_caller].clone())
        ours.append((search.losses["loss"], *now))
    return ours, theirs


SETTINGS = [(0.01, 0.005), (1.0, 0.1)]  # PyG's defaults, and those of the tables


@pytest.mark.parametrize(("lr", "size"), SETTINGS)
def test_gnnexplainer_searches_as_pygs_does(lr: float, size: float) -> None:
    for graph in directed_graphs(3):
        ours, theirs = search_both(graph, 10, own_entropy=False, lr=lr, size=size, entropy=1.0)
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("lr", "size"), SETTINGS)
def test_gnnexplainers_smoothed_entropy_hardly_changes_masks(lr: float, size: float) -> None:
    for graph in directed_graphs(3):
        ours, theirs = search_both(graph, 100, own_entropy=True, lr=lr, size=size, entropy=1.0)
        assert abs(float(ours[0][0] - theirs[0][0])) < 0.032  # that of a mask of 0 or 1
        one, other = ours[-1][2].sigmoid(), theirs[-1][2].sigmoid()
        assert stats.spearmanr(one, other)[0] > 0.97


def test_gnnexplainers_masks_begin_as_in_its_authors_program() -> None:
    """Normal with mean 1 and the deviation of He's initialisation of an N × N matrix."""
    graphs = directed_graphs(1) * 400
    masks = GNNExplainer(gsat.GIN(4, THREE, hidden=8)).start(from_pyg(graphs).batch()).mask
    deviation = nn.init.calculate_gain("relu") * math.sqrt(2 / (10 + 10))
    standard = ((masks.detach() - 1) / deviation).numpy()
    assert stats.kstest(standard, "norm").pvalue > 0.01


# -- PGExplainer ----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 3])
def test_pgexplainer_trains_as_pygs_does(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyG adds the masks of all graphs of a batch, the method those of each graph; and its noise
    keeps 0.01 away from 0 and 1 by default."""
    graphs, explained = directed_graphs(count), network()
    settings = PGExplainerSettings(
        explain_epochs=5, explain_lr=0.01, size=0.05, entropy=1.0, tau_start=5.0, tau_final=2.0
    )
    wrapped = gsat.wrap(explained, THREE, example=graphs[0])
    made = PGExplainerMethod.create(wrapped, settings, TRAINING, seed=0)
    made.begin(EXPLAIN)
    model, batch = made.model, from_pyg(graphs).batch()

    # PyG keeps settings in the class, and masks in the network that was explained before.
    monkeypatch.setattr(TheirPGExplainer, "coeffs", {})
    algorithm = TheirPGExplainer(
        5, lr=0.01, edge_size=0.05 / count, edge_ent=1.0, temp=[5.0, 2.0], bias=0.0
    )
    same = copy.deepcopy(explained)
    Explainer(same, algorithm, explanation_type="phenomenon", edge_mask_type="object",
              model_config=CONFIG)  # fmt: skip
    algorithm.mlp(torch.zeros(1, 32))  # makes its weights
    pairs = [(algorithm.mlp[0], model.first), (algorithm.mlp[2], model.last)]
    for their_layer, layer in pairs:
        their_layer.load_state_dict(layer.state_dict())
    joined = Batch.from_data_list(graphs)
    with torch.no_grad():
        target = same(joined.x, joined.edge_index, joined.batch).argmax(dim=1)

    for epoch in range(5):
        draws = Draws(epoch)
        u = draws.child("masks").uniform(batch.edge_id)[batch.by_caller]
        monkeypatch.setattr(torch, "rand_like", lambda _, u=u: u)
        loss = algorithm.train(
            epoch, same, joined.x, joined.edge_index, target=target, batch=joined.batch
        )
        parts = made.explain_step(batch, Context(EXPLAIN, epoch, draws))
        assert float(parts["loss"].detach()) == pytest.approx(loss, rel=1e-5)
        for their_layer, layer in pairs:
            for theirs, ours in zip(their_layer.parameters(), layer.parameters(), strict=True):
                torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-5)
                torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)
    their_mask = algorithm(same, joined.x, joined.edge_index, target=target, batch=joined.batch)
    torch.testing.assert_close(
        model(batch).edge_weight.detach()[batch.by_caller], their_mask.edge_mask.detach(),
        rtol=1e-4, atol=1e-5,
    )  # fmt: skip


def test_pgexplainer_averages_both_directions_as_its_authors_do() -> None:
    """Their program has a matrix of all pairs of nodes: (A + Aᵀ) / 2 before the network sees it."""
    rng = np.random.default_rng(2)
    graph = random_graph(rng, 9, 14)
    backbone = lived_in(gsat.GIN(4, THREE, hidden=8))
    settings = PGExplainerSettings(size=0.3, entropy=0.7, tau_start=2.0)
    made = PGExplainerMethod.create(backbone, settings, TRAINING, seed=0)
    made.begin(EXPLAIN)
    batch, draws, model = from_pyg([graph]).batch(), Draws(4), made.model
    src, dst = batch.src, batch.dst
    with torch.no_grad():
        z, logits = backbone.embed(batch), backbone(batch)
        mlp = nn.Sequential(model.first, nn.ReLU(), model.last)
        pairs = torch.zeros(9, 9)
        u = draws.child("masks").uniform(batch.edge_id)
        omega = mlp(torch.cat([z[src], z[dst]], dim=1))[:, 0]
        pairs[src, dst] = torch.sigmoid((torch.log(u) - torch.log(1 - u) + omega) / 2.0)
        alpha = ((pairs + pairs.T) / 2)[src, dst]
        p = 0.99 * alpha + 0.005
        entropy = stats.bernoulli(p.double().numpy()).entropy().mean()
        answer = F.cross_entropy(backbone(batch, attention=alpha), logits.argmax(dim=1))
        wanted = float(answer) + 0.3 * float(alpha.sum()) + 0.7 * entropy
    parts = made.explain_step(batch, Context(EXPLAIN, 0, draws))
    assert float(parts["loss"].detach()) == pytest.approx(wanted, rel=1e-5)


# -- GraphMask ------------------------------------------------------------------------------------


def gate_logits(gate: LayerGate, source: Tensor, message: Tensor, target: Tensor) -> Tensor:
    """Three linear maps, each normalised over its channels, their mean, ReLU and a linear map."""
    total = gate.bias
    for part, value in zip(gate.parts, (source, message, target), strict=True):
        linear, norm = part
        total = total + F.layer_norm(value @ linear.weight.T, (len(gate.bias),), *norm.parameters())
    return ((total / 3).clamp(min=0) @ gate.last.weight.T + gate.last.bias)[:, 0]


def masked_gin(
    backbone: gsat.GIN,
    batch: GraphBatch,
    gates: list[tuple[Tensor, Tensor] | None],
    draws: Draws | None = None,
) -> tuple[Tensor, list[Tensor], Tensor]:
    """Logits, the inputs of the layers and the embeddings of GIN; gates give z and b per layer.

    With draws, it is in training mode.
    """
    x, inputs = backbone.encoder(batch.x), []
    for layer, gate in zip(backbone.layers, gates, strict=True):
        inputs.append(x)
        messages = x[batch.src]
        if gate is not None:
            z, b = gate
            messages = z[:, None] * messages + (1 - z[:, None]) * b
        sums = x.index_add(0, batch.dst, messages)
        if draws is None:
            x = layer.outer(layer.norm(layer.inner(sums)).relu()).relu()
            continue
        z, norm = layer.inner(sums), layer.norm
        z = F.batch_norm(z, None, None, norm.weight, norm.bias, training=True)
        x = layer.outer(z.relu()).relu()
        kept = draws.child("dropout", len(inputs) - 1).keep(batch.node_id, x.shape[1], 0.3)
        x = x * kept / 0.7
    pooled = x.new_zeros(batch.num_graphs, x.shape[1]).index_add(0, batch.node_graph, x)
    return backbone.head(pooled), inputs, x


@pytest.mark.parametrize("constraint", ["published", "relative"])
@pytest.mark.parametrize("sees", ["layer", "network"])
@pytest.mark.parametrize("mode", ["evaluation", "training"])
@pytest.mark.parametrize("gated_layers", [1, 2])
def test_graphmask_steps_as_defined(
    sees: str, constraint: str, mode: str, gated_layers: int
) -> None:
    torch.manual_seed(0)
    backbone = lived_in(gsat.GIN(4, THREE, hidden=8, layers=2))
    settings = GraphMaskSettings(
        sees=sees, constraint=constraint, mode=mode, epochs_per_layer=1, penalty=5.0, loc=1.0
    )
    made = GraphMaskMethod.create(backbone, settings, TRAINING, seed=0)
    made.begin(EXPLAIN)
    batch, first = from_pyg(directed_graphs(4)).batch(), 2 - gated_layers
    tau, gamma, zeta, beta = 1 / 3, -0.2, 1.0, 0.03
    gates = made.model.gates
    multiplier = nn.Parameter(torch.tensor(0.55))
    before = copy.deepcopy(backbone.state_dict())
    rms = torch.optim.RMSprop([multiplier], 1e-2, centered=True)

    for step in range(3):
        draws = Draws(step)
        with torch.no_grad():
            logits, inputs, embeddings = masked_gin(backbone, batch, [None, None])
        label, z, penalty = logits.argmax(dim=1), [None] * first, torch.zeros(())
        for number in range(first, 2):
            x = inputs[number] if sees == "layer" else embeddings
            ends = x[batch.src], inputs[number][batch.src], x[batch.dst]
            omega = gate_logits(gates[number], *ends) + settings.loc
            # Draws are numbered from the last layer on.
            u = draws.child("gates").child(1 - number).uniform(batch.edge_id)
            soft = torch.sigmoid((torch.log(u) - torch.log(1 - u) + omega) / tau)
            soft = (soft * (zeta - gamma) + gamma).clamp(0, 1)
            hard = soft + ((soft > 0.5).float() - soft).detach()
            z.append((hard, gates[number].baseline))
            penalty = penalty + torch.sigmoid(omega - tau * math.log(-gamma / zeta)).mean()
        source = draws if mode == "training" else None
        gap = F.cross_entropy(masked_gin(backbone, batch, z, source)[0], label) - beta
        if constraint == "relative":
            gap = gap - F.cross_entropy(logits, label)
        loss = 5.0 * penalty + F.softplus(multiplier.detach()) * gap.relu()
        used = list(gates[first:].parameters())
        gradients = torch.autograd.grad(loss, used, allow_unused=True)
        rms.zero_grad()
        rising = gap.detach().relu() if constraint == "published" else gap.detach()
        (-F.softplus(multiplier) * rising).backward()  # λ goes up
        rms.step()

        parts = made.explain_step(batch, Context(EXPLAIN, gated_layers - 1, draws))
        torch.testing.assert_close(parts["loss"], loss, rtol=1e-4, atol=1e-5)
        for weight, gradient in zip(used, gradients, strict=True):
            wanted = torch.zeros_like(weight) if gradient is None else gradient
            torch.testing.assert_close(weight.grad, wanted, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(made.multiplier["lambda"], multiplier, rtol=1e-4, atol=1e-6)
    assert all(torch.equal(now, before[name]) for name, now in backbone.state_dict().items())
    assert not any(module.training for module in backbone.modules())


def test_with_the_published_constraint_the_multiplier_never_falls() -> None:
    backbone = lived_in(gsat.GIN(4, THREE, hidden=8, layers=2))
    batch = from_pyg(directed_graphs(4)).batch()
    for constraint, falls in (("published", False), ("relative", True)):
        settings = GraphMaskSettings(constraint=constraint, allowance=100.0)
        made = GraphMaskMethod.create(backbone, settings, TRAINING, seed=0)
        made.begin(EXPLAIN)
        made.explain_step(batch, Context(EXPLAIN, 0, Draws(0)))
        assert bool(made.multiplier["lambda"] < 0.55) == falls
