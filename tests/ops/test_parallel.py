"""Which form runs, and how its work is split over threads."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gsat.core.errors import GSATError
from gsat.graphs import GraphBatch, from_pyg
from gsat.ops import (
    Draws,
    ScalarTerm,
    aggregate,
    batch_norm_relu,
    bernoulli_kl,
    concrete,
    extractor,
    gather_normalise_relu_dropout,
    gin_layers,
    normalise_relu_dropout,
    pool,
    relu_dropout,
)
from gsat.ops.dispatch import engine
from gsat.ops.numba import compile as compile_module
from gsat.ops.numba import matmul, parallel
from gsat.ops.numba.parallel import run_over_segments
from gsat.ops.numba.thread_pool import ThreadPool, thread_pool
from reference import random_graphs

DRAWS = Draws(1, "engine")
Op = Callable[[Tensor, GraphBatch], Tensor]


def _edge(x: Tensor, batch: GraphBatch) -> Tensor:
    """[E], some weight on each edge that depends on x."""
    return x[batch.src, 0] * x[batch.dst, 1]


def _dense(x: Tensor, batch: GraphBatch) -> Tensor:
    return x[batch.src].flip(1) + 0.1


def _scalar(x: Tensor, batch: GraphBatch) -> ScalarTerm:
    return ScalarTerm(_edge(x, batch), x[:4].sum(0), x[:9].mean(0))


def _batch_norm(x: Tensor, batch: GraphBatch) -> Tensor:
    return batch_norm_relu(x, x[0].detach(), nn.BatchNorm1d(x.shape[1]).to(x.dtype))


def _weights(like: Tensor, *shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator).to(like.dtype) for shape in shapes]


def _gin_layers(x: Tensor, batch: GraphBatch) -> Tensor:
    h = x.shape[1]
    mlp = [module.to(x.dtype) for module in (nn.Linear(h, h), nn.BatchNorm1d(h), nn.Linear(h, h))]
    with torch.no_grad():
        for linear, weight in zip(mlp[::2], _weights(x, (h, h), (h, h)), strict=True):
            linear.weight.copy_(weight)
            linear.bias.fill_(0.1)
    return gin_layers(x, batch, _edge(x, batch), [_scalar(x, batch)], [mlp], 0.5, [DRAWS])


def _extractor(x: Tensor, batch: GraphBatch, ends: int) -> Tensor:
    k = ends * x.shape[1]
    weights = _weights(x, (2 * k, k), (4, 2 * k), (1, 4), (1,))
    return extractor(x, batch, *weights, 0.5, DRAWS)


# Every compiled op on one tensor x [N, h], with the name of its compiled backward.
OPS: dict[str, tuple[str, Op]] = {
    "aggregate": ("_Aggregate", lambda x, b: aggregate(x, b, _edge(x, b), include_self=True)),
    "aggregate scalar": ("_Aggregate", lambda x, b: aggregate(x, b, _edge(x, b), _scalar(x, b))),
    "aggregate dense": ("_Aggregate", lambda x, b: aggregate(x, b, _edge(x, b), _dense(x, b))),
    "normalise": (
        "_NormaliseReLUDropout",
        lambda x, b: normalise_relu_dropout(x, b.node_ptr, b.node_id, 0.5, DRAWS),
    ),
    "gather": (
        "_GatherNormaliseReLUDropout",
        lambda x, b: gather_normalise_relu_dropout(x, x.flip(1), b, 0.5, DRAWS),
    ),
    "relu": ("_ReLUDropout", lambda x, b: relu_dropout(x, b.node_id, 0.5, DRAWS, x[:3].sum(0))),
    "gin layers": ("_GINLayers", _gin_layers),
    "extractor edges": ("_Extractor", lambda x, b: _extractor(x, b, 2)),
    "extractor nodes": ("_Extractor", lambda x, b: _extractor(x, b, 1)),
    "pool": ("_SegmentSum", lambda x, b: pool(x, b.node_ptr)),
    "batch norm": ("_BatchNormReLU", _batch_norm),
    "concrete": ("_Concrete", lambda x, b: concrete(x[:, 0], b.node_id, DRAWS, 0.7)),
    "information": ("_BernoulliKL", lambda x, b: bernoulli_kl(x[:, 0].sigmoid(), 0.7)),
}


def use(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let kernels use so many threads."""
    monkeypatch.setattr(parallel, "_kernel_threads", [count])


@pytest.fixture(params=OPS)
def op(request: pytest.FixtureRequest) -> Op:
    return OPS[request.param][1]


def run(op: Op, batch: GraphBatch, h: int = 16) -> tuple[Tensor, Tensor]:
    """Value and gradient of an op, on rows made from the batch's own features."""
    x = batch.x.repeat(1, -(-h // batch.x.shape[1]))[:, :h].clone().requires_grad_()
    value = op(x, batch)
    return value.detach(), torch.autograd.grad(value.square().sum(), x)[0]


def same(first: tuple[Tensor, ...], second: tuple[Tensor, ...]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


# -- which form --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPS)
def test_the_switch_chooses_the_form(
    name: str, mixed: GraphBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    backward, op = OPS[name]

    def form(dtype: torch.dtype) -> str:
        x = mixed.x.to(dtype).requires_grad_()
        return type(op(x, mixed).grad_fn).__name__.removesuffix("Backward")

    monkeypatch.delenv("GSAT_OPS", raising=False)
    assert form(torch.float32) == backward  # the default
    assert form(torch.float64) != backward
    monkeypatch.setenv("GSAT_OPS", "numba")
    assert form(torch.float32) == backward
    monkeypatch.setenv("GSAT_OPS", "torch")
    assert form(torch.float32) != backward


@pytest.mark.parametrize("chosen", ["numba", "torch"])
def test_engine_returns_the_selected_form(chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSAT_OPS", chosen)
    assert engine() == chosen


@pytest.mark.parametrize("wrong", ["Numba", "cuda", ""])
def test_an_unknown_form_is_an_error(
    wrong: str, mixed: GraphBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSAT_OPS", wrong)
    with pytest.raises(GSATError, match=f"GSAT_OPS is 'numba' or 'torch', not '{wrong}'"):
        aggregate(mixed.x, mixed, None)


@pytest.mark.parametrize("rows", [0, 1, 255, 256, 257, 1000])
def test_chunks_cover_all_rows(rows: int) -> None:
    ptr = parallel.chunk_ptr(rows)
    assert ptr[0] == 0
    assert ptr[-1] == rows
    assert len(ptr) - 1 == -(-rows // parallel.CHUNK)
    assert (np.diff(ptr) > 0).all()
    assert (np.diff(ptr) <= parallel.CHUNK).all()


# -- threads -----------------------------------------------------------------------------------


class Recorder:
    """Stands for a kernel that is compiled already, and notes the ranges it is called with."""

    def __init__(self) -> None:
        compile_module._compiled.add(self)
        self.ranges: list[tuple[int, int]] = []

    def __call__(self, first: int, last: int, ptr: np.ndarray, *more: str) -> None:
        assert more == ("more",)
        self.ranges.append((first, last))


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_ranges_cover_every_segment_once(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_MIN_ROWS", 1)
    use(count, monkeypatch)
    rng = np.random.default_rng(0)
    for case in range(60):
        sizes = rng.integers(0, 5, size=case % 12) * rng.integers(0, 2, size=case % 12)
        ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        kernel = Recorder()
        run_over_segments(kernel, ptr, "more")
        ranges = sorted(kernel.ranges)
        assert ranges[0][0] == 0
        assert ranges[-1][1] == len(sizes)
        assert all(a[1] == b[0] for a, b in itertools.pairwise(ranges))
        assert len(ranges) == min(count, max(1, ptr[-1]), max(1, len(sizes)))


def test_the_work_is_shared_out_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_MIN_ROWS", 100)
    use(2, monkeypatch)
    ptr = np.concatenate([[0], np.cumsum([50] + [1] * 200)]).astype(np.int64)
    kernel = Recorder()
    run_over_segments(kernel, ptr, "more")
    assert sorted(ptr[b] - ptr[a] for a, b in kernel.ranges) == [125, 125]
    kernel = Recorder()
    run_over_segments(kernel, ptr[:140], "more")
    assert kernel.ranges == [(0, 139)]  # less than 100 rows for each: not worth a second thread


def test_an_error_in_any_range_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_MIN_ROWS", 1)
    use(2, monkeypatch)

    class Failing(Recorder):
        def __call__(self, first: int, last: int, ptr: np.ndarray, *more: str) -> None:
            if first > 0:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_over_segments(Failing(), np.arange(5), "more")


def test_exclusive_threads_go_to_the_kernels() -> None:
    torch.set_num_threads(3)
    assert parallel.num_threads() == 1  # torch's threads would stand in their way
    with parallel.exclusive_threads():
        assert (parallel.num_threads(), torch.get_num_threads()) == (3, 1)
        with parallel.exclusive_threads():
            assert (parallel.num_threads(), torch.get_num_threads()) == (3, 1)
        assert (parallel.num_threads(), torch.get_num_threads()) == (3, 1)
    assert (parallel.num_threads(), torch.get_num_threads()) == (1, 3)


# -- compiling ---------------------------------------------------------------------------------


def _twice(first, last, ptr, x):  # type: ignore[no-untyped-def]
    for i in range(ptr[first], ptr[last]):
        x[i] *= 2


def test_a_kernel_is_compiled_before_threads_enter_it() -> None:
    """And on an empty range: nothing is done twice."""
    compiled = compile_module.kernel(_twice)
    x = np.ones(3, np.float32)
    run_over_segments(compiled, np.array([0, 2, 3]), x)
    assert x.tolist() == [2, 2, 2]
    assert len(compiled.signatures) == 1


# -- the same bits -----------------------------------------------------------------------------


def test_threads_do_not_change_a_bit(
    op: Op, mixed: GraphBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def counting(size: int) -> ThreadPool:
        calls.append(size)
        return thread_pool(size)

    monkeypatch.setattr(parallel, "thread_pool", counting)
    monkeypatch.setattr(parallel, "_MIN_ROWS", 1)
    monkeypatch.setattr(parallel, "CHUNK", 8)
    monkeypatch.setattr(matmul, "_MIN_BLOCK_ROWS", 16)
    use(1, monkeypatch)
    expected = run(op, mixed)
    assert not calls
    for count in (2, 3):
        use(count, monkeypatch)
        assert same(run(op, mixed), expected)
    assert calls


def test_threads_do_not_change_a_bit_of_a_large_batch(
    op: Op, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large enough for torch, too, to share out the last sum over graphs."""
    store = from_pyg(random_graphs(6, 40, awkward=False))
    batch = store.batch(np.arange(800) % 40)
    assert batch.num_nodes > 2 * parallel._MIN_ROWS
    found = []
    for count in (1, 2):
        use(count, monkeypatch)
        found.append(run(op, batch, 65))
    assert same(*found)


def test_python_threads_may_enter_at_once(op: Op, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_MIN_ROWS", 1)
    monkeypatch.setattr(parallel, "CHUNK", 8)
    monkeypatch.setattr(matmul, "_MIN_BLOCK_ROWS", 16)
    use(2, monkeypatch)
    store = from_pyg(random_graphs(7, 30))
    batches = [store.batch(np.arange(start, start + 12)) for start in (0, 9, 20)]
    expected = [run(op, batch) for batch in batches]
    together = threading.Barrier(3)

    def work(number: int) -> bool:
        together.wait(timeout=60)
        return all(same(run(op, batches[number]), expected[number]) for _ in range(15))

    with ThreadPoolExecutor(3) as workers:
        assert all(workers.map(work, range(3)))


def test_stages_run_on_one_thread_while_the_pool_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that wait for each other can't run one after the other."""
    monkeypatch.setattr(parallel, "_kernel_threads", [2])
    seen: list[tuple[int, ...]] = []

    def stages(thread: int, end: int, threads: int, meeting: object, *_: object) -> None:
        if end:
            seen.append((thread, threads))

    parallel.run_together(stages, 2)
    assert sorted(seen) == [(0, 2), (1, 2)]
    seen.clear()
    pool = thread_pool(2)
    with pool._free:
        parallel.run_together(stages, 2)
    assert seen == [(0, 1)]
