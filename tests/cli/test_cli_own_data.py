"""Commands on the user's own graphs, in every format."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from cli_harness import gsat, refuse, succeed
from torch_geometric.data import Data

import gsat as package
from gsat.training.recipe import make_recipe
from own_data import as_json, make_graphs, tu_tables, write_lines, write_tu

FAST = ("--set", "hidden=8", "--set", "layers=1", "--quiet")


def graphs() -> list[Data]:
    return make_graphs(40, edge_truth=lambda i, g: (g.edge_index.sum(dim=0) == 1).float())


def lines(path: Path, **changes: Any) -> Path:
    """The graphs as JSON lines, with labels no and yes."""
    records = [{**as_json(g), "y": ("no", "yes")[int(g.y)], **changes} for g in graphs()]
    return write_lines(path, records)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("own")


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    """Two epochs on JSON lines."""
    succeed("train", lines(folder / "toy.jsonl"), *FAST, "--epochs", 2, "--out", folder / "run")
    return folder / "run"


def test_edges_in_one_direction_are_noted(tmp_path: Path) -> None:
    def train_on(records: list[dict[str, Any]], name: str) -> str:
        path = write_lines(tmp_path / f"{name}.jsonl", records)
        outcome = gsat("train", path, *FAST, "--epochs", 1, "--out", tmp_path / name)
        assert outcome.code == 0
        return outcome.err

    both = [as_json(g) for g in make_graphs(40)]
    one = []
    for record in both:
        pairs = [(a, b) for a, b in zip(*record["edge_index"], strict=True) if a < b]
        one.append(record | {"edge_index": [list(ends) for ends in zip(*pairs, strict=True)]})
    assert train_on(one, "one").startswith("note: ")
    assert train_on(both, "both") == ""


@pytest.mark.parametrize("form", ["toy.jsonl.gz", "toy.zip"])
def test_train_on_every_kind_of_path(form: str, tmp_path: Path) -> None:
    path = tmp_path / form
    if "jsonl" in form:
        write_lines(path, [as_json(g) for g in graphs()])
    else:
        write_tu(path, tu_tables(graphs()))
    out = tmp_path / "run"
    output = succeed("train", path, *FAST, "--epochs", 1, "--out", out, "--json")
    result = json.loads(output.out)
    assert result["dataset"] == str(path)
    assert result["test"]["explanation_auc"] is not None
    measured = json.loads(succeed("evaluate", out, "--json").out)
    assert measured["accuracy"] == result["test"]["accuracy"]
    assert measured["explanation_auc"] == pytest.approx(result["test"]["explanation_auc"])


def test_the_recipe_says_where_the_data_is_and_what_it_was(run: Path, folder: Path) -> None:
    data = package.load_dataset(folder / "toy.jsonl")
    kept = make_recipe(str(folder / "toy.jsonl"), file=run / "recipe.toml").data
    assert kept.name == str(folder / "toy.jsonl")
    assert kept.options["content"] == data.hash
    assert kept.options["classes"] == ["no", "yes"]
    assert (kept.options["task"], kept.options["split"]) == ("binary", "stratified")


def test_a_path_is_found_from_any_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines(tmp_path / "here.jsonl")
    monkeypatch.chdir(tmp_path)
    succeed("train", "here.jsonl", *FAST, "--epochs", 1)
    monkeypatch.chdir(folder)
    made = tmp_path / "runs" / "here-gin-gsat-seed-0"
    assert succeed("evaluate", made).lines[0].startswith("test accuracy")


def test_data_that_changed_is_refused(folder: Path, run: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "toy.jsonl", tmp_path / "run"
    shutil.copy(folder / "toy.jsonl", path)
    succeed("train", path, *FAST, "--epochs", 1, "--out", out)
    lines(path, edge_truth=None)
    for command in (("evaluate", out), ("predict", out), ("explain", out, "--graph", 0)):
        assert "changed" in refuse(*command)
    (out / "result.json").unlink()
    assert "changed" in refuse("resume", out, "--quiet")
    path.unlink()
    assert str(path) in refuse("evaluate", out)


def test_graphs_given_in_python_are_not_stored(tmp_path: Path) -> None:
    data = package.load_dataset(graphs(), seed=1)
    model = package.GSAT(package.GIN.for_data(data, hidden=8, layers=1, seed=0), seed=0)
    out = tmp_path / "run"
    result = package.fit(model, data, epochs=1, seed=1, out=out).result
    assert result["dataset"] == "custom"
    for command in (("evaluate", out), ("predict", out)):
        refuse(*command)
    saved = data.test.save(tmp_path / "saved")
    measured = json.loads(succeed("evaluate", out, saved, "--json").out)
    assert measured["accuracy"] == result["test"]["accuracy"]
