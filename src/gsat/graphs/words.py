"""Words of the nodes, kept with each graph in one array: no Python object per word or graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from gsat.explanation import Explanation
    from gsat.graphs.store import GraphStore

FIELD: Final = "words"


def pack_words(graphs: Sequence[Sequence[str]]) -> NDArray[np.uint8]:
    """UTF-8 of each graph's words [G, W], one row per graph: every word ends with a zero byte.

    As an extra of the graphs (``graph.words``) it goes wherever they go: into views, copies, files.
    """
    rows = ["".join(f"{word}\0" for word in words).encode() for words in graphs]
    width = max(map(len, rows), default=0)
    text = b"".join(row.ljust(width, b"\0") for row in rows)
    return np.frombuffer(text, dtype=np.uint8).reshape(len(rows), width).copy()


def tokens(store: GraphStore, position: int) -> list[str]:
    """The words of the nodes of graph ``position`` of this view, in the order of the nodes."""
    view = store.select([position])
    words: list[str] = view.per_graph(FIELD)[0].tobytes().decode().split("\0")
    return words[: int(view.node_counts[0])]


def words_of(explanation: Explanation) -> list[str] | None:
    """The words of the nodes of an explained graph, or of a part of it; None if it has none."""
    text = explanation.get(FIELD)
    if not isinstance(text, str):
        return None
    words, number = text.split("\0"), explanation.get("node_id")
    places = range(int(explanation.num_nodes or 0)) if number is None else number.tolist()
    # Empty words at the end are lost in the text.
    return [words[place] if place < len(words) else "" for place in places]
