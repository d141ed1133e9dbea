"""How an epoch is cut into batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def cut_into_batches(
    order: Rows, batch_size: int, node_counts: Rows, parts: Callable[[Rows], Sequence[Rows]]
) -> list[Rows]:
    """Cut an epoch's graphs into batches, in order.

    A batch norm needs two nodes: a batch with fewer in any of its parts (a last graph of one atom,
    say) is joined to one beside it.
    """

    def is_small(rows: Rows) -> bool:
        return min(int(node_counts[part].sum()) for part in parts(rows)) < 2

    batches: list[Rows] = []
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        if batches and is_small(batches[-1]):
            rows = np.concatenate([batches.pop(), rows])
        batches.append(rows)
    if len(batches) > 1 and is_small(batches[-1]):
        batches[-2:] = [np.concatenate(batches[-2:])]
    return batches
