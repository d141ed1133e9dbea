"""Training on shards is training on one file, bit for bit."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import gsat
from gsat.datasets.cache import content_hash
from gsat.datasets.load import Dataset
from gsat.graphs import GraphStore, storage
from gsat.graphs.sharded_array import ShardedArray
from gsat.training.recipe import load_data
from training_harness import SMALL, differing, outcome, small_recipe

FIT = {name: SMALL[name] for name in ("epochs", "batch_size", "r_interval")}


def on_shards(data: Dataset, folder: Path) -> Dataset:
    store = GraphStore.load(storage.save(data.store, folder, shard_bytes=10_000))
    assert isinstance(store.arrays["x"], ShardedArray)
    assert len(store.arrays["x"].parts) > 10
    return dataclasses.replace(data, store=store)


@pytest.mark.parametrize("backbone", ["gin", "pna"])
def test_a_run_has_the_same_bytes(tmp_path: Path, backbone: str) -> None:
    whole = load_data(small_recipe())
    shards = on_shards(whole, tmp_path / "data")
    assert content_hash(shards.store) == content_hash(whole.store) == whole.hash
    kind = {"gin": gsat.GIN, "pna": gsat.PNA}[backbone]
    for name, data in (("whole", whole), ("shards", shards)):
        model = gsat.GSAT(kind.for_data(data, hidden=8, layers=1, seed=0), seed=0)
        gsat.fit(model, data, seed=0, out=tmp_path / name, **FIT)
    assert differing(outcome(tmp_path / "whole"), outcome(tmp_path / "shards")) == []


def test_a_run_over_nodes_has_the_same_bytes(tmp_path: Path) -> None:
    whole = load_data(small_recipe())
    # Labels of nodes: whether a node lies in the motif.
    arrays = {k: v for k, v in whole.store.arrays.items() if k != "y"}
    truth = np.asarray(arrays["node_truth"])
    arrays["node_y"] = truth.astype(np.int64)[:, None]
    parts = np.array_split(np.random.default_rng(0).permutation(len(truth)), 3)
    whole = dataclasses.replace(
        whole,
        store=GraphStore(arrays, whole.store.meta),
        task=gsat.Task("binary", level="node"),
        splits=dict(zip(("train", "valid", "test"), parts, strict=True)),
    )
    for name, data in (("whole", whole), ("shards", on_shards(whole, tmp_path / "data"))):
        model = gsat.GSAT(gsat.GIN.for_data(data, hidden=8, layers=1, seed=0), seed=0)
        gsat.fit(model, data, seed=0, out=tmp_path / name, **FIT)
    assert differing(outcome(tmp_path / "whole"), outcome(tmp_path / "shards")) == []
