"""GMT: subgraph sampling, attention in the first layer alone, warm start, the second stage."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.optim import Adam
from torch_geometric.nn import GINConv

import gsat
from gsat.attention import edge_weights
from gsat.bottleneck import information
from gsat.core.errors import GSATError
from gsat.graphs import GraphBatch
from gsat.gsat import GSAT
from gsat.methods import Context, TrainingSettings
from gsat.methods.gmt import GMT, GMTMethod, GMTSettings, hard_sample
from gsat.methods.gmt_classifier import GMTClassifierMethod, GMTClassifierSettings, Reclassified
from gsat.ops import Draws
from gsat.training.recipe import make_recipe
from reference import ReferenceGSAT

SMALL = {"graphs": 60, "epochs": 13, "batch_size": 32, "hidden": 8, "layers": 2, "r_interval": 1}


@pytest.fixture(scope="module")
def data() -> gsat.Dataset:
    return gsat.load_dataset("ba2motifs", graphs=20)


@pytest.fixture
def batch(data: gsat.Dataset) -> GraphBatch:
    return data.train.batch()


def make(data: gsat.Dataset, **settings: object) -> GMT:
    model = GMT(gsat.GIN.for_data(data, hidden=8, seed=1, dropout=0.0), seed=2, **settings)
    with torch.no_grad():  # spread the probabilities
        model.extractor.last.weight.mul_(20)
    return model


def test_edges_are_kept_as_often_as_their_probability_says() -> None:
    chance = torch.tensor([0.0, 0.1, 0.5, 0.9, 1.0], requires_grad=True)
    rows = torch.arange(5)
    drawn = torch.stack([hard_sample(chance, rows, Draws(0, n)) for n in range(2000)])
    assert set(drawn.unique().tolist()) == {0.0, 1.0}
    np.testing.assert_allclose(drawn.mean(dim=0).tolist(), chance.tolist(), atol=0.04)
    (drawn * torch.arange(5.0)).sum().backward()
    torch.testing.assert_close(chance.grad, 2000 * torch.arange(5.0))  # straight through


def test_an_answer_is_the_mean_over_many_subgraphs(data: gsat.Dataset, batch: GraphBatch) -> None:
    """Against a Monte Carlo mean over masks drawn by NumPy."""
    model = make(data, samples=400).eval()
    with torch.no_grad():
        output = model(batch)
        chance = edge_weights(output.probability, batch, "edge").numpy()
        rng = np.random.default_rng(0)
        each = [
            model.backbone(batch, torch.from_numpy(rng.random(len(chance)) < chance).float())
            for _ in range(400)
        ]
    sampled = torch.stack(each)
    error = sampled.std(dim=0) / 20
    assert float(((output.logits - sampled.mean(dim=0)) / error).abs().max()) < 6
    torch.testing.assert_close(output.edge_weight, torch.from_numpy(chance))


def test_predictions_are_deterministic(data: gsat.Dataset) -> None:
    model = make(data, samples=3).eval()
    alone = model.predict(data.test.select([1])).logits
    torch.testing.assert_close(model.predict(data.test).logits[1:2], alone)


def test_a_mask_multiplies_the_probabilities_once(data: gsat.Dataset, batch: GraphBatch) -> None:
    model = make(data, samples=3).eval()
    ones, half = torch.ones(batch.num_edges), torch.full((batch.num_edges,), 0.5)
    assert torch.equal(model.answer(batch, ones, half), model.answer(batch, half))


def test_lin_weights_only_the_first_layer(data: gsat.Dataset, batch: GraphBatch) -> None:
    model = make(data, variant="lin").eval()
    with torch.no_grad():
        output = model(batch)
        x = model.backbone.encode(batch)
        for number, layer in enumerate(model.backbone.layers):
            mlp = torch.nn.Sequential(layer.inner, layer.norm, torch.nn.ReLU(), layer.outer)
            conv = GINConv(copy.deepcopy(mlp)).eval()  # which resets its parameters
            conv.nn.load_state_dict(mlp.eval().state_dict())
            weight = output.edge_weight if number == 0 else torch.ones(batch.num_edges)
            received = torch.zeros_like(x).index_add(0, batch.dst, weight[:, None] * x[batch.src])
            own = conv.nn(received + x)
            if number:  # the later layers are PyG's own, unweighted
                torch.testing.assert_close(own, conv(x, batch.edge_index), rtol=1e-4, atol=1e-4)
            x = torch.relu(own)
        expected = model.backbone.read_out(x, batch)
    torch.testing.assert_close(output.logits, expected, rtol=1e-4, atol=1e-4)
    plain = gsat.GIN.for_data(data, hidden=8)
    assert plain.attended_layers is None


def test_lin_needs_a_backbone_that_limits_attention(data: gsat.Dataset) -> None:
    with pytest.raises(GSATError, match="PNA"):
        GMT(gsat.PNA.for_data(data, hidden=8), variant="lin")


def test_a_step_minimises_the_mean_answer_and_the_information_of_p(
    data: gsat.Dataset, batch: GraphBatch
) -> None:
    settings = GMTSettings(samples=3, info_coef=0.5)
    method = GMTMethod(make(data, samples=3), settings, TrainingSettings())
    method.begin("train")
    context = Context("train", 15, Draws(4))
    output = method.model.train()(batch, context.draws)
    losses = method._losses(batch, output, context)
    expected = information(torch.sigmoid(torch.logit(output.probability)), 0.8)
    torch.testing.assert_close(losses["info"], expected)
    torch.testing.assert_close(losses["total"], losses["loss"] + 0.5 * expected)
    assert method.step(batch, context)["loss"].isfinite()


class Authors:
    """GMT from its definition, on the weights of one of ours: T subgraphs, or one linear layer."""

    def __init__(self, method: GMTMethod) -> None:
        self.net = ReferenceGSAT(copy.deepcopy(method.model))
        self.settings, self.optimiser = method.settings, Adam(self.net.parameters(), 0.01)

    def classify(self, batch: GraphBatch, weight: Tensor, draws: Draws) -> Tensor:
        """Attention enters all layers, or with lin the first only."""
        net, ones = self.net, torch.ones_like(weight)
        x = net.gin.encoder(batch.x)
        for number, conv in enumerate(net.convs):
            first = number == 0 or self.settings.variant == "sam"
            x = conv(x, batch.edge_index, weight if first else ones, None).relu()
        pooled = [x[batch.node_graph == graph].sum(dim=0) for graph in range(batch.num_graphs)]
        return net.gin.head(torch.stack(pooled))

    def step(self, batch: GraphBatch, epoch: int, draws: Draws) -> Tensor:
        settings, net = self.settings, self.net
        ones = torch.ones(batch.num_edges).double()
        scores = net.attention_logits(net.embed(batch, ones), batch, draws.child("extractor"))
        warm = settings.warm_start and epoch < settings.r_interval
        times = 1 if warm or settings.variant == "lin" else settings.samples
        answers = []
        for number in range(times or 1):
            one = draws.child("subgraph", number) if settings.variant == "sam" else draws
            u = one.child("attention").uniform(batch.edge_id).double()
            chance = net._weights((scores + u.log() - (1 - u).log()).sigmoid(), batch)
            weight = chance
            if settings.variant == "sam":
                drawn = one.child("edges").uniform(batch.edge_id).double() < chance
                weight = (drawn.double() - chance).detach() + chance
            answers.append(self.classify(batch, weight, one))
        p, r = scores.sigmoid(), max(0.9 - 0.1 * (epoch // settings.r_interval), settings.r_final)
        info = p * (p / r + 1e-6).log() + (1 - p) * ((1 - p) / (1 - r + 1e-6) + 1e-6).log()
        assert batch.y is not None
        loss = binary_cross_entropy_with_logits(torch.stack(answers).mean(0), batch.y.double())
        total = loss + settings.info_coef * (2 if warm else 1) * info.mean()
        self.optimiser.zero_grad()
        total.backward()
        self.optimiser.step()
        return total.detach()


@pytest.mark.parametrize("variant", ["sam", "lin"])
def test_steps_are_those_of_the_authors_definition(variant: str, data: gsat.Dataset) -> None:
    """Losses, gradients and weights in double precision, with the settings of the recipe."""
    recipe = make_recipe("ba2motifs", method="gmt").settings.model_dump()
    settings = GMTSettings(**{**recipe, "variant": variant, "samples": 4})
    backbone = gsat.GIN.for_data(data, hidden=8, seed=1, dropout=0.0)
    method = GMTMethod.create(backbone, settings, TrainingSettings(lr=0.01), seed=2)
    method.model.double().train()
    method.begin("train")
    authors, batch = Authors(method), data.train.batch()
    exact = replace(batch, x=batch.x.double())
    for epoch in (0, 10, 45):  # a warm start, a falling r, and the final one
        draws = Draws(4, epoch)
        actual = method.step(exact, Context("train", epoch, draws))["total"]
        expected = authors.step(exact, epoch, draws)
        torch.testing.assert_close(actual.detach(), expected, rtol=1e-10, atol=1e-12)
        pairs = [
            (method.model.backbone, authors.net.gin), (method.model.extractor, authors.net.g)
        ]  # fmt: skip
        for ours, other in pairs:
            for name, weights in ours.named_parameters():
                again = other.get_parameter(name)
                # Biases before a normalisation, which cancel, may have none.
                grad = torch.zeros_like(weights) if weights.grad is None else weights.grad
                torch.testing.assert_close(grad, again.grad, rtol=1e-7, atol=1e-11)
                torch.testing.assert_close(weights, again, rtol=1e-7, atol=1e-6)


def test_a_warm_start_has_one_subgraph_and_twice_the_weight(
    data: gsat.Dataset, batch: GraphBatch
) -> None:
    settings = GMTSettings(samples=5, info_coef=0.5, warm_start=True)
    method = GMTMethod(make(data, samples=5), settings, TrainingSettings())
    method.begin("train")
    for epoch, count, weight in ((0, 1, 1.0), (9, 1, 1.0), (10, 5, 0.5)):
        context = Context("train", epoch, Draws(4, epoch))
        losses = method.step(batch, context)
        assert (method.model.step_samples or 5) == count
        torch.testing.assert_close(losses["total"], losses["loss"] + weight * losses["info"])


@pytest.mark.parametrize("variant", ["sam", "lin"])
def test_the_variant_is_saved(variant: str, data: gsat.Dataset, tmp_path: Path) -> None:
    model = make(data, variant=variant, samples=2).eval()
    model.save(tmp_path)
    again = gsat.load(tmp_path)
    assert again.variant == variant
    assert torch.equal(again.predict(data.test).logits, model.predict(data.test).logits)


def test_the_recipes_are_those_of_its_authors() -> None:
    recipe = make_recipe("ba2motifs", method="gmt")
    assert (recipe.settings.samples, recipe.settings.info_coef) == (10, 0.1)
    assert recipe.settings.warm_start
    assert recipe.settings.r_final == make_recipe("ba2motifs").settings.r_final
    assert make_recipe("mutag", method="gmt").settings.samples == 100
    second = make_recipe("spmotif-0.5", backbone="pna", method="gmt-classifier").settings
    assert (second.edges, second.share, second.classifier) == ("top", 0.3, "trained")


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("start") / "run"
    gsat.train(make_recipe("ba2motifs", settings=SMALL), path)
    return path


@pytest.mark.parametrize(("edges", "share"), [("all", 0.5), ("half", 0.5), ("top", 0.3)])
def test_the_second_stage_trains_only_the_classifier(
    start: Path, tmp_path: Path, edges: str, share: float
) -> None:
    own = {k: v for k, v in SMALL.items() if k != "r_interval"}
    settings = {**own, "epochs": 2, "start": str(start), "edges": edges, "share": share}
    recipe = make_recipe("ba2motifs", method="gmt-classifier", settings=settings)
    run, before = gsat.train(recipe, tmp_path / "run"), gsat.open_run(start)
    graphs = run.graphs()
    scores = [part.model.score_edges(graphs)[1] for part in (run, before)]
    assert torch.equal(*scores)  # the explanation is frozen
    assert not torch.equal(run.predict().logits, before.predict().logits)
    opened = gsat.open_run(tmp_path / "run")
    assert torch.equal(opened.predict().logits, run.predict().logits)
    if edges != "all":
        batch = graphs.batch()
        with torch.no_grad():
            weight = opened.model(batch).edge_weight
        kept = opened.model.attended(weight, batch)
        for first, last in zip(batch.edge_ptr[:-1], batch.edge_ptr[1:], strict=True):
            own, left = weight[first:last], kept[first:last]
            count = math.ceil(share * len(own))
            assert int((left > 0).sum()) == count
            torch.testing.assert_close(left.sort().values[-count:], own.sort().values[-count:])


def test_a_step_of_the_second_stage_is_that_of_the_definition(
    data: gsat.Dataset, batch: GraphBatch
) -> None:
    """The classifier on the top edges of each graph at their p, the others at 0."""
    settings = GMTClassifierSettings(edges="top", share=0.3)
    backbone = gsat.GIN.for_data(data, hidden=8, seed=7, dropout=0.0)
    model = Reclassified(backbone, make(data), settings.edges, settings.share).double()
    method = GMTClassifierMethod(model, settings, TrainingSettings(lr=0.01))
    model.backbone.train()
    method.begin("train")
    exact = replace(batch, x=batch.x.double())
    explainer = ReferenceGSAT(copy.deepcopy(model.explainer)).eval()
    classifier = GSAT(copy.deepcopy(model.backbone), seed=0)
    reference = ReferenceGSAT(classifier.double().train())
    optimiser = Adam(reference.gin.parameters(), 0.01)
    actual = method.step(exact, Context("train", 0, Draws(4)))["loss"]
    weight = explainer(exact)[1].detach()
    for graph in range(batch.num_graphs):
        own = (batch.edge_graph == graph).nonzero()[:, 0]
        order = own[weight[own].argsort(descending=True, stable=True)]
        weight[order[math.ceil(0.3 * len(own)) :]] = 0
    pooled = torch.zeros(batch.num_graphs, 8).double()
    pooled = pooled.index_add(0, batch.node_graph, reference.embed(exact, weight))
    assert batch.y is not None
    loss = binary_cross_entropy_with_logits(reference.gin.head(pooled), batch.y.double())
    torch.testing.assert_close(actual, loss, rtol=1e-10, atol=1e-12)
    loss.backward()
    optimiser.step()
    for name, weights in method.model.backbone.named_parameters():
        expected = reference.gin.get_parameter(name)
        torch.testing.assert_close(weights, expected, rtol=1e-7, atol=1e-6)


def test_a_start_that_does_not_fit_is_refused(start: Path) -> None:
    for settings, reason in (
        ({}, "runs/x"),
        ({"start": str(start)}, "differs"),
        ({"start": str(start / "nothing")}, "is not a run"),
    ):
        recipe = make_recipe("ba2motifs", method="gmt-classifier", settings=settings)
        with pytest.raises(GSATError, match=reason):
            gsat.train(recipe)
