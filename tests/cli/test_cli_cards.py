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
from gsat.datasets.sources.ba2motifs import Houses
from gsat.graphs import GraphStore
from gsat.tasks import Task


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("│┃\n").replace("┃", "│").split("│")]


def rows_of(lines: list[str]) -> dict[str, list[str]]:
    """The cells of each row by its title."""
    return {row[0]: row[1:] for line in lines if len(row := cells(line)) > 1}


def test_a_card_shows_counts_beside_the_published_ones() -> None:
    rows = rows_of(succeed("datasets", "--check", "ba2motifs", "--set", "graphs=60").lines)
    assert rows[""] == ["here", "paper"]
    assert rows["graphs"] == ["60", "1000"]
    assert rows["edges stored, mean"] == ["51", "50.96"]
    assert rows["undirected"] == ["yes", "yes"]
    assert rows["names of classes"] == ["five-cycle, house", ""]
    assert rows["train: graphs"] == ["48", "800"]
    assert rows["test: true edges"][0].endswith(" %")


def test_a_card_without_published_figures_has_no_such_column(tmp_path: Path) -> None:
    saved = load_dataset("houses", graphs=20).store.save(tmp_path / "graphs")
    assert "paper" not in succeed("datasets", "--check", saved).out
    rows = rows_of(succeed("datasets", "--check", "ba-shapes").lines)
    assert rows["train: nodes"] == ["560"]
    assert "train: nodes, mean" not in rows
    assert rows["classes"] == ["4"]


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
    rows = rows_of(output.lines)
    train = y[load_dataset("houses", graphs=20).splits["train"]]
    positive = np.nanmean(train, axis=0)
    assert rows["labels"] == ["7"]
    assert rows["train: positive labels"] == [
        f"{100 * positive.min():.1f} to {100 * positive.max():.1f} %"
    ]
    assert rows["train: labelled"] == [f"{100 * (1 - np.isnan(train).mean()):.1f} %"]
    assert "[red]label 3" in output.out
    assert "10 of 140" in output.out


def test_unverified_figures_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = {"graphs": cards.PUBLISHED["ogbg-molbace"]["graphs"]}
    monkeypatch.setitem(cards.PUBLISHED, "houses", figures)
    rows = rows_of(succeed("datasets", "--check", "houses", "--set", "graphs=20").lines)
    assert rows["graphs"] == ["20", "1513 ?"]


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
    assert "houses" in outcome.err
    assert outcome.err.count("\n") == 1
    assert [card["name"] for card in json.loads(outcome.out)] == ["ba2motifs"]
    assert "houses" in refuse("datasets", "--check", "houses")


def test_an_error_in_a_data_set_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    data = load_dataset("houses", graphs=20)

    def sharing(*args: Any) -> dict[str, Any]:
        return {**data.splits, "test": data.splits["train"][:2]}

    monkeypatch.setattr(Houses, "split", sharing)
    outcome = gsat("datasets", "--check", "houses", "--set", "graphs=20")
    assert outcome.code == 1
    one, other = sorted(data.splits["train"][:2].tolist())
    (error,) = [line for line in outcome.lines if line.startswith("error: ")]
    assert error.endswith(f" {one}, {other}")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--check", "house"), "'houses'"),
        (("--check", "houses", "--set", "graph=1"), "'graph'"),
        (("--check", "all", "--set", "graphs=20"), "--check"),
        (("--write", "somewhere"), "--check"),
        (("--set", "graphs=20"), "--check"),
        (("houses", "--check", "houses"), "--check"),
        (("--check", "houses", "--download", "mutag"), "--download"),
    ],
)
def test_wrong_options_are_errors(options: tuple[str, ...], problem: str) -> None:
    assert problem in refuse("datasets", *options)
