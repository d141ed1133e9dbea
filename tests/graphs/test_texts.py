"""Texts of graphs: kept as bytes, and given back as they were."""

from __future__ import annotations

import pytest

from gsat.core.errors import DataError
from gsat.graphs import GraphStore
from gsat.graphs.texts import decode_texts, encode_texts


def test_there_and_back() -> None:
    texts = ["c1ccccc1", "", "Größe μ", "a b"]
    rows = encode_texts(texts)
    assert rows.dtype == "uint8"
    assert rows.shape == (4, len("Größe μ".encode()))
    assert decode_texts(rows) == texts
    assert decode_texts(rows[::2]) == texts[::2]
    assert decode_texts(encode_texts([])) == []
    assert decode_texts(encode_texts([""])) == [""]


def test_texts_stand_beside_the_graphs() -> None:
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
    with pytest.raises(DataError, match="'charge' of these graphs is not text but int64"):
        store.texts("charge")
    with pytest.raises(DataError, match="no 'name'"):
        store.texts("name")
