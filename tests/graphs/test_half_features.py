"""Features in half precision: so on disk, in single precision in a batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data

from gsat.graphs import GraphStore, from_pyg

VALUES = np.linspace(-3, 3, 12).reshape(6, 2)


def make(dtype: type) -> GraphStore:
    return GraphStore.from_arrays(
        node_ptr=[0, 2, 6],
        edge_ptr=[0, 1, 3],
        edge_index=[[0, 1, 3], [1, 2, 0]],
        x=VALUES.astype(dtype),
        edge_attr=np.ones(3, dtype=np.float16),
        y=np.array([0.5, 1.5], dtype=np.float16),
    )


def test_they_stay_half_on_disk_and_are_single_in_a_batch(tmp_path: Path) -> None:
    half = VALUES.astype(np.float16)
    for store in (make(np.float16), GraphStore.load(make(np.float16).save(tmp_path / "saved"))):
        assert store.arrays["x"].dtype == np.float16
        assert store.compact().arrays["x"].dtype == np.float16
        batch = store.batch([1, 0])
        assert batch.x.dtype == torch.float32
        assert (batch.x.numpy() == half[[2, 3, 4, 5, 0, 1]].astype(np.float32)).all()
        assert store[0].x.dtype == torch.float32


def test_only_features_may_be_half() -> None:
    store = make(np.float16)
    assert store.arrays["edge_attr"].dtype == store.arrays["y"].dtype == np.float32
    assert make(np.float64).arrays["x"].dtype == np.float32
    graph = Data(x=torch.from_numpy(VALUES).half(), edge_index=torch.zeros(2, 0, dtype=torch.long))
    assert from_pyg([graph]).arrays["x"].dtype == np.float16
