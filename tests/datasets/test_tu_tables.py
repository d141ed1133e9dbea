"""TU folders and zips, beside PyG's own reader."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.datasets import TUDataset
from torch_geometric.utils import sort_edge_index

from gsat.core.errors import DataError
from gsat.datasets.formats import tu
from own_data import make_graphs, tu_tables, write_tu


def marked_graphs() -> list[Data]:
    return make_graphs(
        12,
        kind=lambda i, g: 3 + (torch.arange(g.num_nodes) + i) % 4,
        bond=lambda i, g: (g.edge_index.sum(dim=0) + i) % 3,
        edge_truth=lambda i, g: (g.edge_index.sum(dim=0) == 1).float(),
        y=lambda i, g: torch.tensor([(2, 5, 9)[i % 3]]),
    )


@pytest.mark.parametrize("form", ["folder", "graphs.zip"])
def test_the_same_graphs_as_pygs_reader(form: str, tmp_path: Path) -> None:
    graphs = marked_graphs()
    tables = tu_tables(graphs)
    store = tu.read(write_tu(tmp_path / form, tables))
    write_tu(tmp_path / "pyg" / "TOY" / "raw", tables)
    theirs = TUDataset(str(tmp_path / "pyg"), "TOY", use_node_attr=True, use_edge_attr=True)
    assert len(store) == len(theirs) == 12
    assert store.num_features == theirs.num_features == 2 + 4
    assert store.num_edge_features == theirs.num_edge_features == 3
    assert store.per_graph("y").tolist() == [int(g.y) for g in graphs]
    for ours, other, written in zip(store, theirs, graphs, strict=True):
        assert torch.equal(ours.edge_index, written.edge_index)  # the file's order
        assert torch.equal(ours.edge_truth, written.edge_truth)
        assert torch.allclose(ours.x, other.x)
        index, attributes = sort_edge_index(ours.edge_index, ours.edge_attr)
        assert torch.equal(index, other.edge_index)
        assert torch.equal(attributes, other.edge_attr)


def test_numbers_to_predict_go_over_labels(tmp_path: Path) -> None:
    graphs = make_graphs(4)
    tables = {**tu_tables(graphs), "graph_attributes": "0.5\n-1\n2\n1e-3\n"}
    store = tu.read(write_tu(tmp_path / "toy", tables))
    assert store.per_graph("y").tolist() == pytest.approx([0.5, -1, 2, 1e-3])


def test_without_features_labels_and_with_an_empty_graph(tmp_path: Path) -> None:
    tables = {"A": "1, 2\n4, 3\n", "graph_indicator": "1\n1\n3\n3\n"}
    store = tu.read(write_tu(tmp_path / "toy", tables))
    assert store.node_counts.tolist() == [2, 0, 2]
    assert store[2].edge_index.tolist() == [[1], [0]]
    assert not store.has("x")
    assert not store.has("y")


def test_edges_of_a_graph_need_not_stand_together(tmp_path: Path) -> None:
    tables = {
        "A": "3, 4\n1, 2\n4, 3\n2, 1\n",
        "graph_indicator": "1\n1\n2\n2\n",
        "graph_labels": "0\n1\n",
        "edge_gt": "1\n0\n0\n1\n",
    }
    store = tu.read(write_tu(tmp_path / "toy", tables))
    assert store[0].edge_index.tolist() == [[0, 1], [1, 0]]
    assert store[0].edge_truth.tolist() == [0, 1]
    assert store[1].edge_truth.tolist() == [1, 0]


GOOD = {
    "A": "1, 2\n2, 1\n3, 4\n",
    "graph_indicator": "1\n1\n2\n2\n",
    "graph_labels": "0\n1\n",
}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"A": "1, 2\n2, 9\n"}, "A, line 2: edge 2, 9, but nodes are 1 to 4"),
        ({"A": "1, 2\n0, 1\n"}, "A, line 2: edge 0, 1, but nodes are 1 to 4"),
        ({"A": "1, 2\n2, 3\n"}, "A, line 2: an edge connects graph 1 and graph 2"),
        ({"A": "1, 2\n2, b\n"}, "TOY_A.txt, line 2: 'b' is not a number"),
        ({"A": "1, 2\n2\n"}, "TOY_A.txt, line 2: 1 columns, not 2"),
        ({"A": "1, 2\n2, 1.5\n"}, "A, line 2: it must be an integer"),
        ({"A": "1\n2\n"}, "A has 1 columns, not 2"),
        ({"A": "\n1, 2\n2, b\n"}, "TOY_A.txt, line 3: 'b' is not a number"),
        ({"A": None}, r"no NAME_A\.txt"),
        ({"graph_indicator": None}, r"there is no TOY_graph_indicator\.txt"),
        ({"graph_indicator": "1\n1\n2\n1\n"}, "line 4: the nodes of a graph must be consecutive"),
        ({"graph_indicator": "1\n1\n2\n3\n"}, "line 4: there is no graph 3, graphs are 1 to 2"),
        ({"graph_labels": "0\n1\n1\n", "graph_attributes": "0\n"}, "has 1 rows, but there are 3"),
        ({"node_labels": "1\n2\n"}, "node_labels has 2 rows, but there are 4 nodes"),
        ({"node_labels": "1\n0.5\n1\n1\n"}, "node_labels, line 2: it must be an integer"),
        ({"node_labels": "1\ninf\n1\n1\n"}, "node_labels, line 2: it must be an integer"),
        ({"node_labels": "1\n1e16\n1\n1\n"}, "node_labels, line 2: it must be an integer"),
        ({"node_labels": f"1\n{10**12}\n1\n1\n"}, "node_labels span 1000000000000"),
        ({"edge_gt": "1\n"}, "edge_gt has 1 rows, but there are 3 edges"),
        ({"edge_gt": "1, 1\n" * 3}, "edge_gt has 2 columns, not 1"),
    ],
)
@pytest.mark.parametrize("form", ["toy", "toy.zip"])
def test_tables_that_do_not_fit(
    changes: dict[str, str | None], why: str, form: str, tmp_path: Path
) -> None:
    tables = {name: text for name, text in {**GOOD, **changes}.items() if text is not None}
    path = write_tu(tmp_path / form, tables)
    with pytest.raises(DataError, match=why) as caught:
        tu.read(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_two_data_sets_in_one_folder(tmp_path: Path) -> None:
    folder = write_tu(tmp_path / "toy", GOOD)
    (folder / "OTHER_A.txt").write_text("1, 2\n")
    with pytest.raises(DataError, match="those of OTHER, TOY"):
        tu.read(folder)


def test_what_macos_puts_beside_is_no_table(tmp_path: Path) -> None:
    path = write_tu(tmp_path / "toy.zip", GOOD)
    with zipfile.ZipFile(path, "a") as archive:
        for table in GOOD:
            archive.writestr(f"__MACOSX/._TOY_{table}.txt", b"\0\x05\x16\x07")
    assert len(tu.read(path)) == 2


def test_a_zip_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zipped, folder = write_tu(tmp_path / "toy.zip", GOOD), write_tu(tmp_path / "toy", GOOD)
    monkeypatch.setenv("GSAT_MEMORY_LIMIT", "10")
    with pytest.raises(DataError, match=r"needs .* of memory; 10 bytes are allowed"):
        tu.read(zipped)
    with pytest.raises(DataError, match=r"TOY_A\.txt is too large: more than 10 bytes"):
        tu.read(folder)
    monkeypatch.setenv("GSAT_MEMORY_LIMIT", "1M")
    assert len(tu.read(zipped)) == len(tu.read(folder)) == 2


def test_the_memory_of_numbers_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {**GOOD, "A": "1, 2\n2, 1\n" * 500}
    path = write_tu(tmp_path / "toy", tables)
    assert tu.read(path).num_edges == 1000
    monkeypatch.setenv("GSAT_MEMORY_LIMIT", "20K")  # for 2000 numbers
    with pytest.raises(DataError, match="GSAT_MEMORY_LIMIT"):
        tu.read(path)


def test_the_features_made_of_labels_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_tu(tmp_path / "toy", {**GOOD, "node_labels": "1\n10000\n1\n1\n"})
    assert tu.read(path).num_features == 10_000
    monkeypatch.setenv("GSAT_MEMORY_LIMIT", "100K")  # 4 nodes have 40,000 features
    with pytest.raises(DataError, match=r"node_labels.*GSAT_MEMORY_LIMIT"):
        tu.read(path)
    path = write_tu(tmp_path / "wide", {**GOOD, "node_labels": "1\n10001\n1\n1\n"})
    with pytest.raises(DataError, match="10001"):
        tu.read(path)


def test_columns_of_labels_are_counted_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = "1, 1, 1\n100, 50, 3\n1, 1, 1\n1, 1, 1\n"
    wide = write_tu(tmp_path / "toy", {**GOOD, "node_labels": labels, "edge_labels": "1\n9\n1\n"})
    store = tu.read(wide)
    assert store.num_features == 100 + 50 + 3
    assert store[0].x.sum(dim=1).tolist() == [3.0] * store[0].num_nodes
    cells = 4 * 153 + 3 * 9
    monkeypatch.setenv("GSAT_LIMITS", f"cells={cells}")
    assert tu.read(wide).num_edge_features == 9
    monkeypatch.setenv("GSAT_LIMITS", f"cells={cells - 1}")
    with pytest.raises(DataError, match=f"edge_labels has {cells} cells"):
        tu.read(wide)
    monkeypatch.setenv("GSAT_LIMITS", "memory=2400")  # each column alone needs 1600 bytes
    with pytest.raises(DataError, match=r"node_labels needs 2.39 KiB"):
        tu.read(wide)


def test_graphs_without_edges(tmp_path: Path) -> None:
    tables = {"A": "", "graph_indicator": "1\n2\n2\n", "edge_labels": ""}
    store = tu.read(write_tu(tmp_path / "toy", tables))
    assert store.node_counts.tolist() == [1, 2]
    assert store.num_edges == 0
