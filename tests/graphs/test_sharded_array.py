"""Sharded arrays are indexed like NumPy arrays."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from gsat.graphs import GraphStore, sharded_array
from gsat.graphs.sharded_array import ShardedArray, chunks, content_digest, row_reader


def cut(values: np.ndarray, rng: np.random.Generator) -> ShardedArray:
    """Divide an array into at most six parts, some of them empty."""
    where = np.sort(rng.integers(0, len(values) + 1, size=rng.integers(0, 6)))
    return ShardedArray(np.split(values, where))


@pytest.mark.parametrize("seed", range(30))
def test_rows_equal_those_of_the_whole_array(seed):
    rng = np.random.default_rng(seed)
    width = [(), (1,), (3,), (2, 2)][seed % 4]
    kind = [np.float32, np.int64, bool][seed % 3]
    whole = rng.integers(0, 2 if kind is bool else 99, size=(int(rng.integers(1, 60)), *width))
    whole = whole.astype(kind)
    parts = cut(whole, rng)
    n = len(whole)
    assert (parts.shape, parts.dtype, len(parts)) == (whole.shape, whole.dtype, n)
    for rows in (
        rng.integers(-n, n, size=40),
        rng.integers(0, n, size=(4, 5)),
        np.zeros(0, dtype=np.int64),
        rng.integers(0, 2, size=n) == 1,
        slice(3, -2, 2),
        int(rng.integers(0, n)),
    ):
        ours, theirs = parts[rows], whole[rows]
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs, strict=True)
    np.testing.assert_array_equal(np.asarray(parts), whole, strict=True)
    assert np.asarray(parts, dtype=np.float64).dtype == np.float64


@pytest.mark.parametrize("row", [7, -8])
def test_rows_out_of_range(row):
    parts = ShardedArray([np.zeros(3), np.zeros(4)])
    with pytest.raises(IndexError, match="7"):
        parts[np.array([0, row])]


def test_reading_copies():
    first = np.zeros(3)
    ShardedArray([first, np.zeros(2)])[np.arange(5)][:] = 1
    assert not first.any()


def test_a_reader_serves_arrays_with_different_parts():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 50, size=30)
    read = row_reader(rows)
    for _ in range(5):
        whole = rng.normal(size=(50, 2))
        np.testing.assert_array_equal(read(cut(whole, rng)), whole[rows])
        np.testing.assert_array_equal(read(whole), whole[rows])


def test_more_than_two_billion_rows(tmp_path):
    # A sparse file of two billion rows, and a few real rows after it.
    many = 2**31 + 10
    hole = tmp_path / "hole"
    with hole.open("wb") as file:
        file.truncate(4 * many)
    x = ShardedArray(
        [np.memmap(hole, np.float32, "r", shape=(many, 1)), np.float32([[0], [1], [2], [3], [4]])]
    )
    np.testing.assert_array_equal(x[np.array([many + 3, 0])], [[3], [0]])
    edges, ends = np.memmap(hole, np.int32, "r"), np.array([0, 1], dtype=np.int32)
    names = ("dst", "src", "by_src", "order")
    arrays = {name: ShardedArray([edges, ends]) for name in names}
    store = GraphStore(
        {
            "node_ptr": np.array([0, many, many + 5]),
            "edge_ptr": np.array([0, many, many + 2]),
            "undirected": np.array([True, True]),
            "x": x,
            **arrays,
        },
        {},
    )
    batch = store.batch([1])
    assert batch.x[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert batch.src.tolist() == batch.dst.tolist() == [0, 1]
    assert store.num_edges == 2**31 + 12


@pytest.mark.parametrize("size", [1, 40, 1 << 24])
def test_chunks_contain_all_rows_in_order(monkeypatch, size):
    monkeypatch.setattr(sharded_array, "_CHUNK", size)
    rng = np.random.default_rng(1)
    whole = rng.normal(size=(37, 3)).astype(np.float32)
    for values in (whole, whole[:, ::-1][:, ::-1], cut(whole, rng)):
        pieces = list(chunks(values))
        assert all(piece.flags.c_contiguous for piece in pieces)
        assert max(piece.nbytes for piece in pieces) <= max(size, 12)
        np.testing.assert_array_equal(np.concatenate(pieces), whole)


def test_the_digest_covers_names_types_shapes_and_bytes(monkeypatch):
    monkeypatch.setattr(sharded_array, "_CHUNK", 50)
    rng = np.random.default_rng(2)
    arrays = {
        "y": rng.integers(0, 2, size=9),
        "x": np.asfortranarray(rng.normal(size=(30, 4)).astype(np.float32)),
        "mask": rng.integers(0, 2, size=30) == 1,
        "none": np.zeros((0, 2), dtype=np.float32),
    }
    expected = hashlib.sha256()
    for name in ("mask", "none", "x", "y"):
        values = arrays[name]
        expected.update(f"{name} {values.dtype.str} {values.shape}".encode() + values.tobytes())
    assert content_digest(arrays) == expected.hexdigest()[:16]
    parts = {name: cut(values, rng) for name, values in arrays.items()}
    assert content_digest(parts) == expected.hexdigest()[:16]
