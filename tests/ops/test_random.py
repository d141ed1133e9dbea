"""Draws: rates, independence, and equal bits in both forms and in every version."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numba
import numpy as np
import pytest
import torch
from torch import Tensor

from gsat.ops import Draws, relu_dropout
from gsat.ops import random as random_module
from gsat.ops.numba.random import channel_bits_numba, column_offsets_numba, row_words_numba
from gsat.ops.random import (
    channel_bits,
    row_words,
    threshold,
)

ROWS = torch.arange(2500)
DROPS = (0.05, 0.3, 0.5, 0.9)
# Of Draws(0, "training").child("train", 3).
PINNED = {
    "key": 15166365970695776763,
    "uniform": [4824631, 14961471, 8104607, 11596161],
    "keep": [[1, 0, 1, 1, 0, 0, 1, 0], [0, 1, 0, 1, 0, 1, 0, 0]],
    "permutation": [9, 1, 5, 0, 6, 7, 3, 4, 2, 8],
}


def correlation(first: Tensor, second: Tensor) -> float:
    """Times the root of the count, so in sigmas of independent draws."""
    a, b = first.double().flatten(), second.double().flatten()
    return float(torch.corrcoef(torch.stack([a, b]))[0, 1]) * math.sqrt(len(a))


def compiled_keep(draws: Draws, rows: Tensor, channels: int, drop: float) -> Tensor:
    """The mask of the compiled dropout."""
    return relu_dropout(torch.ones(len(rows), channels), rows, drop, draws) > 0


FORMS = {"torch": lambda d, r, c, p: d.keep(r, c, p), "numba": compiled_keep}


@pytest.fixture(params=FORMS)
def keep(request: pytest.FixtureRequest) -> Callable[..., Tensor]:
    """``keep(draws, rows, channels, drop)``, in either form."""
    return FORMS[request.param]


# -- rates -------------------------------------------------------------------------------------


@pytest.mark.parametrize("drop", DROPS)
def test_the_keep_rate(drop: float, keep: Callable[..., Tensor]) -> None:
    kept = keep(Draws(0, "rate"), ROWS, 64, drop).double()
    for rates, count in ((kept.mean(), kept.numel()), (kept.mean(0), len(ROWS))):
        sigma = math.sqrt(drop * (1 - drop) / count)
        assert (rates - (1 - drop)).abs().max() < 4 * sigma
    # Rows neither: the number of kept channels of a row varies as it does for coins.
    spread = kept.sum(1).var() / (64 * drop * (1 - drop))
    assert abs(spread - 1) < 5 * math.sqrt(2 / len(ROWS))


def test_no_drop_keeps_all(keep: Callable[..., Tensor]) -> None:
    assert keep(Draws(0), ROWS, 8, 0.0).all()


def test_thresholds_stay_within_32_bits() -> None:
    assert threshold(0.0) == 0
    assert threshold(0.5) == 2**31
    assert threshold(1.0 - 2**-40) == 2**32 - 1


def test_uniform_is_uniform() -> None:
    u = Draws(0, "uniform").uniform(torch.arange(100_000)).double().sort().values
    steps = torch.arange(100_001) / 100_000
    distance = torch.maximum((u - steps[:-1]).abs().max(), (steps[1:] - u).abs().max())
    assert distance < 1.95 / math.sqrt(len(u))  # Kolmogorov–Smirnov, one in a thousand
    assert len(u.unique()) > 0.99 * len(u)


def test_uniform_is_never_0_or_1(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = torch.tensor([0, 1, 2**32 - 2, 2**32 - 1])
    monkeypatch.setattr(random_module, "row_words", lambda key, rows: (ends, ends))
    u = Draws(0).uniform(torch.arange(4))
    assert u.dtype == torch.float32
    assert (u > 0).all()
    assert (u < 1).all()
    assert u[0] < 1e-7
    assert u[-1] > 1 - 1e-7
    assert (torch.log(u) - torch.log1p(-u)).isfinite().all()


# -- independence ------------------------------------------------------------------------------


def test_channels_are_independent(keep: Callable[..., Tensor]) -> None:
    kept = keep(Draws(3, "channels"), ROWS, 64, 0.5).double()
    table = torch.corrcoef(kept.T).fill_diagonal_(0) * math.sqrt(len(ROWS))
    assert table.abs().max() < 5  # of 2016 pairs


def test_rows_are_independent(keep: Callable[..., Tensor]) -> None:
    draws = Draws(4, "rows")
    kept = keep(draws, ROWS, 64, 0.5)
    for shift in (1, 2, 50, 1 << 32, 7 << 32):  # the next node or edge, the next graph
        other = keep(draws, ROWS + shift, 64, 0.5)
        assert abs(correlation(kept, other)) < 4
        assert abs(correlation(kept[:, 1:], other[:, :-1])) < 4
        assert abs(correlation(kept[:, :-1], other[:, 1:])) < 4


def test_other_paths_are_independent(keep: Callable[..., Tensor]) -> None:
    root = Draws(5)
    sources = [
        root,
        Draws(6),
        root.child(0),
        root.child(1),
        root.child("0"),
        root.child(0, 0),
        root.child(0).child(0),
        root.child("first run").child("dropout", 0),
        root.child("second run").child("dropout", 0),
        root.child("first run").child("dropout", 1),
    ]
    assert len({source.key for source in sources}) == len(sources)
    kept = [keep(source, ROWS, 32, 0.5) for source in sources]
    uniform = [source.uniform(ROWS) for source in sources]
    for a, b in itertools.combinations(range(len(sources)), 2):
        assert abs(correlation(kept[a], kept[b])) < 4
        assert abs(correlation(uniform[a], uniform[b])) < 4


def test_uniform_of_neighbours_is_independent() -> None:
    draws = Draws(8, "attention")
    u = draws.uniform(ROWS)
    for shift in (1, 2, 17):
        assert abs(correlation(u[shift:], u[:-shift])) < 4
    assert abs(correlation(u, draws.uniform(ROWS + (1 << 32)))) < 4


# -- one function ------------------------------------------------------------------------------


def test_a_draw_depends_on_its_name_alone(keep: Callable[..., Tensor]) -> None:
    draws = Draws(0, "epoch", 3).child("dropout")
    again = Draws(0, "epoch", 3).child("dropout")
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(ROWS)))
    whole = keep(draws, ROWS, 16, 0.5)
    assert torch.equal(keep(again, ROWS, 16, 0.5), whole)
    assert torch.equal(keep(draws, ROWS[order], 16, 0.5), whole[order])
    assert torch.equal(keep(draws, ROWS[5:9], 7, 0.5), whole[5:9, :7])
    assert torch.equal(draws.uniform(ROWS[order]), draws.uniform(ROWS)[order])


def test_torchs_generator_plays_no_part() -> None:
    state = torch.get_rng_state()
    Draws(0).uniform(ROWS)
    Draws(0).keep(ROWS, 3, 0.5)
    Draws(0).permutation(9)
    assert torch.equal(torch.get_rng_state(), state)


@numba.njit
def _bits(key, rows, out, words):  # type: ignore[no-untyped-def]
    offsets = column_offsets_numba(out.shape[1])
    for i in range(len(rows)):
        low, high = row_words_numba(key, rows[i])
        words[i, 0], words[i, 1] = low, high
        for j in range(out.shape[1]):
            out[i, j] = channel_bits_numba(low, high, offsets[j])


def plainly(key: int, row: int, channel: int) -> tuple[int, int, int]:
    """Both hashes in Python's own integers."""
    z = (row * 0x9E3779B97F4A7C15 + key) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    z ^= z >> 31
    low, high = z % 2**32, z >> 32
    x = (low + channel * 0x9E3779B9) % 2**32
    x = (x ^ (x >> 16)) * 0x7FEB352D % 2**32 ^ high
    x = (x ^ (x >> 15)) * 0x846CA68B % 2**32
    return low, high, x ^ (x >> 16)


def test_both_forms_give_the_same_bits() -> None:
    rng = np.random.default_rng(1)
    rows = torch.from_numpy((rng.integers(0, 10**6, 50) << 32) + rng.integers(0, 10**5, 50))
    for key in (0, 1, 2**63 - 1, 2**63, 2**64 - 1, Draws(0, "bits").key):
        found = np.zeros((50, 300), np.int64)
        words = np.zeros((50, 2), np.int64)
        _bits(np.uint64(key), rows.numpy(), found, words)
        assert torch.equal(channel_bits(key, rows, 300), torch.from_numpy(found))
        assert torch.equal(torch.stack(row_words(key, rows), 1), torch.from_numpy(words))
        for i, j in ((0, 0), (7, 1), (49, 299)):
            assert plainly(key, int(rows[i]), j) == (*words[i], found[i, j])


def test_draws_never_change() -> None:
    """A change here makes every recorded run stale: raise the results version with it."""
    draws = Draws(0, "training").child("train", 3)
    assert draws.key == PINNED["key"]
    assert draws.torch_seed() == draws.key >> 1
    assert (draws.uniform(torch.arange(4)).double() * 2**24).tolist() == PINNED["uniform"]
    assert draws.keep(torch.tensor([0, 1 << 32]), 8, 0.5).int().tolist() == PINNED["keep"]
    assert draws.permutation(10).tolist() == PINNED["permutation"]


@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_a_permutation_holds_every_number_once(count: int) -> None:
    order = Draws(2, "order").permutation(count)
    assert order.dtype == np.int64
    assert sorted(order.tolist()) == list(range(count))
    assert order.tolist() == Draws(2, "order").permutation(count).tolist()
    if count == 1000:
        assert order.tolist() != sorted(order)
        assert order.tolist() != Draws(2, "order", 1).permutation(count).tolist()


def test_a_name_is_a_value_not_a_type() -> None:
    """A number from NumPy names the same draws, whatever NumPy's version prints for it."""
    assert Draws(np.int64(3), np.int32(4)).key == Draws(3, 4).key
    assert Draws(3).child(np.int64(4), "a").key == Draws(3).child(4, "a").key
