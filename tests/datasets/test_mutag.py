"""Mutag: the real file's numbers, and a tiny zip of the same shape for everything else."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gsat.core.errors import DataError
from gsat.datasets.load import Dataset, load_dataset
from gsat.datasets.sources.mutag import read_zip

O, H, N = 1, 3, 4  # noqa: E741


@pytest.fixture(scope="module")
def mutag(raw_file: Callable[[str], Path]) -> Dataset:
    raw_file("mutagenicity/Mutagenicity.zip")
    return load_dataset("mutag")


def test_paper_split(mutag: Dataset) -> None:
    assert [len(mutag.splits[s]) for s in ("train", "valid", "test")] == [2360, 591, 1015]
    order = np.random.RandomState(0).permutation(2951)
    assert (mutag.splits["train"] == order[:2360]).all()
    assert (mutag.splits["valid"] == order[2360:]).all()
    assert (mutag.test.per_graph("y") == 0).all()
    assert mutag.test.per_graph("annotated").all()
    again = load_dataset("mutag", seed=1)
    assert (again.splits["test"] == mutag.splits["test"]).all()
    assert (again.splits["train"] != mutag.splits["train"]).any()


def test_truth(mutag: Dataset) -> None:
    batch = mutag.test.batch()
    assert batch.edge_truth is not None
    true = batch.edge_truth.numpy() == 1
    assert true.sum() == 5708
    assert true.mean() == pytest.approx(0.0980, abs=5e-5)
    atom = batch.x.numpy().argmax(axis=1)
    ends = np.sort(atom[batch.edge_index.numpy()[:, true]], axis=0)
    assert ((ends[0] == O) & (ends[1] == N)).sum() == 3080
    assert ((ends[0] == H) & (ends[1] == N)).sum() == 2628
    graph = np.repeat(np.arange(1015), mutag.test.edge_counts)
    assert set(np.bincount(graph, weights=true)) == {4, 8, 12, 16, 20, 24}
    # A node is true when it touches a true edge, and in no other case.
    touched = np.zeros(mutag.test.num_nodes)
    touched[batch.edge_index.numpy()[:, true]] = 1
    assert batch.node_truth is not None
    assert (batch.node_truth.numpy() == touched).all()


def test_non_mutagens_have_no_truth(mutag: Dataset) -> None:
    view = mutag.store.select(mutag.store.per_graph("y")[:, 0] == 1)
    batch = view.batch()
    assert batch.edge_truth is not None
    assert batch.node_truth is not None
    assert batch.edge_truth.sum() == 0
    assert batch.node_truth.sum() == 0
    assert not view.per_graph("annotated").any()


def test_edges_keep_the_files_order(mutag: Dataset, raw_file: Callable[[str], Path]) -> None:
    everything = load_dataset("mutag", drop_unannotated=False)
    with zipfile.ZipFile(raw_file("mutagenicity/Mutagenicity.zip")) as archive:
        head = archive.read("Mutagenicity_A.txt").decode().splitlines()[:3000]
    lines = np.array([[int(v) for v in line.split(",")] for line in head]).T - 1
    first_node = first_edge = 0
    for position in range(40):
        data = everything.store[position]
        listed = lines[:, first_edge : first_edge + data.num_edges] - first_node
        assert (data.edge_index.numpy() == listed).all()
        first_node, first_edge = first_node + data.num_nodes, first_edge + data.num_edges


def test_all_molecules(mutag: Dataset) -> None:
    everything = load_dataset("mutag", drop_unannotated=False)
    assert len(everything.store) == 4337
    assert (everything.store.per_graph("y") == 0).sum() == 2401
    assert everything.store.per_graph("annotated").sum() == 1015
    assert [len(everything.splits[s]) for s in ("train", "valid", "test")] == [3469, 868, 1015]
    assert everything.matches_paper == "different"
    assert everything.hash != mutag.hash


@pytest.mark.parametrize("seed", [0, 3])
def test_held_out_split(mutag: Dataset, seed: int) -> None:
    data = load_dataset("mutag", seed=seed, test="held-out")
    assert data.hash == mutag.hash  # the same graphs, split in another way
    assert [len(data.splits[s]) for s in ("train", "valid", "test")] == [2360, 295, 296]
    assert sorted(np.concatenate(list(data.splits.values()))) == list(range(2951))
    assert set(data.test.per_graph("y")[:, 0]) == {0.0, 1.0}
    assert 70 < data.test.per_graph("annotated").sum() < 130
    assert data.matches_paper == "different"


# A tiny zip: two mutagens (one annotated) and a non-mutagen that carries the group as well.
TINY = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n5, 4\n4, 5\n6, 7\n7, 6\n",
    "edge_gt": "0\n0\n1\n1\n0\n0\n1\n1\n",
    "graph_indicator": "1\n1\n1\n2\n2\n3\n3\n3\n",
    "graph_labels": "0\n0\n1\n",
    "node_labels": "0\n4\n1\n0\n13\n4\n3\n0\n",
}


def write_zip(path: Path, parts: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, text in parts.items():
            archive.writestr(f"Mutagenicity_{part}.txt", text)
    return path


def test_reads_a_tiny_zip(tmp_path: Path) -> None:
    store = read_zip(write_zip(tmp_path / "tiny.zip", TINY))
    assert store.node_counts.tolist() == [3, 2, 3]
    assert store.edge_counts.tolist() == [4, 2, 2]
    assert store.per_graph("y").tolist() == [[0.0], [0.0], [1.0]]
    assert store.per_graph("annotated").tolist() == [True, False, False]
    assert store[0].edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert store[0].edge_truth.tolist() == [0, 0, 1, 1]
    assert store[0].node_truth.tolist() == [0, 1, 1]
    assert store[1].edge_index.tolist() == [[1, 0], [0, 1]]  # not sorted: the file's order
    assert store[2].edge_truth.tolist() == [0, 0]
    assert store[1].x.argmax(dim=1).tolist() == [0, 13]


@pytest.mark.parametrize(
    ("part", "text", "why"),
    [
        ("edge_gt", None, "there is no Mutagenicity_edge_gt.txt"),
        ("edge_gt", "0\n1\n", "tables do not fit"),
        ("A", "1, 2\n2, x\n", "Mutagenicity_A.txt, line 2: 'x' is not a number"),
        ("A", TINY["A"].replace("6, 7", "6, 1"), "tables do not fit"),
        ("node_labels", TINY["node_labels"].replace("13", "14"), "tables do not fit"),
        ("node_labels", "", "tables do not fit"),
    ],
)
def test_damaged_tables(tmp_path: Path, part: str, text: str | None, why: str) -> None:
    parts = {**TINY, part: text}
    path = write_zip(tmp_path / "bad.zip", {p: t for p, t in parts.items() if t is not None})
    with pytest.raises(DataError, match=why):
        read_zip(path)
