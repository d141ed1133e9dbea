"""A large data set is cached in shards and mapped from there."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gsat.datasets.load import load_dataset
from gsat.datasets.sources.ba2motifs import Houses
from gsat.graphs import GraphStore, storage
from gsat.graphs.sharded_array import ShardedArray


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A cache of the test's own with shards of 20 kB, and what was built for it."""
    monkeypatch.setenv("GSAT_CACHE", str(tmp_path))
    monkeypatch.setattr(storage, "save", functools.partial(storage.save, shard_bytes=20_000))
    made: list[str] = []
    build = Houses.build

    def counted(self: Houses, name: str, options: Any, data_seed: int) -> GraphStore:
        made.append(name)
        return build(self, name, options, data_seed)

    monkeypatch.setattr(Houses, "build", counted)
    return made


def test_a_large_data_set_is_cached_in_shards(
    tmp_path: Path, builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, again = (load_dataset("houses", graphs=60) for _ in range(2))
    assert len(builds) == 1
    for data in (first, again):
        assert isinstance(data.store.arrays["src"], ShardedArray)
    monkeypatch.undo()
    monkeypatch.setenv("GSAT_CACHE", str(tmp_path / "other"))
    whole = load_dataset("houses", graphs=60)
    assert isinstance(whole.store.arrays["src"], np.ndarray)
    assert again.hash == whole.hash
    assert again.store.meta == whole.store.meta
    for name, positions in whole.splits.items():
        np.testing.assert_array_equal(again.splits[name], positions)
        np.testing.assert_array_equal(
            again.split(name).batch().edge_id, whole.split(name).batch().edge_id
        )


def test_a_cache_that_lost_a_shard_is_made_again(tmp_path: Path, builds: list[str]) -> None:
    before = load_dataset("houses", graphs=60)
    next(tmp_path.glob("datasets/*/graphs-00001-*")).unlink()
    after = load_dataset("houses", graphs=60)
    assert len(builds) == 2
    assert after.hash == before.hash
    np.testing.assert_array_equal(after.store.arrays["src"], before.store.arrays["src"])
