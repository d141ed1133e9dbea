"""Methods, backbones and data sets in the user's own files, on every command that opens a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_harness import refuse, succeed

from gsat.core.registry import BACKBONES, DATASETS, METHODS
from source_tree import contributed

NAMES = {"method": (METHODS, "keen-cli"), "backbone": (BACKBONES, "sum-cli"),
         "dataset": (DATASETS, "stars-cli")}  # fmt: skip


def forget() -> None:
    """Leave the registries as in a new process."""
    for parts, name in NAMES.values():
        if name in parts._registered:
            del parts[name]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The examples of CONTRIBUTING.md in files, as they are named on the command line."""
    folder = tmp_path_factory.mktemp("own")
    examples = {"method": ("sharp", "Sharp"), "backbone": ("sum-net", "SumNet"),
                "dataset": ("stars", "Stars")}  # fmt: skip
    named = {}
    for kind, (name, own_class) in examples.items():
        file = folder / f"{kind}.py"
        code = contributed(f"register_{kind}").replace(f'"{name}"', f'"{NAMES[kind][1]}"')
        file.write_text(code, "utf-8")
        named[kind] = f"{file}:{own_class}"
    yield named
    forget()


@pytest.fixture(scope="module")
def run(files: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the three, trained on the command line."""
    path = tmp_path_factory.mktemp("run") / "run"
    settings = ("--set", "graphs=40", "--set", "hidden=8", "--epochs", 1, "--quiet")
    parts = ("--method", files["method"], "--backbone", files["backbone"])
    printed = succeed("train", files["dataset"], *parts, *settings, "--out", path, "--json").out
    assert json.loads(printed)["dataset"] == "stars-cli"
    return path


def options(files: dict[str, str]) -> list[str]:
    return [word for kind, name in files.items() for word in (f"--{kind}", name)]


COMMANDS: dict[str, tuple[Any, ...]] = {
    "evaluate": ("--split", "all"),
    "predict": ("--split", "all"),
    "explain": ("--graph", 0),
    "audit": ("--split", "all", "--quiet"),
    "resume": ("--quiet",),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_run_is_opened_with_its_classes(command: str, run: Path, files: dict[str, str]) -> None:
    forget()
    assert "--method" in refuse(command, run, *COMMANDS[command])
    assert succeed(command, run, *COMMANDS[command], *options(files)).out


@pytest.mark.parametrize("kind", NAMES)
def test_a_missing_class_is_named_with_its_option(
    kind: str, run: Path, files: dict[str, str]
) -> None:
    forget()
    line = refuse("evaluate", run, *options({k: v for k, v in files.items() if k != kind}))
    assert f"'{NAMES[kind][1]}'" in line
    assert f"--{kind} " in line


@pytest.mark.parametrize("command", ["patterns", "distill", "explore", "serve"])
def test_other_commands_load_the_classes(
    command: str, files: dict[str, str], run: Path, tmp_path: Path
) -> None:
    """These refuse the run for other reasons: it has no molecules, is no ensemble or is missing."""
    forget()
    where = tmp_path / "missing" if command in ("explore", "serve") else run
    line = refuse(command, where, *options(files))
    assert "--method" not in line
    assert all(name in parts for parts, name in NAMES.values())


def test_the_data_of_a_run_may_be_a_class_in_a_file(run: Path, files: dict[str, str]) -> None:
    forget()
    parts = options({kind: files[kind] for kind in ("method", "backbone")})
    measured = succeed("evaluate", run, files["dataset"], "--json", *parts, "--dataset",
                       files["dataset"])  # fmt: skip
    assert 0 <= json.loads(measured.out)["accuracy"] <= 1


def test_data_sets_in_files_are_tuned_and_listed(files: dict[str, str], tmp_path: Path) -> None:
    forget()
    command = ("tune", files["method"], files["dataset"], "--grid", "sharpness=-1", "--set",
               "graphs=40", "--out", tmp_path / "tuned", "--quiet")  # fmt: skip
    assert "sharpness" in refuse(*command)  # the data is loaded before the grid is checked
    assert "stars-cli" in DATASETS
    forget()
    assert "--set graphs=" in succeed("datasets", files["dataset"]).out


def test_a_class_of_another_kind_is_refused(run: Path, files: dict[str, str]) -> None:
    assert "Stars" in refuse("evaluate", run, "--method", files["dataset"])
    assert "SumNet" in refuse("train", files["backbone"])
