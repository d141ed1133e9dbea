"""How steady an explanation is: how far edges keep their ranks from one epoch to the next."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gsat.graphs import GraphStore
from gsat.metrics import mean_graph_correlation

# Validation edges that are compared; more would take time, and say the same.
MOST_EDGES: Final = 1 << 18


class Steadiness:
    """Compare the edge scores of each epoch with those of the epoch before.

    Args:
        graphs: The validation graphs; the first of them, up to some 260 000 edges, are compared.
    """

    def __init__(self, graphs: GraphStore) -> None:
        ends = np.cumsum(graphs.edge_counts)
        fitting = max(1, int(np.searchsorted(ends, MOST_EDGES, side="right")))
        self.ptr = np.concatenate([[0], ends[:fitting]])
        self.before: NDArray[Any] | None = None
        self.now: NDArray[Any] | None = None

    def see(self, scores: NDArray[Any]) -> None:
        """Take the scores of an epoch, ``[E]``; those seen last become the epoch before."""
        self.before, self.now = self.now, scores[: self.ptr[-1]].copy()

    def forget(self) -> None:
        """Forget what was seen: a phase begins."""
        self.before = self.now = None

    def correlation(self) -> float | None:
        """The mean rank correlation with the epoch before; None without one."""
        if self.before is None or self.now is None:
            return None
        return mean_graph_correlation(self.before, self.now, self.ptr)
