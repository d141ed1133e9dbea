"""Graph-SST2: the split by degree, the table of parses, DIG's files, and our real sentences."""

from __future__ import annotations

import gzip
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import gsat
from gsat.core.errors import DataError
from gsat.datasets import find_source, make_options
from gsat.datasets.load import load_dataset
from gsat.datasets.sources.graph_sst2 import (
    by_degree,
    from_trees,
    read_published,
    read_trees,
)
from gsat.graphs.texts import node_words

TREES = "sst2/graph_sst2_rebuilt_spacy_trees.tsv.gz"
HEADER = "split\tindex\tlabel\ttokens(space-separated)\theads(0-based, root=self)\tdeps\n"
TINY = HEADER + (
    "train\t0\t0\thide new secretions\t0 2 0\tROOT amod dobj\n"
    "train\t1\t1\tloves\t0\tROOT\n"
    "dev\t0\t1\ta gorgeous , witty crème\t4 4 4 4 4\t\n"
)


# -- the split --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_split_of_random_trees(seed: int) -> None:
    """Check 15 of the spec: up to 2 words dropped, 3–4 test, 5–8 unused, 9 and more train."""
    rng = np.random.default_rng(seed)
    sizes = np.concatenate([np.arange(1, 13), rng.integers(1, 40, size=300)])
    rng.shuffle(sizes)
    trees = [nx.random_labeled_tree(int(n), seed=int(rng.integers(2**31))) for n in sizes]
    edges = np.array([2 * tree.number_of_edges() for tree in trees])
    parts = by_degree(sizes, edges)
    pool = [i for i, n in enumerate(sizes) if n >= 9]
    assert parts["valid"].tolist() == pool[: len(pool) // 10]
    assert parts["train"].tolist() == pool[len(pool) // 10 :]
    assert parts["test"].tolist() == [i for i, n in enumerate(sizes) if n in (3, 4)]


# -- the table of parses ----------------------------------------------------------------------


def write(path: Path, text: str) -> Path:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("name", ["trees.tsv.gz", "trees.tsv"])
def test_reads_a_table(name: str, tmp_path: Path) -> None:
    read = read_trees(write(tmp_path / name, TINY))
    assert read.words[0] == ["hide", "new", "secretions"]
    assert read.words[2][-1] == "crème"
    assert read.label.tolist() == [0, 1, 1]
    assert read.node_ptr.tolist() == [0, 3, 4, 9]
    assert read.edge_ptr.tolist() == [0, 4, 4, 12]
    # Reversed edges (word to head), then the edges (head to word).
    assert read.edge_index[:, :4].tolist() == [[1, 2, 2, 0], [2, 0, 1, 2]]
    assert read.edge_index[:, 4:].tolist() == [[0, 1, 2, 3, 4, 4, 4, 4], [4, 4, 4, 4, 0, 1, 2, 3]]
    assert len(read_trees(tmp_path / name, sentences=2).words) == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "must begin with the columns split, index, label, tokens, heads"),
        (TINY.replace("label", "y", 1), "must begin with the columns"),
        (TINY.replace("0 2 0\t", "0 2\t"), "line 2: 3 words but 2 heads"),
        (TINY.replace("0 2 0\t", "0 3 0\t"), r"line 2: heads are 0 to 2, not \[0, 3, 0\]"),
        (TINY.replace("0 2 0\t", "0 -1 0\t"), "line 2: heads are 0 to 2"),
        (TINY.replace("0 2 0\t", "0 x 0\t"), "after 1 sentences: invalid literal"),
        (TINY.replace("train\t1\t1", "train\t1\t2"), "line 3: the label is 0 or 1, not 2"),
        (TINY + "test\t0\n", "line 5: 2 columns"),
    ],
)
def test_wrong_tables(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=why):
        read_trees(write(tmp_path / "trees.tsv.gz", text))


def test_damaged_files(tmp_path: Path) -> None:
    whole = gzip.compress(TINY.encode())
    path = tmp_path / "trees.tsv.gz"
    for content in (b"", b"not gzip", whole[:-12], whole[:20] + bytes(10) + whole[30:], None):
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(DataError, match=r"trees\.tsv\.gz"):
            read_trees(path)


def test_a_store_of_a_table(tmp_path: Path, tiny_bert: Path) -> None:
    store = from_trees(write(tmp_path / "mine.tsv", TINY), str(tiny_bert))
    assert store.arrays["x"].dtype == np.float16
    assert store.arrays["x"].shape == (9, 16)
    assert (store.arrays["x"] != 0).any(axis=1).sum() >= 8
    assert store.per_graph("y").tolist() == [[0.0], [1.0], [1.0]]
    assert store.arrays["edge_attr"].tolist() == [[1.0]] * 12
    assert store.per_graph("undirected").all()
    assert store[0].edge_index.tolist() == [[1, 2, 2, 0], [2, 0, 1, 2]]
    assert node_words(store, 2) == ["a", "gorgeous", ",", "witty", "crème"]
    assert store.meta["classes"] == ["negative", "positive"]
    assert store.meta["parses"] == "mine.tsv"
    assert store.meta["vectors"].startswith(f"{tiny_bert} (bert, 16 columns, files ")


# -- DIG's files ------------------------------------------------------------------------------

PARTS = {
    "edge_index.txt": "0 1\n2 1\n4 3\n4 5\n",  # all nodes numbered on, from 0
    "node_indicator.txt": "1\n1\n1\n2\n2\n2\n3\n",
    "graph_labels.txt": "1\n0\n1\n",
    "sentence_tokens.json": json.dumps({"0": ["a", "b", "c"], "1": ["d", "e", "f"], "2": ["g"]}),
    "split_indices.txt": "0\n1\n2\n",
}
FEATURES = np.random.default_rng(0).normal(size=(7, 768)).astype(np.float32)


def publish(folder: Path, features: object = FEATURES, **changed: str) -> Path:
    pytest.importorskip("gsat.datasets.fetch.unpickle")
    folder.mkdir(parents=True, exist_ok=True)
    for part, text in PARTS.items():
        name = f"Graph-SST2_{part}"
        (folder / name).write_text(changed.get(part.split(".")[0], text), "utf-8")
    (folder / "Graph-SST2_node_features.pkl").write_bytes(pickle.dumps(features))
    return folder


def test_reads_the_published_files(tmp_path: Path) -> None:
    store = read_published(publish(tmp_path))
    assert store.node_counts.tolist() == [3, 3, 1]
    assert store.edge_counts.tolist() == [4, 4, 0]
    assert store[0].edge_index.tolist() == [[1, 1, 0, 2], [0, 2, 1, 1]]
    assert store[1].edge_index.tolist() == [[0, 2, 1, 1], [1, 1, 0, 2]]
    assert (store.arrays["x"] == FEATURES.astype(np.float16)).all()
    assert store.per_graph("y").tolist() == [[1.0], [0.0], [1.0]]
    assert [node_words(store, i) for i in range(3)] == [["a", "b", "c"], ["d", "e", "f"], ["g"]]
    assert store.arrays["edge_attr"].tolist() == [[1.0]] * 8
    assert store.meta["parses"] == "published by DIG"
    assert store.meta["vectors"] == "published by DIG, 768 columns"
    first = read_published(tmp_path, sentences=1)
    assert (len(first), first.num_nodes, first.num_edges) == (1, 3, 4)
    assert node_words(first, 0) == ["a", "b", "c"]


def test_published_edges_may_come_in_any_order(tmp_path: Path) -> None:
    store = read_published(publish(tmp_path, edge_index="4 3\n0 1\n4 5\n2 1\n"))
    assert store[0].edge_index.tolist() == [[1, 1, 0, 2], [0, 2, 1, 1]]


@pytest.mark.filterwarnings("ignore:loadtxt")
@pytest.mark.parametrize(
    ("part", "content", "why"),
    [
        ("edge_index", "0 1\n2 3\n", "do not fit together"),
        ("edge_index", "0 1\n2 7\n", "do not fit together"),
        ("edge_index", "0 1\n2 -1\n", "do not fit together"),
        ("edge_index", "0\n", "1 columns, not 2"),
        ("edge_index", "0 x\n", "edge_index.txt can't be read"),
        ("node_indicator", "1\n1\n2\n1\n2\n2\n3\n", "do not fit together"),
        ("node_indicator", "0\n1\n1\n2\n2\n2\n3\n", "do not fit together"),
        ("node_indicator", "1\n1\n1\n2\n2\n2\n4\n", "do not fit together"),
        ("graph_labels", "1\n0\n2\n", "do not fit together"),
        ("sentence_tokens", '{"0": ["a"], "1": ["d"], "2": ["g"]}', "do not fit together"),
        ("sentence_tokens", '{"0": "abc"}', "must hold a list of words"),
        ("sentence_tokens", "[1]", "sentence_tokens.json can't be read"),
        ("features", FEATURES[:5], "do not fit together"),
        ("features", FEATURES[:, 0], "do not fit together"),
        ("features", "text", "do not fit together"),
    ],
)
def test_published_files_that_do_not_fit(
    part: str, content: object, why: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=why):
        read_published(publish(tmp_path, **{part: content}))  # type: ignore[arg-type]


def test_the_published_source_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough sentences for each part, all chains of words."""
    sizes = [12] * 12 + [3, 4, 6]
    ends = np.cumsum(sizes)
    publish(
        tmp_path / "sst2" / "Graph-SST2" / "raw",
        np.ones((int(ends[-1]), 4), dtype=np.float64),
        edge_index="".join(
            f"{v} {v + 1}\n"
            for end, n in zip(ends, sizes, strict=True)
            for v in range(end - n, end - 1)
        ),
        node_indicator="".join(f"{i + 1}\n" * n for i, n in enumerate(sizes)),
        graph_labels="0\n1\n1\n" * 5,
        sentence_tokens=json.dumps({str(i): ["w"] * n for i, n in enumerate(sizes)}),
    )
    monkeypatch.setenv("GSAT_DATA", str(tmp_path))
    monkeypatch.setenv("GSAT_CACHE", str(tmp_path / "cache"))
    data = load_dataset("graph-sst2", source="published")
    assert data.matches_paper == "yes"
    assert [len(data.splits[part]) for part in ("train", "valid", "test")] == [11, 1, 2]
    assert data.store.per_graph("undirected").all()


# -- by name ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def some(raw_file: Callable[[str], Path], tiny_bert: Path) -> gsat.Dataset:
    raw_file(TREES)
    return load_dataset("graph-sst2", vectors=str(tiny_bert), sentences=300)


def test_the_first_sentences(some: gsat.Dataset, raw_file: Callable[[str], Path]) -> None:
    assert len(some.store) == 300
    assert some.store.num_features == 16
    assert some.task.kind == "binary"
    assert some.matches_paper == "different"
    assert some.store.meta["parses"].startswith("spaCy")
    with gzip.open(raw_file(TREES), "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line, _ in zip(file, range(301), strict=False)]
    for position, (_, _, label, text, heads, *_) in enumerate(lines[1:]):
        assert node_words(some.store, position) == text.split(" ")
        graph = some.store[position]
        assert graph.y.tolist() == [[float(label)]]
        tree = nx.Graph(graph.edge_index.T.tolist())
        tree.add_nodes_from(range(graph.num_nodes))
        assert nx.is_tree(tree)
        assert all(tree.has_edge(int(h), v) for v, h in enumerate(heads.split()) if int(h) != v)
        half = graph.num_edges // 2
        assert (graph.edge_index[:, :half].flip(0) == graph.edge_index[:, half:]).all()


def test_another_model_in_the_folder_is_noticed(
    raw_file: Callable[[str], Path], tiny_bert: Path, tmp_path: Path
) -> None:
    raw_file(TREES)
    folder = shutil.copytree(tiny_bert, tmp_path / "mine")
    first = load_dataset("graph-sst2", vectors=str(folder), sentences=100)
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[-4:] = np.float32(9).tobytes()
    (folder / "model.safetensors").write_bytes(weights)
    again = load_dataset("graph-sst2", vectors=str(folder), sentences=100)
    assert first.store.meta["vectors"] != again.store.meta["vectors"]


def test_too_few_sentences(raw_file: Callable[[str], Path], tiny_bert: Path) -> None:
    raw_file(TREES)
    with pytest.raises(DataError, match="5 sentences leave none for 'valid'"):
        load_dataset("graph-sst2", vectors=str(tiny_bert), sentences=5)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "different"),
        ({"vectors": "bert-base-uncased"}, "rebuilt"),
        ({"vectors": "bert-base-uncased", "sentences": 9}, "different"),
        ({"source": "published"}, "yes"),
        ({"source": "published", "sentences": 9}, "different"),
    ],
)
def test_how_far_it_is_the_papers(options: dict[str, object], expected: str) -> None:
    chosen = make_options("graph-sst2", options)
    assert find_source("graph-sst2").matches_paper("graph-sst2", chosen) == expected


# -- our real sentences -----------------------------------------------------------------------


@pytest.mark.medium
def test_all_sentences_without_vectors(raw_file: Callable[[str], Path]) -> None:
    read = read_trees(raw_file(TREES))
    nodes, edges = np.diff(read.node_ptr), np.diff(read.edge_ptr)
    assert len(nodes) == 70042
    assert read.label.sum() == 37569 + 444 + 909
    assert (edges == 2 * (nodes - 1)).all()
    parts = by_degree(nodes, edges)
    assert {part: len(rows) for part, rows in parts.items()} == {
        "train": 28327, "valid": 3147, "test": 12306
    }  # fmt: skip
    positive = [read.label[parts[part]].mean() for part in ("train", "valid", "test")]
    assert positive == pytest.approx([0.5162, 0.5116, 0.6117], abs=5e-5)
    assert parts["valid"].max() < parts["train"].min()
    assert set(nodes[parts["test"]]) == {3, 4}
    assert nodes[np.concatenate([parts["train"], parts["valid"]])].min() == 9
