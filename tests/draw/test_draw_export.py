"""Explanations as JSON, pages and arrays."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gsat.core.errors import GSATError
from gsat.draw import write_explanation, write_scores_npz
from gsat.graphs import GraphStore, from_pyg
from html_page import Page

# -- one explanation -------------------------------------------------------------------------------


def test_json_is_the_dictionary(house, tmp_path):
    explanation = house(y=torch.tensor([[1.0, float("nan")]]))
    text = write_explanation(explanation, tmp_path / "a.json").read_text()
    assert "NaN" not in text
    assert json.loads(text) == explanation.as_dict()
    assert text.endswith("}\n")
    assert text.count("\n") > 10


def test_json_with_a_budget_and_names(house, tmp_path):
    path = write_explanation(
        house(), tmp_path / "a.json", top=2, class_names=["Zyklus", "Häuschen"], title="graph 3"
    )
    values = json.loads(path.read_text(encoding="utf-8"))
    chosen = {(e["source"], e["target"]) for e in values["edges"] if e["chosen"]}
    assert chosen == {(2, 3), (3, 2), (3, 4), (4, 3)}
    assert values["class_names"] == ["Zyklus", "Häuschen"]
    assert values["title"] == "graph 3"


def test_a_line_of_csv_per_edge_in_the_numbers_of_the_whole_graph(house, tmp_path):
    lines = write_explanation(house(), tmp_path / "a.csv", top=1).read_text().splitlines()
    assert lines[0] == "source,target,score,truth,chosen"
    assert lines[1] == "0,1,0.1,0,False"
    assert lines[5] == "2,3,0.95,1,True"
    assert len(lines) == 1 + 10
    part = write_explanation(house().top(1), tmp_path / "b.csv").read_text().splitlines()
    assert part == ["source,target,score,truth", "2,3,0.95,1", "3,2,0.95,1"]


def test_names_that_the_explanation_brings_are_shown_everywhere(house, tmp_path):
    given = {"class_names": ["cycle", "house"], "node_types": ["C", "N", "O", "F", "S"]}
    bare, named = house(x=torch.eye(5)), house(x=torch.eye(5), **given)
    for suffix in (".svg", ".html", ".json"):
        a = write_explanation(bare, tmp_path / f"a{suffix}", **given).read_bytes()
        assert write_explanation(named, tmp_path / f"b{suffix}").read_bytes() == a
        assert write_explanation(bare, tmp_path / f"c{suffix}").read_bytes() != a


def test_a_mistyped_option_is_an_error(house, tmp_path):
    for suffix in (".json", ".html", ".svg", ".csv"):
        with pytest.raises(TypeError, match="tpo"):
            write_explanation(house(), tmp_path / f"a{suffix}", tpo=3)


def test_the_page_ranks_the_edges_beside_the_picture(house, tmp_path):
    path = write_explanation(house(), tmp_path / "a.html", top=2, class_names=["cycle", "house"])
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.tags.count("svg") == 1
    assert "predicted house (0.99), true house" in text
    rows = page.rows[1:]
    assert [row[1] for row in rows] == ["2 – 3", "3 – 4", "4 – 2", "1 – 2", "0 – 1"]
    assert [row[2] for row in rows] == ["0.9500", "0.9000", "0.8000", "0.3000", "0.1000"]
    assert [row[4] for row in rows] == ["yes", "yes", "yes", "", ""]
    assert text.count('<tr class="chosen">') == 2
    # Nothing is fetched from anywhere.
    assert "script" not in page.tags
    assert all(link.startswith("#") for link in page.links)
    assert "<?xml" not in text


def test_directed_edges_and_node_types_on_the_page(explain, tmp_path):
    explanation = explain([(0, 1), (1, 0)], [0.2, 0.9], undirected=False, x=torch.eye(2))
    path = write_explanation(explanation, tmp_path / "a.html", node_types=["C", "N"])
    assert [row[1] for row in Page(path.read_text()).rows[1:]] == ["N1 → C0", "C0 → N1"]


def test_text_on_the_page_is_escaped(house, tmp_path):
    evil = '--><script>alert("1")</script>&'
    path = write_explanation(
        house(x=torch.eye(5)),
        tmp_path / "a.html",
        title=evil,
        class_names=[evil, evil],
        node_types=[evil] * 5,
    )
    page = Page(path.read_text(encoding="utf-8"))
    assert "script" not in page.tags
    assert page.rows[1][1].count(evil) == 2


# -- a split ---------------------------------------------------------------------------------------


@pytest.fixture
def split():
    """Three graphs of a larger store, not in its order; truth and scrambled edges."""
    rng = np.random.default_rng(0)
    graphs = []
    for nodes in (4, 5, 1, 6, 3):
        pairs = np.array([(u, v) for u in range(nodes) for v in range(nodes) if u != v])
        index = rng.permutation(pairs.reshape(-1, 2)).T
        graphs.append(
            Data(
                x=torch.ones(nodes, 1),
                edge_index=torch.from_numpy(index.copy()),
                edge_truth=torch.from_numpy(rng.integers(0, 2, size=index.shape[1])),
            )
        )
    return graphs, from_pyg(graphs).select([3, 0, 2])


def test_the_file_of_a_split(split, tmp_path):
    graphs, store = split
    scores = np.linspace(0, 1, store.num_edges, dtype=np.float32)
    logits = np.ones((3, 2), dtype=np.float32)
    path = write_scores_npz(tmp_path / "deep" / "scores.npz", store, scores, logits=logits)
    with np.load(path, allow_pickle=False) as file:
        values = dict(file)
    assert set(values) == {
        "node_ptr", "edge_ptr", "edge_index", "scores", "truth", "graph", "logits",
    }  # fmt: skip
    assert values["graph"].tolist() == [3, 0, 2]
    assert values["node_ptr"].tolist() == [0, 6, 10, 11]
    np.testing.assert_array_equal(values["scores"], scores)
    np.testing.assert_array_equal(values["logits"], logits)
    for place, number in enumerate([3, 0, 2]):
        own = slice(*values["edge_ptr"][place : place + 2])
        np.testing.assert_array_equal(values["edge_index"][:, own], graphs[number].edge_index)
        np.testing.assert_array_equal(values["truth"][own], graphs[number].edge_truth)
    assert [p.name for p in path.parent.iterdir()] == ["scores.npz"]
    again = GraphStore.from_arrays(
        **{k: values[k] for k in ("node_ptr", "edge_ptr", "edge_index")}, edge_attr=scores
    )
    assert again[1].edge_attr[:, 0].tolist() == scores[30:42].tolist()


def test_optional_arrays_and_own_numbers(tmp_path):
    store = from_pyg([Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2)])
    path = write_scores_npz(tmp_path / "a.npz", store, torch.tensor([0.5]), graph=[77])
    with np.load(path) as file:
        assert set(file) == {"node_ptr", "edge_ptr", "edge_index", "scores", "graph"}
        assert file["graph"].tolist() == [77]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": np.zeros(3)}, r"scores has shape \[3\] where there are 42 edges"),
        ({"scores": np.array([None] * 42)}, "scores must be numbers"),
        ({"logits": np.zeros((2, 1))}, r"logits has shape \[2, 1\] where there are 3 graphs"),
        ({"graph": [1]}, r"graph has shape \[1\]"),
    ],
)
def test_arrays_that_do_not_fit(split, tmp_path, change, message):
    with pytest.raises(GSATError, match=message):
        write_scores_npz(tmp_path / "a.npz", split[1], **{"scores": np.zeros(42), **change})
    assert list(tmp_path.iterdir()) == []
