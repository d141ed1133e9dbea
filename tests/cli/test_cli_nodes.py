"""Nodes and numbers on the command line."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
import torch
from cli_harness import refuse, succeed

import gsat as library


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two epochs on the nodes of a tree with twelve cycles."""
    path = tmp_path_factory.mktemp("cli-nodes") / "run"
    output = succeed(
        "train", "tree-cycles", "--set", "motifs=12", "--epochs", 2, "--out", path, "-q"
    )
    assert output.lines[0].startswith("test accuracy")
    return path


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two epochs of counting houses."""
    path = tmp_path_factory.mktemp("cli-numbers") / "run"
    output = succeed(
        "train", "motif-count", "--set", "graphs=40", "--epochs", 2, "--out", path, "-q"
    )
    assert [line.split()[1] for line in output.lines[:2]] == ["R²", "MAE"]
    return path


def test_predict_nodes(nodes: Path) -> None:
    lines = list(csv.reader(io.StringIO(succeed("predict", nodes).out)))
    assert lines[0] == ["graph", "node", "prediction", "p(tree)", "p(cycle)"]
    data = library.load_dataset("tree-cycles", motifs=12)
    assert [int(line[1]) for line in lines[1:]] == sorted(data.splits["test"].tolist())
    assert {line[0] for line in lines[1:]} == {"0"}
    for line in lines[1:]:
        assert int(line[2]) == int(float(line[4]) > float(line[3]))


def test_explain_a_node(nodes: Path, tmp_path: Path) -> None:
    output = succeed("explain", nodes, "--node", 511, "--out", tmp_path / "node.svg").lines
    assert output[0].startswith("node 511: predicted ")
    assert output[0].endswith(", true cycle")
    assert 'class="marked"' in (tmp_path / "node.svg").read_text("utf-8")
    explained = json.loads(succeed("explain", nodes, "--node", 511, "--json").out)
    assert explained["node"] == 511
    # Three hops from where the cycle hangs: the whole cycle, its joint and some of the tree.
    assert set(range(511, 517)) < set(explained["node_id"])
    assert len(explained["node_id"]) < 60
    few = json.loads(succeed("explain", nodes, "--node", 511, "--top", 2, "--json").out)
    assert len(few["edges"]) == 4  # both directions
    whole = json.loads(succeed("explain", nodes, "--graph", 0, "--json").out)
    assert len(whole["node_prediction"]) == 511 + 72


def test_numbers(numbers: Path, tmp_path: Path) -> None:
    lines = list(csv.reader(io.StringIO(succeed("predict", numbers).out)))
    assert lines[0] == ["graph", "prediction"]
    assert len(lines) == 1 + 4
    output = [float(line[1]) for line in lines[1:]]
    data = library.load_dataset("motif-count", graphs=40)
    torch.testing.assert_close(
        torch.tensor(output), library.load(numbers).predict(data.test).labels, rtol=1e-4, atol=1e-4
    )
    shown = succeed("explain", numbers, "--graph", 0, "--out", tmp_path / "page.html").lines[0]
    assert shown == f"predicted {output[0]:.4g}, true {float(data.test.labels('graph')[0, 0]):g}"
    explained = json.loads(succeed("explain", numbers, "--graph", 0, "--json").out)
    assert explained["confidence"] is None
    assert explained["prediction"] == pytest.approx(output[0], rel=1e-4)


def test_wrong_nodes_are_errors(nodes: Path, numbers: Path) -> None:
    assert "583" in refuse("explain", nodes, "--node", 583)
    assert "-1" in refuse("explain", nodes, "--node", -1)
    refuse("explain", numbers, "--node", 0)
