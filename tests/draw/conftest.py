"""Explanations to draw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from gsat.explanation import Explanation

# 0–1–2–3 with a house's roof at the end: (edge, score, true).
HOUSE = [
    ((0, 1), 0.10, 0),
    ((1, 2), 0.30, 0),
    ((2, 3), 0.95, 1),
    ((3, 4), 0.90, 1),
    ((4, 2), 0.80, 1),
]


@pytest.fixture
def explain() -> Callable[..., Explanation]:
    """``explain(edges, scores, undirected=…)``; an undirected edge is given once, stored twice."""

    def make(
        edges: list[tuple[int, int]],
        scores: list[float],
        *,
        undirected: bool = True,
        nodes: int | None = None,
        truth: list[int] | None = None,
        probabilities: tuple[float, ...] = (0.01, 0.99),
        **more: Any,
    ) -> Explanation:
        stored = [
            (edge, score, mark)
            for (u, v), score, mark in zip(edges, scores, truth or [0] * len(edges), strict=True)
            for edge in ([(u, v), (v, u)] if undirected and u != v else [(u, v)])
        ]
        index = torch.tensor([s[0] for s in stored], dtype=torch.long).reshape(-1, 2).T
        out = Explanation(edge_index=index, edge_mask=torch.tensor([s[1] for s in stored]))
        out.num_nodes = nodes if nodes is not None else int(index.max()) + 1
        out.undirected = undirected
        out.r = 0.5
        out.probabilities = torch.as_tensor(probabilities)
        out.prediction = out.probabilities.argmax()
        if truth is not None:
            out.edge_truth = torch.tensor([s[2] for s in stored])
        for name, value in more.items():
            out[name] = value
        return out

    return make


@pytest.fixture
def house(explain: Callable[..., Explanation]) -> Callable[..., Explanation]:
    """A small undirected graph with ground truth, of class 1."""

    def make(**more: Any) -> Explanation:
        edges, scores, truth = (list(column) for column in zip(*HOUSE, strict=True))
        return explain(edges, scores, truth=truth, **{"y": torch.tensor([1]), **more})

    return make
