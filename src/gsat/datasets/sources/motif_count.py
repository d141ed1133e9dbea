"""Motif-Count: how many houses hang on a tree? A regression whose truth is known.

Five-cycles hang there, too, and the tree's size varies: nodes and edges alone only tell twice the
houses plus the cycles, so a model has to find the houses. With ``level="node"`` each node has a
number: of the houses it is part of or joined to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from gsat.datasets.sources.ba2motifs import CYCLE, HOUSE, check_count, integers
from gsat.datasets.sources.ba_shapes import barabasi_albert
from gsat.datasets.splits import shuffled
from gsat.graphs import GraphStore, from_pyg
from gsat.tasks import Task

VERSION: Final = 1
SPLIT_OPTIONS: Final[frozenset[str]] = frozenset()

SMALLEST: Final = 10  # nodes of the tree
LARGEST: Final = 30
MOST: Final = 4  # houses, and as many cycles


def TASK(name: str, options: Mapping[str, Any]) -> Task:
    """Centre and scale: of 0 to 4, evenly drawn, at graph level; about those of nodes."""
    if options["level"] == "node":
        return Task("regression", 1, "r2", level="node", centre=0.3, scale=0.5)
    return Task("regression", 1, "r2", centre=2.0, scale=1.4142135623730951)


def build(name: str, options: Mapping[str, Any]) -> GraphStore:
    """Graph after graph: the tree's nodes, then houses, then cycles, five nodes each."""
    check_count(options["graphs"])
    rng = np.random.RandomState(options["data_seed"])
    return from_pyg(_graph(rng, options["level"]) for _ in range(options["graphs"]))


def split(store: GraphStore, seed: int, options: Mapping[str, Any]) -> dict[str, NDArray[np.int64]]:
    """80/10/10 of the graphs; at node level, all nodes of these graphs."""
    parts = shuffled(len(store), seed)
    if options["level"] == "graph":
        return parts
    return {name: store.select(part).target_nodes() for name, part in parts.items()}


def matches_paper(name: str, options: Mapping[str, Any]) -> str:
    """``different``: the paper has no regression."""
    return "different"


def _graph(rng: np.random.RandomState, level: str) -> Data:
    """A Barabási–Albert tree with houses and cycles, each on a base node of its own draw."""
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
