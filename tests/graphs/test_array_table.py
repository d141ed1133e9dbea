"""Saved arrays are loaded only if types, shapes and indices are valid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gsat.core.errors import DataError
from gsat.core.tensors import write_tensors
from gsat.datasets.load import load_dataset
from gsat.graphs import GraphStore
from gsat.graphs.array_table import REQUIRED, RULES
from gsat.graphs.storage import FILE

KINDS = ("float64", "float32", "float16", "int64", "int32", "int16", "uint8", "bool")
ARRAYS: dict[str, Any] = {
    "node_ptr": np.array([0, 2, 5]),
    "edge_ptr": np.array([0, 2, 6]),
    "src": np.array([1, 0, 1, 0, 2, 1], np.int32),
    "dst": np.array([0, 1, 0, 1, 1, 2], np.int32),
    "by_src": np.array([1, 0, 1, 0, 3, 2], np.int32),
    "order": np.array([0, 1, 0, 1, 2, 3], np.int32),
    "undirected": np.array([True, True]),
    "x": np.ones((5, 2), np.float32),
    "edge_attr": np.ones((6, 1), np.float32),
    "edge_weight": np.ones(6, np.float32),
    "edge_truth": np.ones(6, np.float32),
    "node_truth": np.ones(5, np.float32),
    "node_split": np.zeros(5, np.int64),
    "targets": np.ones(5, bool),
    "y": np.zeros(2, np.int64),
    "graph.split": np.zeros(2, np.int64),
    "graph.annotated": np.ones(2, bool),
    "graph.id": np.full((2, 3), 65, np.uint8),
    "graph.size": np.ones(2, np.float32),
}


def load(folder: Path, arrays: dict[str, Any]) -> GraphStore:
    write_tensors(folder / FILE, arrays, {"format": "gsat-graphs-1", "meta": "{}"})
    return GraphStore.load(folder)


def refused(folder: Path, arrays: dict[str, Any], why: str) -> None:
    with pytest.raises(DataError, match=why) as caught:
        load(folder, arrays)
    assert str(caught.value).isprintable()


def test_the_example_is_valid(tmp_path: Path) -> None:
    assert load(tmp_path, ARRAYS).batch([0, 1]).num_edges == 6


def test_there_is_a_rule_for_every_array_of_a_store() -> None:
    assert set(load_dataset("houses", graphs=20).store.arrays) <= set(RULES)


@pytest.mark.parametrize("name", [name for name in ARRAYS if name in RULES])
@pytest.mark.parametrize("kind", KINDS)
def test_other_types_are_refused(name: str, kind: str, tmp_path: Path) -> None:
    if kind in RULES[name].types:
        load(tmp_path, {**ARRAYS, name: ARRAYS[name].astype(kind)})
    else:
        refused(tmp_path, {**ARRAYS, name: ARRAYS[name].astype(kind)}, name)


@pytest.mark.parametrize("name", ARRAYS)
def test_other_shapes_are_refused(name: str, tmp_path: Path) -> None:
    values = ARRAYS[name]
    for wrong in (
        values[:-1],
        values[:0],
        np.concatenate([values, values]),
        values.reshape(-1)[0:1],
    ):
        refused(tmp_path, {**ARRAYS, name: wrong}, FILE)
    refused(tmp_path, {**ARRAYS, name: values[..., None, None, None]}, name)


@pytest.mark.parametrize("name", ["src", "dst", "by_src", "order"])
@pytest.mark.parametrize("wrong", [-1, 4, 1000, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("place", range(6))
def test_an_index_outside_its_graph_is_refused(
    name: str, wrong: int, place: int, tmp_path: Path
) -> None:
    changed = ARRAYS[name].copy()
    changed[place] = wrong
    refused(tmp_path, {**ARRAYS, name: changed}, name)


@pytest.mark.parametrize("name", ["node_ptr", "edge_ptr"])
@pytest.mark.parametrize("wrong", [[0, -1, 5], [0, 9, 5], [1, 2, 5], [0, 2, 2**40], [0, 2, 2**62]])
def test_invalid_pointers_are_refused(name: str, wrong: list[int], tmp_path: Path) -> None:
    refused(tmp_path, {**ARRAYS, name: np.array(wrong)}, FILE)


@pytest.mark.parametrize("name", REQUIRED)
def test_missing_arrays_are_named(name: str, tmp_path: Path) -> None:
    refused(tmp_path, {key: value for key, value in ARRAYS.items() if key != name}, name)


def test_unknown_names_invalid_booleans_and_empty_arrays_of_any_width(tmp_path: Path) -> None:
    refused(tmp_path, {**ARRAYS, "more": np.zeros(2)}, "more")
    odd = np.array([2, 1], np.uint8).view(bool)
    refused(tmp_path, {**ARRAYS, "undirected": odd}, "undirected")
    empty = {name: values[:0] for name, values in ARRAYS.items()}
    empty |= {"node_ptr": np.zeros(1, np.int64), "edge_ptr": np.zeros(1, np.int64)}
    empty |= {"x": np.zeros((0, 1 << 40), np.float32)}
    refused(tmp_path, empty, "x")


@pytest.mark.parametrize(
    "meta",
    [
        '{"classes": 3}', '{"classes": [{}]}', '{"categories": ["a"]}', '{"content": 1}', "[]", "",
        None,
    ],
)  # fmt: skip
def test_invalid_plain_values_are_refused(meta: str | None, tmp_path: Path) -> None:
    header = {"format": "gsat-graphs-1"} | ({} if meta is None else {"meta": meta})
    write_tensors(tmp_path / FILE, ARRAYS, header)
    with pytest.raises(DataError, match=FILE):
        GraphStore.load(tmp_path)
