"""Random graphs of every awkward kind, as PyG data in the caller's own edge order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

KINDS = ("undirected", "directed", "duplicates", "loops", "isolated", "no edges", "one node")


def _edges(rng: np.random.Generator, kind: str, nodes: int) -> np.ndarray:
    """[2, E] in random order."""
    if kind == "no edges":
        return np.zeros((2, 0), dtype=np.int64)
    if kind == "one node":
        return np.zeros((2, int(rng.integers(0, 3))), dtype=np.int64)
    reach = max(2, nodes // 2) if kind == "isolated" else nodes
    pairs = rng.integers(0, reach, size=(int(rng.integers(1, 3 * nodes)), 2))
    if kind not in ("loops", "directed"):
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    if kind != "duplicates":
        pairs = np.unique(np.sort(pairs, axis=1), axis=0)
    if kind != "directed":
        loops = pairs[:, 0] == pairs[:, 1]
        pairs = np.concatenate([pairs, pairs[~loops][:, ::-1]])
    return rng.permutation(pairs).T.astype(np.int64)


@pytest.fixture
def random_graph() -> Callable[..., Data]:
    """``random_graph(rng, kind)``: float ``x`` [N, 3], ``edge_attr`` [E, 2], ``y``, truths."""

    def make(rng: np.random.Generator, kind: str | None = None) -> Data:
        kind = kind or str(rng.choice(KINDS))
        nodes = 1 if kind == "one node" else int(rng.integers(3, 12))
        index = _edges(rng, kind, nodes)
        return Data(
            x=torch.from_numpy(rng.normal(size=(nodes, 3)).astype(np.float32)),
            edge_index=torch.from_numpy(index.copy()),
            edge_attr=torch.from_numpy(rng.normal(size=(index.shape[1], 2)).astype(np.float32)),
            y=torch.from_numpy(rng.integers(0, 3, size=1)),
            node_truth=torch.from_numpy(rng.integers(0, 2, size=nodes)),
            edge_truth=torch.from_numpy(rng.integers(0, 2, size=index.shape[1])),
        )

    return make


@pytest.fixture
def random_graphs(random_graph: Callable[..., Data]) -> Callable[..., list[Data]]:
    """``random_graphs(seed, count)``: every kind at least once, then any, shuffled."""

    def make(seed: int, count: int = 14) -> list[Data]:
        rng = np.random.default_rng(seed)
        kinds = [*KINDS, *rng.choice(KINDS, size=max(0, count - len(KINDS)))]
        return [random_graph(rng, str(kinds[i])) for i in rng.permutation(len(kinds))]

    return make


@pytest.fixture
def same_graph() -> Callable[[Data, Data], None]:
    """Assert that two PyG graphs are equal: values, types and the order of their edges."""

    def check(ours: Data, theirs: Data) -> None:
        assert sorted(ours.keys()) == sorted(theirs.keys()) or set(ours.keys()) == {
            *theirs.keys(),
            "num_nodes",
        }
        assert ours.num_nodes == theirs.num_nodes
        for name in theirs.keys():  # noqa: SIM118
            if name == "num_nodes":
                continue
            assert ours[name].dtype == theirs[name].dtype, name
            assert torch.equal(ours[name], theirs[name]), name

    return check
