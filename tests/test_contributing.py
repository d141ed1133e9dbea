"""The examples of CONTRIBUTING.md: one new file each, and no other file changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from source_tree import ROOT, contributed

FILES = {
    "register_method": "methods/sharp.py",
    "register_backbone": "models/sum_net.py",
    "register_dataset": "datasets/sources/stars.py",
}
USE = """
import gsat
from gsat.core.registry import BACKBONES, DATASETS, METHODS
from gsat.datasets import describe_options, find_source
from gsat.training.recipe import describe_settings, make_recipe

assert "sharp" in METHODS and "sum-net" in BACKBONES and "stars" in DATASETS
settings = [*describe_settings("sharp"), *describe_settings("sum-net"), *describe_options("stars")]
names = [setting.name for setting in settings]
assert names == ["method.sharp.sharpness", "backbone.hidden", "backbone.layers", "graphs"], names
assert all(setting.description for setting in settings)
settings = {"graphs": 40, "epochs": 2, "hidden": 4}
run = gsat.train(make_recipe("stars", method="sharp", backbone="sum-net", settings=settings), "run")
assert 0 <= run.test["accuracy"] <= 1
assert find_source("stars").summary("stars") and METHODS["sharp"].summary
"""
# The tests that ask a registry for its names.
TESTS = (
    "test_layers.py", "core/test_registry.py", "core/test_settings.py", "cli/test_cli_tune.py",
    "datasets/test_dataset_sources.py", "methods/test_gsat_method.py", "models/test_backbones.py",
    "models/test_edge_weights.py", "models/test_saved.py", "training/test_process_group.py",
)  # fmt: skip


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package and the tests, with the files of the examples."""
    folder = tmp_path_factory.mktemp("contribution")
    skipped = shutil.ignore_patterns("__pycache__")
    for part in ("src", "tests"):
        shutil.copytree(ROOT / part, folder / part, ignore=skipped)
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    for decorator, name in FILES.items():
        (folder / "src" / "gsat" / name).write_text(contributed(decorator), "utf-8")
    return folder


def python(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.medium
def test_they_are_listed_described_and_trained(copy: Path) -> None:
    python(copy, "-c", USE)


@pytest.mark.slow
def test_they_pass_the_tests_of_the_registries_and_the_layers(copy: Path) -> None:
    tests = [f"tests/{name}" for name in TESTS]
    chosen = "registry or layers or listed or setting or every or sum-net or sharp or stars"
    out = python(
        copy, "-m", "pytest", "-q", "-p", "no:xdist", "-o", "addopts=", "-k", chosen, *tests
    )
    assert "passed" in out


@pytest.mark.slow
def test_they_are_typed(copy: Path) -> None:
    pytest.importorskip("mypy")
    files = [f"src/gsat/{name}" for name in FILES.values()]
    python(copy, "-m", "mypy", *files)
