"""Fixtures of the tests of the web app: a few small runs, and clients of their service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from web_harness import LIMITS, MOLECULES, TOKEN, make_client

import gsat
from gsat.training.recipe import make_recipe


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs: two on motifs (one split), molecules, a regression, nodes."""
    folder = tmp_path_factory.mktemp("web") / "runs"
    table = folder.parent / "molecules.csv"
    table.write_text(MOLECULES, encoding="utf-8")
    small: dict[str, Any] = {"epochs": 2, "hidden": 16, "layers": 2}
    for name, seed in (("motifs-a", 0), ("motifs-b", 1)):
        settings = {**small, "graphs": 300, "split_seed": 0}
        gsat.train(make_recipe("ba2motifs", seed=seed, settings=settings), folder / name)
    for name, label in (("mols", "active"), ("number", "value")):
        settings = {**small, "label": [label], "smiles": "smiles", "id": "name", "split": "random"}
        gsat.train(make_recipe(str(table), settings=settings), folder / name)
    gsat.train(make_recipe("tree-cycles", settings={**small, "epochs": 1}), folder / "nodes")
    return folder


@pytest.fixture(scope="session")
def client(runs: Path) -> Iterator[TestClient]:
    """A client of the pages and the API."""
    with make_client(runs) as made:
        yield made


@pytest.fixture(scope="session")
def strict(runs: Path) -> Iterator[TestClient]:
    """A client of an API with small limits, and a token."""
    with make_client(runs, limits=LIMITS, token=TOKEN, pages=False) as made:
        yield made
