"""`gsat datasets --check`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_harness import gsat, refuse, succeed

from gsat.datasets import cards
from gsat.datasets.load import load_dataset
from gsat.datasets.sources.houses import Houses
from gsat.graphs import GraphStore
from gsat.tasks import Task


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("│┃\n").replace("┃", "│").split("│")]


def test_a_card_stands_beside_the_published_figures() -> None:
    output = succeed("datasets", "--check", "ba2motifs", "--set", "graphs=60").lines
    assert output[0] == "ba2motifs · source=generated graphs=60 data_seed=0"
    assert output[2].startswith("matches the paper: different · hash ")
    rows = {row[0]: row[1:] for line in output if len(row := cells(line)) == 3}
    assert rows[""] == ["here", "paper"]
    assert rows["graphs"] == ["60", "1000"]
    assert rows["edges stored, mean"] == ["51", "50.96"]
    assert rows["undirected"] == ["yes", "yes"]
    assert rows["names of classes"] == ["five-cycle, house", ""]
    assert rows["train: graphs"] == ["48", "800"]
    assert rows["test: true edges"][0].endswith(" %")


def test_graphs_of_ones_own_are_not_compared_with_papers(tmp_path: Path) -> None:
    saved = load_dataset("houses", graphs=20).store.save(tmp_path / "graphs")
    lines = succeed("datasets", "--check", saved).lines
    assert lines[2].startswith("hash ")
    assert not any("paper" in line for line in lines)


def test_without_published_figures_there_is_no_such_column() -> None:
    output = succeed("datasets", "--check", "ba-shapes").lines
    assert output[2].startswith("hash ")  # the paper has no such data
    rows = {row[0]: row[1:] for line in output if len(row := cells(line)) == 2}
    assert rows["train: nodes"] == ["560"]
    assert "train: nodes, mean" not in rows
    assert rows["classes"] == ["4"]


def test_regression() -> None:
    output = succeed("datasets", "--check", "motif-count", "--set", "graphs=20").lines
    rows = {row[0]: row[1:] for line in output if len(row := cells(line)) == 2}
    assert "classes" not in rows
    assert " ± " in rows["train: mean ± deviation"][0]


def test_labels_that_are_many_missing_or_oddly_named(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    store = load_dataset("houses", graphs=20).store
    y = rng.integers(0, 2, (20, 7)).astype(np.float32)
    y[:10, 0] = np.nan
    names = [f"[red]label {i}" for i in range(7)]
    labelled = GraphStore({**store.arrays, "y": y}, {**store.meta, "labels": names})
    task = Task("multilabel", 7, "roc_auc")
    monkeypatch.setattr(Houses, "build", lambda self, name, options, data_seed: labelled)
    monkeypatch.setattr(Houses, "task", lambda self, name, options: task)
    monkeypatch.setattr(Houses, "version", -1)
    output = succeed("datasets", "--check", "houses", "--set", "graphs=20")
    rows = {row[0]: row[1:] for line in output.lines if len(row := cells(line)) == 2}
    train = y[load_dataset("houses", graphs=20).splits["train"]]
    positive = np.nanmean(train, axis=0)
    assert rows["labels"] == ["7"]
    assert rows["train: positive labels"] == [
        f"{100 * positive.min():.1f} to {100 * positive.max():.1f} %"
    ]
    assert rows["train: labelled"] == [f"{100 * (1 - np.isnan(train).mean()):.1f} %"]
    assert "[red]label 3" in output.out
    assert "note: 10 of 140 labels are missing" in output.lines


def test_second_hand_figures_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = {"graphs": cards.PUBLISHED["ogbg-molbace"]["graphs"]}
    monkeypatch.setitem(cards.PUBLISHED, "houses", figures)
    output = succeed("datasets", "--check", "houses", "--set", "graphs=20").lines
    assert ["graphs", "20", "1513 ?"] in [cells(line) for line in output]
    assert "? from a secondary source, not verified" in output
    output = succeed("datasets", "--check", "ba2motifs", "--set", "graphs=20").lines
    assert not any("secondary source" in line for line in output)


def test_json_and_files(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "cards"
    arguments = ("--set", "graphs=20", "--set", "seed=2", "--write", folder, "--json")
    output = json.loads(succeed("datasets", "--check", "houses", *arguments).out)
    assert output == json.loads(json.dumps(cards.card(load_dataset("houses", seed=2, graphs=20))))
    (file,) = folder.iterdir()
    assert file.name == "houses-graphs=20-seed=2.json"
    assert json.loads(file.read_text("utf-8")) == output


@pytest.fixture
def _two_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    sets: list[tuple[str, dict[str, Any]]] = [
        ("houses", {}),
        ("ba2motifs", {"source": "generated"}),
    ]
    monkeypatch.setattr(cards, "known_sets", lambda: sets)


@pytest.mark.usefixtures("_two_sets")
def test_all_sets_that_are_here(tmp_path: Path) -> None:
    output = json.loads(succeed("datasets", "--check", "all", "--write", tmp_path, "--json").out)
    assert [card["name"] for card in output] == ["houses", "ba2motifs"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ba2motifs.json", "houses.json"]
    printed = succeed("datasets", "--check", "all").lines
    assert [line for line in printed if " · " in line and "hash" not in line] == [
        "houses · graphs=1000 data_seed=0",
        "ba2motifs · source=generated graphs=1000 data_seed=0",
    ]


@pytest.mark.usefixtures("_two_sets")
def test_one_bad_set_does_not_hide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSAT_CACHE", str(tmp_path))
    build = Houses.build

    def broken(self: Houses, name: str, options: Any, data_seed: int) -> Any:
        store = build(self, name, options, data_seed)
        store.arrays["x"][:] = np.inf
        return store

    monkeypatch.setattr(Houses, "build", broken)
    outcome = gsat("datasets", "--check", "all", "--json")
    assert outcome.code == 2
    assert outcome.err.startswith("gsat: houses can't be used: 1000 graphs have features")
    assert outcome.err.count("\n") == 1
    assert [card["name"] for card in json.loads(outcome.out)] == ["ba2motifs"]
    assert "houses can't be used" in refuse("datasets", "--check", "houses")


def test_an_error_in_a_cached_set_is_shown_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    data = load_dataset("houses", graphs=20)

    def sharing(*args: Any) -> dict[str, Any]:
        return {**data.splits, "test": data.splits["train"][:2]}

    monkeypatch.setattr(Houses, "split", sharing)
    outcome = gsat("datasets", "--check", "houses", "--set", "graphs=20")
    assert outcome.code == 1
    one, other = sorted(data.splits["train"][:2].tolist())
    errors = [line for line in outcome.out.splitlines() if line.startswith("error: ")]
    assert errors == [f"error: train and test share graphs {one}, {other}"]


def test_refusals() -> None:
    assert "did you mean 'houses'" in refuse("datasets", "--check", "house")
    assert "there is no setting 'graph'" in refuse(
        "datasets", "--check", "houses", "--set", "graph=1"
    )
    assert "--check NAME" in refuse("datasets", "--check", "all", "--set", "graphs=20")
    assert "--check NAME" in refuse("datasets", "--write", "somewhere")
    assert "only one of" in refuse("datasets", "houses", "--check", "houses")
    assert "only one of" in refuse("datasets", "--check", "houses", "--download", "mutag")
    assert "--check NAME" in refuse("datasets", "--set", "graphs=20")
