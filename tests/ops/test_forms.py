"""What holds for every op with a compiled form: the table is ``op_cases.CASES``."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from gsat.core.errors import GSATError
from gsat.graphs import GraphBatch, from_pyg
from gsat.ops import aggregate, normalise_relu_dropout
from gsat.ops.numba import matmul, parallel
from gsat.ops.numba.thread_pool import ThreadPool, thread_pool
from op_cases import CASES, DRAWS, Case, check, normal, with_gradients
from reference import random_graphs

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def equal(first: list[Tensor], second: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


# -- the plain form and the compiled one -------------------------------------------------------


@every_case
def test_compiled_form_is_as_exact_as_the_plain_one(case: Case, batch: GraphBatch) -> None:
    if batch.num_nodes >= case.min_nodes:
        check(*case.on(batch))


@every_case
def test_many_rows_in_blocks_and_chunks(case: Case, large: GraphBatch) -> None:
    check(*case.on(large))


@pytest.mark.parametrize("width", [1, 33])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.width == 16])
def test_other_widths(name: str, width: int, mixed: GraphBatch) -> None:
    check(*CASES[name].on(mixed, width))


def test_sums_over_many_rows_keep_their_digits() -> None:
    ptr, rows = torch.tensor([0, 30_000]), torch.arange(30_000)
    check(lambda z: normalise_relu_dropout(z, ptr, rows, 0.5, DRAWS), normal(1, 30_000, 2) + 5)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.smooth])
def test_gradients_of_the_plain_form_by_finite_differences(name: str, small: GraphBatch) -> None:
    case = CASES[name]
    inputs = [t.double().requires_grad_() for t in case.inputs(small, min(case.width, 4))]
    assert torch.autograd.gradcheck(partial(case.run, small), inputs, fast_mode=case.fused)


# -- the choice of the form --------------------------------------------------------------------


@every_case
def test_the_switch_chooses_the_form(
    case: Case, mixed: GraphBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiled(dtype: torch.dtype) -> bool:
        inputs = [t.to(dtype).requires_grad_() for t in case.inputs(mixed, case.width)]
        return case.run(mixed, *inputs).grad_fn.name() == f"{case.compiled}Backward"

    monkeypatch.delenv("GSAT_OPS", raising=False)
    assert compiled(torch.float32)  # the default
    assert not compiled(torch.float64)
    monkeypatch.setenv("GSAT_OPS", "numba")
    assert compiled(torch.float32)
    monkeypatch.setenv("GSAT_OPS", "torch")
    assert not compiled(torch.float32)


@pytest.mark.parametrize("wrong", ["Numba", "cuda", ""])
def test_an_unknown_form_is_an_error(
    wrong: str, mixed: GraphBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSAT_OPS", wrong)
    with pytest.raises(GSATError, match=f"GSAT_OPS .*'{wrong}'"):
        aggregate(mixed.x, mixed, None)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.fused])
def test_fused_ops_work_without_mkl(
    name: str, mixed: GraphBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    fused = with_gradients(*CASES[name].on(mixed))
    monkeypatch.setattr(matmul, "sgemm_address", lambda: 0)
    for ours, unfused in zip(fused, with_gradients(*CASES[name].on(mixed)), strict=True):
        assert (ours - unfused).norm() <= 1e-4 * max(1.0, float(unfused.norm()))


# -- tensors -----------------------------------------------------------------------------------


@every_case
def test_inputs_may_be_strided_and_are_left_alone(case: Case, mixed: GraphBatch) -> None:
    def strided(t: Tensor) -> Tensor:
        return t.repeat_interleave(2, dim=0)[::2] if t.dim() == 1 else t.T.contiguous().T

    run, inputs = partial(case.run, mixed), case.inputs(mixed, case.width)
    before = [t.clone() for t in inputs]
    expected = with_gradients(run, *inputs)
    assert equal(with_gradients(lambda *ts: run(*map(strided, ts)), *inputs), expected)
    case.run(mixed, *(t.requires_grad_() for t in inputs)).square().sum().backward()
    assert equal([t.detach() for t in inputs], before)


@every_case
def test_a_sum_has_an_expanded_gradient(case: Case, mixed: GraphBatch) -> None:
    leaves = [t.requires_grad_() for t in case.inputs(mixed, case.width)]
    case.run(mixed, *leaves).sum().backward()
    exact = [t.detach().double().requires_grad_() for t in leaves]
    case.run(mixed, *exact).sum().backward()
    for ours, truth in zip(leaves, exact, strict=True):
        torch.testing.assert_close(ours.grad, truth.grad.float(), rtol=1e-3, atol=2e-4)


@every_case
def test_a_gradient_is_the_same_alone_and_among_all(case: Case, mixed: GraphBatch) -> None:
    inputs = case.inputs(mixed, case.width)
    among_all = with_gradients(partial(case.run, mixed), *inputs)[1:]
    for place, expected in enumerate(among_all):

        def of_one(leaf: Tensor, place: int = place) -> Tensor:
            return case.run(mixed, *(leaf if i == place else t for i, t in enumerate(inputs)))

        assert torch.equal(with_gradients(of_one, inputs[place])[1], expected)


@every_case
def test_a_nan_reaches_the_same_rows_as_in_the_plain_form(
    case: Case, mixed: GraphBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A diverged training must not look sane: dropout and ReLU pass a NaN on.

    Some rows may differ: the compiled form writes 0 where a NaN is dropped, the plain one 0 · NaN.
    """
    inputs = case.inputs(mixed, case.width)
    inputs[0][int(mixed.src[0])] = torch.nan
    rows = []
    for form in ("numba", "torch"):
        monkeypatch.setenv("GSAT_OPS", form)
        value = case.run(mixed, *inputs)
        rows.append(value.isnan().reshape(*value.shape[:1], -1).any(-1))
    compiled, plain = rows
    assert plain.any()
    assert not (compiled & ~plain).any()
    assert compiled.sum() >= 0.75 * plain.sum()


# -- the same bits -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.by_graph])
def test_a_graph_has_the_same_values_in_any_batch(name: str, engine: str) -> None:
    """The order of batches plays no part, dropout included."""
    case, store = CASES[name], from_pyg(random_graphs(4, 5, awkward=False))
    whole = store.batch()
    inputs = case.inputs(whole, case.width)

    def rows_of(graph: int, t: Tensor, batch: GraphBatch) -> Tensor:
        """Which rows of a tensor belong to a graph, by its length."""
        if len(t) == batch.num_nodes:
            return batch.node_graph == graph
        return batch.edge_graph == graph if len(t) == batch.num_edges else torch.ones(len(t)) > 0

    values = []
    for chosen in ([2], [0, 2, 1], [4, 3, 2, 0]):
        batch = store.batch(chosen)
        parts = [[t[rows_of(graph, t, whole)] for graph in chosen] for t in inputs]
        given = [
            torch.cat(part) if len(t) in (whole.num_nodes, whole.num_edges) else t
            for t, part in zip(inputs, parts, strict=True)
        ]
        value, place = case.run(batch, *given), chosen.index(2)
        per_graph = len(value) == len(chosen)
        values.append(value[place] if per_graph else value[rows_of(place, value, batch)])
    assert values[0].any()
    assert all(torch.equal(other, values[0]) for other in values[1:])


def split_finely(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small batches be split over several threads."""
    monkeypatch.setattr(parallel, "_MIN_ROWS", 1)
    monkeypatch.setattr(parallel, "CHUNK", 8)
    monkeypatch.setattr(matmul, "_MIN_BLOCK_ROWS", 16)
    monkeypatch.setattr(parallel, "_kernel_threads", [threads])


@every_case
def test_threads_do_not_change_a_bit(
    case: Case, mixed: GraphBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def counting(size: int) -> ThreadPool:
        sizes.append(size)
        return thread_pool(size)

    monkeypatch.setattr(parallel, "thread_pool", counting)
    split_finely(1, monkeypatch)
    expected = with_gradients(*case.on(mixed))
    assert not sizes
    for threads in (2, 3):
        split_finely(threads, monkeypatch)
        assert equal(with_gradients(*case.on(mixed)), expected)
    assert set(sizes) == {2, 3}


@every_case
def test_python_threads_may_enter_at_once(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    split_finely(2, monkeypatch)
    store = from_pyg(random_graphs(7, 30))
    batches = [store.batch(np.arange(start, start + 12)) for start in (0, 9, 20)]
    expected = [with_gradients(*case.on(batch)) for batch in batches]
    together = threading.Barrier(3)

    def work(number: int) -> bool:
        together.wait(timeout=60)
        return all(
            equal(with_gradients(*case.on(batches[number])), expected[number]) for _ in range(5)
        )

    with ThreadPoolExecutor(3) as workers:
        assert all(workers.map(work, range(3)))
