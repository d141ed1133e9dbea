"""A table of the ops that have a compiled form, each as a function of its tensors.

With the measure of agreement between the two forms of an op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gsat.graphs import GraphBatch
from gsat.ops import (
    AGGREGATORS,
    Aggregator,
    Draws,
    EdgeTerm,
    ScalarTerm,
    add_dropout,
    aggregate,
    batch_norm_relu,
    bernoulli_kl,
    concrete,
    extractor,
    gather_normalise_relu_dropout,
    gin_layers,
    multi_aggregate_edges,
    normalise_relu_dropout,
    pna_layers,
    pool,
    relu_dropout,
    row_normalise_relu_dropout,
)

DRAWS = Draws(5, "cases")
H = 8  # width of the layers of GIN and PNA


def normal(seed: int, *shape: int) -> Tensor:
    """Standard normal numbers in float32."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def with_gradients(op: Callable[..., Tensor], *inputs: Tensor) -> list[Tensor]:
    """The value of ``op(*inputs)``, and the gradient to each input for a random one of it."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    value = op(*leaves)
    along = torch.randn(value.shape, generator=torch.Generator().manual_seed(9)).to(value.dtype)
    return [value.detach(), *torch.autograd.grad(value, leaves, along)]


def check(op: Callable[..., Tensor], *inputs: Tensor) -> None:
    """Assert that the compiled form is about as exact as the plain one in float32.

    Against the plain form in float64, and for the value and each gradient, the norm of its error
    is at most four times the plain form's. By luck that may be next to 0 on a few numbers, so a few
    roundings are added: of numbers of size 1, or of sums where a vector is one.
    """
    exact = with_gradients(op, *(tensor.double() for tensor in inputs))
    found = {}
    for form in ("torch", "numba"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GSAT_OPS", form)
            found[form] = with_gradients(op, *inputs)
    for number, (plain, ours, truth) in enumerate(zip(*found.values(), exact, strict=True)):
        what = f"gradient {number - 1}" if number else "value"
        assert ours.shape == truth.shape, what
        assert ours.dtype == torch.float32, what
        error, usual = (ours - truth).norm(), (plain - truth).norm()
        rounding = 2e-6 if ours.dim() > 1 else 1e-5 + 1e-6 * truth.norm()
        assert error <= 4 * usual + rounding, f"{what}: {error:.2e}, {usual:.2e}"


@dataclass(frozen=True)
class Case:
    """An op with some settings."""

    run: Callable[..., Tensor]  # run(batch, *inputs)
    inputs: Callable[[GraphBatch, int], list[Tensor]]  # of a batch and a width; they get gradients
    compiled: str  # name of the autograd function of the compiled form
    width: int = 16  # the usual width
    min_nodes: int = 0  # fewest nodes for which both forms can be compared in float32
    smooth: bool = True  # finite differences can be taken
    by_graph: bool = True  # the rows of a graph are the same, bit for bit, in every batch
    fused: bool = False  # the compiled form has matrix products inside

    def on(self, batch: GraphBatch, width: int | None = None) -> tuple[Any, ...]:
        """The case on a batch: a function of tensors, and these."""
        return partial(self.run, batch), *self.inputs(batch, width or self.width)


def _edge_term(terms: Sequence[Tensor]) -> EdgeTerm:
    return ScalarTerm(*terms) if len(terms) == 3 else terms[0] if terms else None


def edge_terms(kind: str, batch: GraphBatch, h: int) -> list[Tensor]:
    """The tensors of an edge term: none, one [E, h], or those of a ScalarTerm."""
    edges = batch.num_edges
    return {
        "plain": [],
        "scalar": [normal(3, edges), normal(4, h), normal(5, h)],
        "dense": [normal(6, edges, h)],
    }[kind]


def module_with(kind: Callable[..., Any], like: Tensor, **tensors: Tensor) -> Any:
    """A module whose parameters are replaced by tensors, which may have gradients."""
    module = kind().to(like.dtype)
    for name, tensor in tensors.items():
        delattr(module, name)
        setattr(module, name, tensor)
    return module


# -- aggregate, GIN ----------------------------------------------------------------------------


def _aggregate(kind: str, include_self: bool) -> Case:
    return Case(
        lambda batch, x, weight, *terms: aggregate(
            x, batch, weight, _edge_term(terms), include_self
        ),
        lambda batch, h: [
            normal(1, batch.num_nodes, h),
            normal(2, batch.num_edges).sigmoid(),
            *edge_terms(kind, batch, h),
        ],
        "_Aggregate",
    )


def run_gin(draws: Draws | None, batch: GraphBatch, *tensors: Tensor) -> Tensor:
    """A layer of GIN in training mode."""
    x, weight, w1, scale, shift, w2, b2, *terms = tensors
    inner = module_with(lambda: nn.Linear(1, 1), x, weight=w1, bias=torch.full_like(shift, 0.2))
    norm = module_with(lambda: nn.BatchNorm1d(len(scale)), x, weight=scale, bias=shift)
    outer = module_with(lambda: nn.Linear(1, len(b2)), x, weight=w2, bias=b2)
    outer.out_features = len(b2)
    layers = [(inner, norm, outer)]
    return gin_layers(x, batch, weight, [_edge_term(terms)], layers, 0.3, draws and [draws])


def gin_inputs(kind: str, batch: GraphBatch, h: int) -> list[Tensor]:
    """Rows, weights of the edges, the weights of the MLP, and the edge term."""
    rows = [normal(1, batch.num_nodes, h), normal(2, batch.num_edges).sigmoid()]
    mlp = [normal(13, h, h), normal(14, h) + 1, normal(15, h), normal(16, h, h), normal(17, h)]
    return [*rows, *mlp, *edge_terms(kind, batch, h)]


def gin(kind: str, draws: Draws | None = DRAWS) -> Case:
    return Case(
        partial(run_gin, draws), partial(gin_inputs, kind), "_GINLayers", H, 3,
        by_graph=False, fused=True,
    )  # fmt: skip


# -- normalisation -----------------------------------------------------------------------------

NORMALISE = ("nodes", "edges", "rows", "gather", "relu", "bias")


def run_normalise(
    kind: str, drop: float, draws: Draws | None, batch: GraphBatch, *given: Tensor
) -> Tensor:
    """A normalisation or a bias, then ReLU and dropout."""
    if kind == "gather":
        return gather_normalise_relu_dropout(*given, batch, drop, draws)
    if kind == "rows":
        return row_normalise_relu_dropout(*given, batch.node_id, drop, draws)
    if kind in ("relu", "bias"):
        return relu_dropout(given[0], batch.node_id, drop, draws, *given[1:])
    edges = kind == "edges"
    ptr, rows = (batch.edge_ptr, batch.edge_id) if edges else (batch.node_ptr, batch.node_id)
    return normalise_relu_dropout(*given, ptr, rows, drop, draws)


def normalise_inputs(kind: str, batch: GraphBatch, h: int) -> list[Tensor]:
    """The rows, with a mean of 0.5 so that a wrong mean shows, and the terms added to them."""
    rows = normal(1, batch.num_edges if kind == "edges" else batch.num_nodes, h) + 0.5
    more = {"gather": [normal(2, batch.num_nodes, h)], "bias": [normal(2, h)]}
    return [rows, *more.get(kind, [])]


def _normalise(kind: str, drop: float = 0.5, draws: Draws | None = DRAWS) -> Case:
    names = {"rows": "RowNormaliseReLUDropout", "gather": "GatherNormaliseReLUDropout"}
    names |= dict.fromkeys(("relu", "bias"), "ReLUDropout")
    run = partial(run_normalise, kind, drop, draws)
    compiled = names.get(kind, "NormaliseReLUDropout")
    return Case(run, partial(normalise_inputs, kind), compiled)


def _run_batch_norm(batch: GraphBatch, z: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    norm = module_with(lambda: nn.BatchNorm1d(z.shape[1]), z, weight=scale, bias=shift)
    return batch_norm_relu(z, torch.full_like(shift, 0.2), norm)


# -- the extractor -----------------------------------------------------------------------------


def _extractor(ends: int, draws: Draws | None) -> Case:
    def inputs(batch: GraphBatch, h: int) -> list[Tensor]:
        k = ends * h
        shapes = [(2 * k, k), (h, 2 * k), (1, h), (1,)]
        weights = [normal(2 + i, *shape) / shape[-1] ** 0.5 for i, shape in enumerate(shapes)]
        return [normal(1, batch.num_nodes, h) + 0.5, *weights]

    return Case(
        lambda batch, h, *weights: extractor(h, batch, *weights, 0.4, draws),
        inputs, "Extractor", 4, by_graph=False, fused=True,
    )  # fmt: skip


# -- PNA ---------------------------------------------------------------------------------------


def _multi(kinds: tuple[Aggregator, ...]) -> Case:
    return Case(
        lambda batch, e, weight: multi_aggregate_edges(e, batch, weight, kinds),
        lambda batch, h: [normal(1, batch.num_edges, h), normal(2, batch.num_edges).sigmoid()],
        "MultiAggregate", smooth="std" not in kinds,
    )  # fmt: skip


def pna(
    weighted: bool,
    edges: str,
    training: bool = False,
    kinds: Sequence[Aggregator] = AGGREGATORS,
) -> Case:
    """Two layers of PNA. While training, the bias is no input: the batch norm cancels it."""
    draws = [DRAWS.child(0), DRAWS.child(1)] if training else None

    def run(batch: GraphBatch, x: Tensor, *tensors: Tensor) -> Tensor:
        rest = list(tensors)
        weight = rest.pop(0) if weighted else None
        edge = None if edges == "none" else rest.pop(0)
        layers = []
        while rest:
            w, scale, shift = rest[:3]
            bias = torch.full_like(shift, 0.1) if training else rest[3]
            rest = rest[3 if training else 4 :]
            norm = module_with(lambda: nn.BatchNorm1d(H), x, weight=scale, bias=shift)
            norm.running_mean.fill_(0.3)
            linear = module_with(lambda: nn.Linear(1, 1), x, weight=w, bias=bias)
            layers.append((linear, norm.train(training)))
        return pna_layers(x, batch, weight, edge, layers, kinds, None, 0.3, draws)

    def inputs(batch: GraphBatch, h: int) -> list[Tensor]:
        made = [normal(1, batch.num_nodes, H)]
        if weighted:
            made.append(normal(2, batch.num_edges).sigmoid())
        if edges != "none":  # without edges, models have one constant row
            each = edges == "each" and batch.num_edges > 0
            made.append(normal(3, batch.num_edges if each else 1, H))
        columns = (2 if edges == "none" else 3) * len(kinds) * H
        for layer in (0, 1):
            w = normal(10 + layer, H, columns) / columns**0.5
            made += [w, normal(30 + layer, H) + 1, normal(40 + layer, H)]
            made += [] if training else [normal(20 + layer, H)]
        return made

    return Case(
        run, inputs, "_PNALayers", H, 3 if training else 0,
        smooth=not training, by_graph=False, fused=True,
    )  # fmt: skip


CASES: dict[str, Case] = {
    **{f"aggregate {kind}": _aggregate(kind, True) for kind in ("plain", "scalar", "dense")},
    **{f"messages {kind}": _aggregate(kind, False) for kind in ("plain", "scalar", "dense")},
    **{f"normalise {kind}": _normalise(kind) for kind in NORMALISE},
    **{
        f"normalise {kind}, {name}": _normalise(kind, drop, draws)
        for kind in NORMALISE[:4]
        for name, drop, draws in (("no draws", 0.5, None), ("no drop", 0.0, DRAWS))
    },
    "add dropout": Case(
        lambda batch, x, z: add_dropout(x, z, batch.node_id, 0.3, DRAWS),
        lambda batch, h: [normal(1, batch.num_nodes, h), normal(2, batch.num_nodes, h)],
        "AddDropout",
    ),
    "batch norm": Case(
        _run_batch_norm,
        lambda batch, h: [normal(1, batch.num_nodes, h) + 0.5, normal(3, h), normal(4, h)],
        "BatchNormReLU", min_nodes=3, by_graph=False,
    ),
    "sum of nodes": Case(
        lambda batch, x: pool(x, batch.node_ptr),
        lambda batch, h: [normal(1, batch.num_nodes, h)],
        "SegmentSum",
    ),
    "concrete": Case(
        lambda batch, logits: concrete(logits, batch.edge_id, DRAWS, 0.3),
        lambda batch, h: [3 * normal(1, batch.num_edges)],
        "Concrete", by_graph=False,  # in torch, log() depends on the place in a vector
    ),
    "information": Case(
        lambda batch, logits: bernoulli_kl(logits, 0.7),
        lambda batch, h: [(3 * normal(1, batch.num_edges)).sigmoid()],
        "BernoulliKL", by_graph=False,
    ),
    **{f"gin {kind}": gin(kind) for kind in ("plain", "scalar", "dense")},
    "gin, no draws": gin("scalar", None),
    "extractor edges": _extractor(2, DRAWS),
    "extractor nodes": _extractor(1, DRAWS),
    "extractor, no draws": _extractor(2, None),
    "multi all": _multi(AGGREGATORS),
    "multi smooth": _multi(("sum", "min", "max", "mean")),
    "multi some": _multi(("mean", "std", "min")),
    **{
        f"pna {'' if weighted else 'un'}weighted, edges {edges}{', training' * training}": pna(
            weighted, edges, training
        )
        for weighted in (True, False)
        for edges in ("none", "constant", "each")
        for training in (True, False)
    },
}  # fmt: skip
