"""Motif-Count: how many houses are attached to a tree? A regression whose truth is known.

Five-cycles are attached as well, and the tree's size varies: the numbers of nodes and edges alone
only give away twice the houses plus the cycles, so a model has to find the houses. With
``level="node"`` each node has a number: that of the houses it is part of or joined to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from pydantic import Field

from gsat.core.registry import register_dataset
from gsat.datasets.source import DatasetSource
from gsat.datasets.sources._motifs import CYCLE, HOUSE, GeneratedOptions, barabasi_albert, integers

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gsat.graphs import GraphStore
    from gsat.tasks import Task

SMALLEST: Final = 10  # nodes of the tree
LARGEST: Final = 30
MOST: Final = 4  # houses, and as many cycles


@register_dataset("motif-count")
class MotifCount(DatasetSource):
    """1000 trees with houses and five-cycles, a regression: how many houses?"""

    class Options(GeneratedOptions):
        level: Literal["graph", "node"] = Field(
            "graph",
            description="'graph': houses of a graph; 'node': houses a node is part of or joined to",
        )

    def task(self, name: str, options: Options) -> Task:
        """The number of houses, with the centre and scale of the labels."""
        from gsat.tasks import Task

        if options.level == "node":  # about those of the labels
            return Task("regression", 1, "r2", level="node", centre=0.3, scale=0.5)
        # Mean and deviation of numbers drawn uniformly from 0 to 4.
        return Task("regression", 1, "r2", centre=2.0, scale=1.4142135623730951)

    def build(self, name: str, options: Options, data_seed: int) -> GraphStore:
        """Generate the graphs: in each the tree's nodes, then houses, then cycles."""
        from gsat.graphs import from_pyg

        rng = np.random.RandomState(data_seed)
        return from_pyg(_graph(rng, options.level) for _ in range(options.graphs))


def _graph(rng: np.random.RandomState, level: str) -> Data:
    """A Barabási–Albert tree with houses and cycles, each joined to a base node of its own draw."""
    import torch
    from torch_geometric.data import Data

    base = SMALLEST + int(integers(rng, LARGEST - SMALLEST + 1, 1)[0])
    houses, cycles = integers(rng, MOST + 1, 2).tolist()
    edges = barabasi_albert(rng, base, 1)
    number = np.zeros(base + 5 * (houses + cycles), dtype=np.float32)
    number[base : base + 5 * houses] = 1
    true = [False] * len(edges)
    for motif in range(houses + cycles):
        first, joint = base + 5 * motif, int(integers(rng, base, 1)[0])
        shape = HOUSE if motif < houses else CYCLE
        number[joint] += motif < houses
        edges += [(joint, first), *((first + u, first + v) for u, v in shape)]
        true += [False, *(motif < houses for _ in shape)]
    one_way = torch.tensor(edges).T
    edge_index = torch.cat([one_way, one_way.flip(0)], dim=1)
    in_house = torch.tensor(true).repeat(2)
    order = np.lexsort((edge_index[1], edge_index[0]))
    node = torch.arange(len(number))
    return Data(
        x=torch.ones(len(number), 1),
        edge_index=edge_index[:, order],
        edge_truth=in_house[order].float(),
        node_truth=((node >= base) & (node < base + 5 * houses)).float(),
        y=torch.tensor([[float(houses)]]) if level == "graph" else None,
        node_y=torch.from_numpy(number)[:, None] if level == "node" else None,
    )
