"""JSON-lines files: what is read is what was written, and wrong lines are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gsat.core.errors import DataError
from gsat.datasets.formats import jsonl
from gsat.graphs import from_pyg
from own_data import as_json, make_graphs, write_lines

PAIR: dict[str, Any] = {"edges": [[0, 1], [1, 0]], "y": 1}


def read(tmp_path: Path, *records: Any, name: str = "graphs.jsonl") -> Any:
    return jsonl.read(write_lines(tmp_path / name, list(records)))


@pytest.mark.parametrize("chunk", [4, 4096])
@pytest.mark.parametrize("name", ["graphs.jsonl", "graphs.jsonl.gz"])
def test_the_same_store_as_from_pyg(
    name: str, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "_CHUNK", chunk)
    graphs = make_graphs(
        15,
        edge_attr=lambda i, g: torch.rand(g.num_edges, 3),
        edge_weight=lambda i, g: torch.rand(g.num_edges),
        edge_truth=lambda i, g: (g.edge_index.sum(dim=0) == 1).float(),
        node_truth=lambda i, g: (torch.arange(g.num_nodes) < 2).float(),
    )
    expected = from_pyg(graphs)
    store = read(tmp_path, *map(as_json, graphs), name=name)
    assert store.arrays.keys() == expected.arrays.keys()
    for key, values in expected.arrays.items():
        assert store.arrays[key].dtype == values.dtype, key
        np.testing.assert_array_equal(store.arrays[key], values, err_msg=key)


def test_nodes_are_counted_where_they_are_not_given(tmp_path: Path) -> None:
    store = read(
        tmp_path,
        {"edges": [[0, 1], [3, 1]], "y": 0},
        {"edge_index": [[], []], "num_nodes": 3, "y": 1},
        {"edges": [], "node_truth": [0, 1], "y": 1},
        "",
        {"edges": [[0, 1]], "num_nodes": 5, "y": 1},
    )
    assert store.node_counts.tolist() == [4, 3, 2, 5]
    assert store.edge_counts.tolist() == [2, 0, 0, 1]
    assert store[2].node_truth.tolist() == [0, 1]


def test_missing_labels(tmp_path: Path) -> None:
    edges = {"edges": [[0, 1]]}
    one = read(tmp_path, {**edges, "y": None}, {**edges, "y": 2.5}, edges)
    np.testing.assert_array_equal(one.per_graph("y"), [np.nan, 2.5, np.nan])
    many = read(tmp_path, edges, {**edges, "y": [1, None, 0]}, {**edges, "y": [0, 1, True]})
    np.testing.assert_array_equal(many.per_graph("y"), [[np.nan] * 3, [1, np.nan, 0], [0, 1, 1]])
    nodes = read(tmp_path, {**edges, "node_y": [1, None]}, {**edges, "node_y": [0, 2]})
    np.testing.assert_array_equal(nodes.arrays["node_y"], [1, np.nan, 0, 2])


def test_texts_are_classes_in_alphabetical_order(tmp_path: Path) -> None:
    edges = {"edges": [[0, 1]]}
    store = read(tmp_path, *({**edges, "y": y} for y in ("yes", "no", None, "maybe", "yes")))
    assert store.meta["classes"] == ["maybe", "no", "yes"]
    np.testing.assert_array_equal(store.per_graph("y"), [2, 1, np.nan, 0, 2])
    nodes = read(tmp_path, {**edges, "node_y": ["b", "a"]})
    assert nodes.meta["classes"] == ["a", "b"]
    assert nodes.arrays["node_y"].tolist() == [1, 0]


def test_labels_are_integers_only_if_all_are_whole_and_exact(tmp_path: Path) -> None:
    for labels, kind in (([1, 2.0], "i"), ([0.5, 2], "f"), ([1, 2.0**60], "f")):
        values = read(tmp_path, *({**PAIR, "y": y} for y in labels)).per_graph("y")
        assert values.tolist() == labels
        assert values.dtype.kind == kind


def test_names_of_classes_may_have_a_thousand_characters(tmp_path: Path) -> None:
    assert read(tmp_path, {**PAIR, "y": "a" * 1000}).meta["classes"] == ["a" * 1000]


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    path = tmp_path / "graphs.jsonl"
    path.write_text(json.dumps(PAIR), encoding="utf-8-sig")
    assert len(jsonl.read(path)) == 1


def test_graphs_without_truth_are_not_annotated(tmp_path: Path) -> None:
    store = read(tmp_path, PAIR, {**PAIR, "edge_truth": [1, 0]}, {**PAIR, "edge_truth": None})
    assert store.per_graph("annotated").tolist() == [False, True, False]
    assert store.arrays["edge_truth"].sum() == 1
    assert store[1].edge_truth.tolist() == [1, 0]
    full = read(tmp_path, {**PAIR, "edge_truth": [1, 0]})
    assert not full.has("annotated")


def test_split_id_and_smiles(tmp_path: Path) -> None:
    store = read(
        tmp_path,
        {**PAIR, "split": "train", "id": "molecule ä", "smiles": "CC"},
        {**PAIR, "split": "val", "id": 7, "smiles": "CCO"},
        {**PAIR, "split": "test", "smiles": "C"},
        {**PAIR, "split": None},
    )
    assert store.per_graph("split").tolist() == [0, 1, 2, -1]
    assert store.texts("id") == ["molecule ä", "7", "", ""]
    assert store.texts("smiles") == ["CC", "CCO", "C", ""]
    assert store[0].id == "molecule ä"
    assert store.select([2, 1]).compact().texts("smiles") == ["C", "CCO"]
    kept = type(store).load(store.save(tmp_path / "saved"))
    assert kept.texts("id") == store.texts("id")
    nodes = read(
        tmp_path,
        {"edges": [[0, 1]], "node_y": [0, 1], "split": ["train", None]},
        {"edges": [[0, 1]], "node_y": [0, 1]},
    )
    assert nodes.arrays["node_split"].tolist() == [0, -1, -1, -1]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ('{"edges": [[0, 1]', r"not JSON"),
        ("[1, 2]", r"a graph must be a JSON object \{…\}, not a list"),
        ({**PAIR, "edge_wieght": [1, 1]}, "'edge_wieght' is not a key"),
        ({"y": 1}, "either 'edges' .* or 'edge_index'"),
        ({**PAIR, "edge_index": [[0], [1]]}, "either 'edges' .* or 'edge_index'"),
        ({**PAIR, "edges": [[0, 1, 2]]}, r"'edges' must have shape \[E, 2\], not \[1, 3\]"),
        ({"edge_index": [[0, 1]], "y": 0}, r"'edge_index' must have shape \[2, E\], not \[1, 2\]"),
        ({**PAIR, "edges": [[0, 1], [1]]}, "'edges' contains lists of different lengths"),
        ({**PAIR, "edges": [[0, 1.5]]}, "integers from 0"),
        ({**PAIR, "edges": [[0, "b"]]}, "'edges' must contain numbers only"),
        ({**PAIR, "edges": [[0, 1], [-1, 0]]}, "an edge -1 → 0, but its 2 nodes"),
        ({**PAIR, "num_nodes": 1}, "an edge 0 → 1, but its 1 nodes"),
        ({**PAIR, "num_nodes": 2.5}, "'num_nodes' must be an integer, not 2.5"),
        ({"edges": [], "num_nodes": 10**30}, r"0 nodes; at most \d+"),
        ({"edges": [], "num_nodes": 2**28 + 1}, "268435457 nodes; at most 268435456"),
        ({"edges": [[0, 10**15]], "y": 0}, r"1000000000000001 nodes; at most \d+"),
        ({**PAIR, "y": 10**400}, "'y' contains a number that is too large: 100000000000…"),
        (f'{{"edges": [], "y": 1{"0" * 5000}}}', "not JSON"),
        ({**PAIR, "x": [[1], [2]]}, r"'x' has rows of shape \[1\], before \[2\]"),
        ({**PAIR, "x": [[1, 2]], "num_nodes": 2}, r"'x' has shape \[1, 2\], but there are 2 n"),
        ({**PAIR, "x": [[1, None], [1, 2]]}, "'x' must contain numbers only"),
        ({**PAIR, "x": [[1, 2], [3, 10**400]]}, "'x'"),
        ({**PAIR, "x": [[2**63, 2**63]] * 2}, r"'x' .* too large: 9223372036854775808"),
        ({**PAIR, "edges": [[0, 2**64]]}, "'edges'"),
        ({**PAIR, "x": [[1, 2], [3, 1e300]]}, r"'x' .* too large: 1e\+300"),
        ({**PAIR, "x": [[1, 2], ["a", 4]]}, "'x' must contain numbers only"),
        ({**PAIR, "x": [[[[1]]], [[[1]]]]}, "'x'"),
        ({**PAIR, "y": "a" * 1001}, "'y' .*: a{40}…"),
        ({**PAIR, "y": "a\x07"}, r"'y' .*: a\\x07"),
        ({**PAIR, "x": [[[1]], [[1]]]}, r"'x' has shape \[2, 1, 1\]"),
        ({"edges": [[0, 1]], "y": 0}, "it has no 'x' although others have"),
        ({**PAIR, "x": [[1, 2]] * 2, "edge_truth": [1]}, r"'edge_truth' has shape \[1\]"),
        ({**PAIR, "x": [[1, 2]] * 2, "y": "yes"}, "labels must be all texts or all numbers"),
        ({**PAIR, "x": [[1, 2]] * 2, "y": [0, 1]}, r"'y' has rows of shape \[2\], before \[\]"),
        ({**PAIR, "x": [[1, 2]] * 2, "y": {"a": 1}}, "'y' must be numbers, texts or null"),
        ({"edges": [], "x": [[1, 2]], "node_y": [1]}, "'y'.* or of nodes .*, not of both"),
        ({"edges": [], "x": [[1, 2]], "node_y": 1}, r"'node_y' has shape \[\], but there"),
        (
            {**PAIR, "x": [[1, 2]] * 2, "split": "trian"},
            "'split' must be one of train, valid, test",
        ),
        ({**PAIR, "x": [[1, 2]] * 2, "split": ["test"]}, r"'split' has shape \[1\]"),
    ],
)
def test_wrong_lines_are_named(wrong: Any, why: str, tmp_path: Path) -> None:
    good = {**PAIR, "x": [[1, 2], [3, 4]]}
    with pytest.raises(DataError, match=why) as caught:
        read(tmp_path, good, "", wrong, good)
    assert "graphs.jsonl, line 3 (graph 1): " in str(caught.value)


def test_files_that_can_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="contains no graphs"):
        read(tmp_path, "", "")
    whole = write_lines(tmp_path / "graphs.jsonl.gz", [PAIR] * 5000).read_bytes()
    for content in (b"not gzip", whole[: len(whole) // 2]):
        path = tmp_path / "bad.jsonl.gz"
        path.write_bytes(content)
        with pytest.raises(DataError, match="can't be read after line"):
            jsonl.read(path)
    path = tmp_path / "latin.jsonl"
    path.write_bytes(json.dumps(PAIR).encode() + b"\n\xe4\n")
    with pytest.raises(DataError, match="can't be read"):
        jsonl.read(path)
    with pytest.raises(DataError, match="'id' must be a text without control characters"):
        read(tmp_path, {**PAIR, "id": "half a pair \ud800"})


def test_identifiers_of_any_size_are_short_texts() -> None:
    graphs = [{**PAIR, "id": value} for value in (True, -3, 1.5, 10**5000)]
    assert jsonl.from_objects(graphs).texts("id")[:3] == ["True", "-3", "1.5"]
    assert len(jsonl.from_objects(graphs).texts("id")[3]) < 100


def test_a_column_may_be_a_list_of_numbers(tmp_path: Path) -> None:
    store = read(tmp_path, {**PAIR, "x": [1, 2.5]}, {**PAIR, "x": [[True], [0]]})
    assert store.arrays["x"].tolist() == [[1], [2.5], [1], [0]]


def test_objects_are_read_as_lines_are(tmp_path: Path) -> None:
    records = [as_json(graph) for graph in make_graphs(6)]
    expected = read(tmp_path, *records)
    found = jsonl.from_objects(records)
    assert found.arrays.keys() == expected.arrays.keys()
    for name, values in expected.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], values)


@pytest.mark.parametrize(
    ("graphs", "words"),
    [
        ([], "at least one is needed"),
        ([PAIR, {"edges": [[0, 5]], "num_nodes": 2}], "graph 1: it has an edge 0 → 5"),
        ([PAIR, {"edgs": []}], "graph 1: 'edgs' is not a key"),
        ([PAIR, {**PAIR, "x": [[1], [2]]}], "graph 0: it has no 'x' although others have"),
        (["x"], "graph 0: a graph must be a JSON object"),
    ],
)
def test_wrong_objects_are_named(graphs: list[Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        jsonl.from_objects(graphs)
