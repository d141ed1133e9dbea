"""The PyG reference of the benchmarks computes the same function as GSAT."""

from __future__ import annotations

import pytest
import torch
from benchmarks.common import Timing
from benchmarks.plain_pyg import PlainGSAT, information
from benchmarks.steps import BLOCK, Floor, Product, floor_row, products
from torch.nn.utils import parameters_to_vector
from torch.utils.flop_counter import FlopCounterMode

from gsat import bottleneck
from gsat.datasets.load import Dataset, load_dataset
from gsat.gsat import GSAT
from gsat.models import GIN, PNA


def small(name: str) -> Dataset:
    sizes = {"ba2motifs": {"graphs": 40}, "spmotif-0.5": {"train_per_class": 6}}
    return load_dataset(name, **sizes[name])


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("backbone", "name", "attention"),
    [
        ("gin", "ba2motifs", "edge"),
        ("gin", "ba2motifs", "node"),
        ("gin", "spmotif-0.5", "edge"),
        ("pna", "ba2motifs", "edge"),
        ("pna", "spmotif-0.5", "edge"),
    ],
)
def test_it_is_the_same_function(backbone: str, name: str, attention: str, training: bool) -> None:
    """Outputs and gradients agree in float64 (no dropout, no noise)."""
    data = small(name)
    network: GIN | PNA = (
        GIN.for_data(data, seed=1, dropout=0.0)
        if backbone == "gin"
        else PNA.for_data(data, seed=1, dropout=0.0, hidden=8)
    )
    ours = GSAT(network, attention, extractor_dropout=0.0, sampling="none", seed=1).double()
    plain = PlainGSAT(ours).double()
    ours.train(training)
    plain.train(training)
    batch = data.train.batch()
    assert batch.y is not None
    x = batch.x.double()
    attr = None if batch.edge_attr is None else batch.edge_attr.double()
    output = ours(batch)
    theirs = plain(x, batch.edge_index, batch.node_graph, attr, batch.num_graphs)
    torch.testing.assert_close(output.logits, theirs.logits)
    torch.testing.assert_close(output.edge_weight, theirs.weight)
    torch.testing.assert_close(output.probability, theirs.p)
    y = batch.y if batch.y.dtype == torch.long else batch.y.double()
    (ours.task.loss(output.logits, y) + bottleneck.information(output.attention, 0.7)).backward()
    (ours.task.loss(theirs.logits, y) + information(theirs.alpha, 0.7)).backward()
    layers: list[tuple[torch.nn.Module, torch.nn.Module]] = [
        (ours.backbone.encoder, plain.backbone.encoder),
        (ours.extractor.first, plain.lin1),
        (ours.extractor.second, plain.lin2),
        (ours.extractor.last, plain.lin3),
    ]
    if backbone == "pna":
        layers.append((ours.backbone.layers[3].norm, plain.backbone.norms[3]))
    else:
        layers.append((ours.backbone.layers[0].inner, plain.backbone.convs[0].nn[0]))
        layers.append((ours.backbone.layers[1].outer, plain.backbone.convs[1].nn[3]))
    for mine, other in layers:
        torch.testing.assert_close(mine.weight.grad, other.weight.grad)


def test_the_floor_lists_every_weight_once_per_use() -> None:
    """A step's products cover all weight matrices: two runs of the backbone, one of the rest."""
    data = small("spmotif-0.5")
    model = GSAT(GIN.for_data(data, seed=0), seed=0)
    listed = products(model, data.train.batch())
    used = sum(p.k * p.n for p in listed)
    gin, g = model.backbone, model.extractor
    assert isinstance(gin, GIN)
    twice = [
        gin.encoder.weight,
        *(w for layer in gin.layers for w in (layer.inner.weight, layer.outer.weight)),
    ]
    once = [gin.head.weight, g.first.weight, g.second.weight, g.last.weight]
    assert used == 2 * len(parameters_to_vector(twice)) + len(parameters_to_vector(once))
    Floor(listed)()


def test_the_floor_takes_the_operations_of_the_products_and_no_more() -> None:
    floor = Floor([Product("large", 2001, 8, 4), Product("small", 3, 8, 4, input_grad=False)])
    with FlopCounterMode(display=False) as counted:
        floor()
    assert floor.flops == 2 * 8 * 4 * (3 * 2001 + 2 * 3)
    assert floor.flops <= counted.get_total_flops() < 1.01 * floor.flops
    assert max(a.shape[0] for _, add, a, _, _ in floor.calls if not add) <= BLOCK


def test_a_step_is_compared_by_cpu_time_on_one_thread_and_by_the_clock_on_two() -> None:
    step, floor = Timing(wall=6.0, cpu=4.0), Timing(wall=2.5, cpu=2.0)
    one = floor_row("mutag", 1, step, floor, flops=8e9)
    assert (one["ratio"], one["floor_gflops"]) == (2.0, 4.0)
    assert floor_row("mutag", 2, step, floor, flops=8e9)["ratio"] == 6.0 / 1.25
