"""Edges ranked by score, and budgets of edges."""

from __future__ import annotations

import math
from typing import NamedTuple

from gsat.core.errors import GSATError


class RankedEdge(NamedTuple):
    """An edge with its score; both directions of an undirected edge are one.

    Attributes:
        unit: Its number among the graph's units (see :meth:`Explanation.units`).
        source: Its first node.
        target: Its second node.
        score: The score.
        true: Whether the ground truth holds it; None where that is unknown.
    """

    unit: int
    source: int
    target: int
    score: float
    true: bool | None


def parse_budget(budget: int | str, count: int) -> int:
    """Turn a budget into a number of edges."""
    text = str(budget).strip()
    try:
        if text.endswith("%"):
            share = float(text[:-1]) / 100
            if 0 < share <= 1:
                return math.ceil(round(share * count, 9))
        elif int(text) > 0:
            return int(text)
    except ValueError:
        pass
    raise GSATError(f"a budget is a number of edges (6) or a share (20%), not {budget!r}")
