"""Texts of graphs and words of nodes as arrays of bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from gsat.core.errors import DataError
from gsat.explanation import Explanation
from gsat.graphs import GraphStore, texts
from gsat.graphs.texts import (
    decode_texts,
    encode_texts,
    encode_words,
    node_words,
)

WORDS = [["a", "gorgeous", "film"], [], ["crème", "brûlée", "", "two words", "好"], ["."]]


@pytest.fixture
def store() -> GraphStore:
    sizes = [len(words) for words in WORDS]
    graphs = GraphStore.from_arrays(
        node_ptr=np.concatenate([[0], np.cumsum(sizes)]),
        edge_ptr=[0] * 5,
        edge_index=np.zeros((2, 0)),
        y=np.arange(4),
    )
    graphs.arrays[f"graph.{texts.WORDS}"] = encode_words(WORDS)
    return graphs


def test_words_are_one_array_of_bytes(store: GraphStore) -> None:
    packed = store.per_graph(texts.WORDS)
    assert packed.dtype == np.uint8
    assert packed.shape == (4, len("crème\0brûlée\0\0two words\0好\0".encode()))
    assert [node_words(store, i) for i in range(4)] == WORDS
    assert node_words(store, -1) == ["."]


def test_words_follow_views_copies_and_files(store: GraphStore, tmp_path: Path) -> None:
    view = store.select([2, 0])
    for graphs in (view, view.compact(), GraphStore.load(view.save(tmp_path / "saved"))):
        assert [node_words(graphs, i) for i in range(2)] == [WORDS[2], WORDS[0]]
    data = view[0]  # a PyG graph has them, too
    assert data[texts.WORDS].split("\0")[: len(WORDS[2])] == WORDS[2]


def test_stores_without_words(store: GraphStore) -> None:
    assert encode_words([]).shape == (0, 0)
    del store.arrays[f"graph.{texts.WORDS}"]
    with pytest.raises(DataError, match="words"):
        node_words(store, 0)


def test_words_of_an_explanation(store: GraphStore) -> None:
    def explained(number: int) -> Explanation:
        out = Explanation(undirected=False)
        for name, value in store[number].items():
            out[name] = value
        out.edge_mask = torch.linspace(0.1, 0.9, out.num_edges)
        return out

    for number, words in enumerate(WORDS):
        assert explained(number).node_words() == words
    part = explained(2)
    part.edge_index = torch.tensor([[1, 3], [3, 4]])
    part.edge_mask = torch.tensor([0.1, 0.9])
    assert part.top(1).node_words() == ["two words", "好"]
    assert Explanation(num_nodes=2).node_words() is None
    ended = Explanation(words="a", num_nodes=3)  # empty words at the end are lost
    assert ended.node_words() == ["a", "", ""]


# -- texts of graphs -------------------------------------------------------------------------------


def test_texts_are_decoded_as_they_were() -> None:
    given = ["c1ccccc1", "", "Größe μ", "a b"]
    rows = encode_texts(given)
    assert rows.dtype == "uint8"
    assert rows.shape == (4, len("Größe μ".encode()))
    assert decode_texts(rows) == given
    assert decode_texts(rows[::2]) == given[::2]
    assert decode_texts(encode_texts([])) == []
    assert decode_texts(encode_texts([""])) == [""]


def test_texts_follow_their_graphs() -> None:
    store = GraphStore.from_arrays(
        node_ptr=[0, 1, 3, 4],
        edge_ptr=[0, 0, 1, 1],
        edge_index=[[0], [1]],
        graph_fields={"smiles": ["C", "CO", "N"], "charge": [1, 2, 1]},
    )
    assert store.texts("smiles") == ["C", "CO", "N"]
    assert store.select([2, 1]).texts("smiles") == ["N", "CO"]
    assert store[1].smiles == "CO"
    assert store[1].charge.tolist() == [2]
    with pytest.raises(DataError, match=r"charge.*int64"):
        store.texts("charge")
    with pytest.raises(DataError, match="name"):
        store.texts("name")
