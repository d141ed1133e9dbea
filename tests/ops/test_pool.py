"""Sum and mean of segments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import global_add_pool, global_mean_pool

from gsat.graphs import GraphBatch
from gsat.ops import pool

How = Literal["sum", "mean"]


@pytest.mark.parametrize("how", ["sum", "mean"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_is_pygs_pooling(
    how: How, dtype: torch.dtype, mixed: GraphBatch, normal: Callable[..., Tensor]
) -> None:
    x = normal(1, mixed.num_nodes, 5).to(dtype)
    theirs = {"sum": global_add_pool, "mean": global_mean_pool}[how]
    found, graphs = pool(x, mixed.node_ptr, how), mixed.num_graphs
    torch.testing.assert_close(found, theirs(x, mixed.node_graph, graphs))
    empty = mixed.node_ptr.diff() == 0
    assert empty.any()
    assert (found[empty] == 0).all()


@pytest.mark.parametrize("how", ["sum", "mean"])
@pytest.mark.parametrize("h", [1, 33])
def test_compiled_form_is_as_exact_as_the_plain_one(
    how: How,
    h: int,
    batch: GraphBatch,
    normal: Callable[..., Tensor],
    agree: Callable[..., None],
) -> None:
    agree(lambda x: pool(x, batch.node_ptr, how), normal(1, batch.num_nodes, h))
    agree(lambda x: pool(x, batch.edge_ptr, how), normal(1, batch.num_edges, h))


@pytest.mark.parametrize("how", ["sum", "mean"])
def test_gradients_of_the_plain_form(
    how: How, small: GraphBatch, normal: Callable[..., Tensor]
) -> None:
    x = normal(1, small.num_nodes, 3).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: pool(x, small.node_ptr, how), x)


def test_strided_rows(mixed: GraphBatch, normal: Callable[..., Tensor]) -> None:
    x = normal(1, mixed.num_nodes, 6)
    turned = x.T.contiguous().T
    assert not turned.is_contiguous()
    assert torch.equal(pool(turned, mixed.node_ptr), pool(x, mixed.node_ptr))
