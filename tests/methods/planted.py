"""Graphs whose label is told by one edge: two red and two blue nodes are in every one, and either
the red ones (label 1) or the blue ones (label 0) are joined."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

from gsat.datasets.load import Dataset
from gsat.graphs import from_pyg
from gsat.models import InterpretableModel
from gsat.tasks import Task


def planted(graphs: int = 200, seed: int = 0) -> Dataset:
    """Rings of 12 nodes, grey but for every third, and the planted edge across the ring."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(graphs):
        label = number % 2
        nodes = rng.permutation(12)
        red, blue = nodes[[0, 6]], nodes[[3, 9]]
        x = torch.zeros(12, 3)
        x[:, 2] = 1.0
        x[red], x[blue] = torch.tensor([1.0, 0, 0]), torch.tensor([0, 1.0, 0])
        pairs = np.stack([nodes, np.roll(nodes, 1)])
        pairs = np.concatenate([pairs, (red if label else blue)[:, None]], axis=1)
        truth = torch.zeros(2, pairs.shape[1], dtype=torch.long)
        truth[:, -1] = 1
        index = torch.from_numpy(np.concatenate([pairs, pairs[::-1]], axis=1))
        y = torch.tensor([[float(label)]])
        made.append(Data(x=x, edge_index=index, edge_truth=truth.flatten(), y=y))
    cut = np.split(np.arange(graphs), [graphs * 6 // 10, graphs * 8 // 10])
    splits = dict(zip(("train", "valid", "test"), cut, strict=True))
    return Dataset("planted", from_pyg(made), Task("binary"), splits)


def one_kind_comes_first(model: InterpretableModel, data: Dataset) -> bool:
    """Whether the planted edge has the highest score in all test graphs of a label: to know one
    kind of edges is enough to tell both labels."""
    firsts: dict[float, list[bool]] = {0.0: [], 1.0: []}
    for e in model.explain(data.test):
        firsts[float(e.y)].append(bool(e.edge_truth[e.edge_mask.argmax()]))
    return any(all(actual) for actual in firsts.values())
