"""RBGV: red or blue, which are more? One green and one violet node in every graph say nothing.

A set to test explanations, not models: a network that sees the whole graph can highlight the green
node for one answer and the violet one for the other, predict perfectly from what it highlights, and
explain nothing. Colours are node features; the graphs are Barabási–Albert graphs of small diameter,
so that a few layers of message passing reach every node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from gsat.core.registry import register_dataset
from gsat.datasets.source import DatasetSource
from gsat.datasets.sources._motifs import GeneratedOptions, barabasi_albert, integers

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gsat.graphs import GraphStore

SMALLEST: Final = 12  # red and blue nodes of a graph
LARGEST: Final = 20
PER_NODE: Final = 3  # edges of each new node
COLOURS: Final = ("red", "blue", "green", "violet")
RED, BLUE, GREEN, VIOLET = range(4)


@register_dataset("rbgv")
class RedBlueGreenViolet(DatasetSource):
    """1000 graphs of red and blue nodes: which are more? Green and violet say nothing."""

    Options = GeneratedOptions
    task_settings: ClassVar = {"kind": "binary"}

    def build(self, name: str, options: GeneratedOptions, data_seed: int) -> GraphStore:
        """Generate the graphs, with more blue nodes (class 0) and more red ones in turn."""
        from gsat.graphs import from_pyg

        rng = np.random.RandomState(data_seed)
        store = from_pyg(_graph(rng, number % 2) for number in range(options.graphs))
        store.meta.update(classes=["more blue", "more red"], node_types=list(COLOURS))
        return store


def _graph(rng: np.random.RandomState, label: int) -> Data:
    """One graph; the truth is the edges between red and blue nodes."""
    import torch
    from torch_geometric.data import Data

    count = SMALLEST + int(integers(rng, LARGEST - SMALLEST + 1, 1)[0])
    fewer = int(integers(rng, (count - 1) // 2, 1)[0]) + 1  # at least one, and fewer than half
    colour = np.full(count + 2, RED if label else BLUE)
    colour[:fewer] = BLUE if label else RED
    colour[-2:] = GREEN, VIOLET
    # An argsort of uniform draws is a shuffle with a frozen stream.
    colour = colour[np.argsort(rng.random_sample(len(colour)), kind="stable")]
    one_way = torch.tensor(barabasi_albert(rng, len(colour), PER_NODE)).T
    edge_index = torch.cat([one_way, one_way.flip(0)], dim=1)
    counted = torch.from_numpy(colour <= BLUE)
    return Data(
        x=torch.eye(len(COLOURS))[torch.from_numpy(colour)],
        edge_index=edge_index,
        edge_truth=counted[edge_index].all(dim=0).float(),
        node_truth=counted.float(),
        y=torch.tensor([[float(label)]]),
    )
