"""The same graphs with the labels of others: what is learnt from these explains nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gsat.datasets.dataset import Dataset
from gsat.graphs import GraphStore
from gsat.ops import Draws


def shuffle_labels(data: Dataset, seed: int = 0) -> Dataset:
    """Give every graph (or node) of a data set the label of another one."""
    name = "node_y" if data.task.level == "node" else "y"
    labels = np.asarray(data.store.arrays[name][:])
    other = labels[Draws(seed, "shuffled labels").permutation(len(labels))]
    store = GraphStore({**data.store.arrays, name: other}, data.store.meta, data.store.index)
    return replace(data, store=store)
