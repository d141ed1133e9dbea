"""What answers at once: help, version, data sets; wrong usage; output that can't be written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_harness import GSAT, Outcome, environment, finish, gsat, refused, start, succeed

import gsat as package

COMMANDS = (
    "train", "resume", "demo", "datasets", "evaluate", "predict", "explain", "methods", "tune",
    "bench", "results",
)  # fmt: skip


def test_quick_commands_import_nothing_heavy() -> None:
    script = """
import sys
from gsat.cli.app import run
heavy = {"torch", "torch_geometric", "numba", "numpy", "matplotlib", "sklearn", "networkx"}
def check(arguments, heavy):
    try:
        run(arguments)
    except SystemExit:
        pass
    if found := heavy & set(sys.modules):
        sys.exit(f"{arguments}: {sorted(found)}")
for arguments in (["--help"], ["--version"], ["train", "--help"], ["nonsense"]):
    check(arguments, heavy)
check(["datasets"], heavy - {"numpy"})  # their files import it to generate graphs
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment()
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["datasets"], ["train"]])
def test_module_is_the_command(arguments: list[str]) -> None:
    ways = [[GSAT], [sys.executable, "-m", "gsat"]]
    said = [
        subprocess.run([*way, *arguments], capture_output=True, text=True, env=environment())
        for way in ways
    ]
    assert said[0].stdout == said[1].stdout
    assert said[0].stderr == said[1].stderr
    assert said[0].returncode == said[1].returncode


def test_version() -> None:
    assert succeed("--version").out == f"gsat {package.__version__}\n"


def test_help_names_every_command_and_cuts_no_sentence() -> None:
    said = succeed("--help").out
    listed = said[said.index("Commands:") :]
    for command in COMMANDS:
        assert f"  {command} " in listed
    assert "..." not in listed


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    said = succeed(command, "--help").out
    assert f"gsat {command}" in said
    assert "--help" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["frobnicate"], "frobnicate"),
        (["train"], "dataset"),
        (["train", "ba2motifs", "--bogus"], "--bogus"),
        (["train", "ba2motifs", "--epochs", "0"], "--epochs"),
        (["train", "ba2motifs", "--epochs", "many"], "--epochs"),
        (["train", "ba2motifs", "--seed", "-1"], "--seed"),
        (["train", "ba2motifs", "--threads", "0"], "--threads"),
        (["explain", "run", "--graph", "x"], "--graph"),
        (["explain", "run", "--graph", "0", "--above", "1.5"], "--above"),
        (["resume"], "run"),
    ],
)
def test_wrong_usage_is_refused_before_any_work(arguments: list[str], said: str) -> None:
    outcome = gsat(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert "Usage: gsat" in outcome.err
    assert said in outcome.err.splitlines()[-1]


def test_without_a_command_help_is_shown() -> None:
    outcome = gsat()
    assert "Commands:" in outcome.out + outcome.err


@pytest.fixture
def _no_raw_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GSAT_DATA", raising=False)
    monkeypatch.setenv("GSAT_CACHE", str(tmp_path / "cache"))


@pytest.mark.usefixtures("_no_raw_data")
def test_datasets_says_what_is_missing_and_where_to_put_it(tmp_path: Path) -> None:
    said = succeed("datasets").lines
    mutag = next(i for i, line in enumerate(said) if line.startswith("mutag "))
    assert " missing " in said[mutag]
    assert "Mutagenicity.zip" in said[mutag + 1]
    assert str(tmp_path / "cache" / "raw" / "mutagenicity" / "Mutagenicity.zip") in said[mutag + 1]
    generated = next(line for line in said if line.startswith("ba2motifs "))
    assert " here " in generated
    published = next(line for line in said if line.startswith("ba2motifs --set source=published"))
    assert " missing " in published


@pytest.mark.usefixtures("_no_raw_data")
def test_datasets_finds_what_is_under_gsat_data(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "data" / "mutagenicity" / "Mutagenicity.zip"
    file.parent.mkdir(parents=True)
    file.touch()
    monkeypatch.setenv("GSAT_DATA", str(tmp_path / "data"))
    rows = {row["use"]: row for row in json.loads(succeed("datasets", "--json").out)}
    assert rows["mutag"]["here"]
    assert rows["mutag"]["missing"] == []
    assert not rows["ba2motifs --set source=published"]["here"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_on_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        outcome = finish(start("datasets", stdout=full))
    assert "No space left" in refused(outcome)


def test_a_closed_pipe_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    outcome = finish(start("datasets", stdout=writing))
    os.close(writing)
    assert outcome.err == ""


def test_debug_shows_the_traceback_wherever_it_stands() -> None:
    for arguments in (("--debug", "train", "nosuch"), ("train", "nosuch", "--debug")):
        outcome = gsat(*arguments)
        assert outcome.code == 2
        assert outcome.err.startswith("Traceback")
        assert "there is no data set 'nosuch'" in outcome.err.splitlines()[-1]


def test_an_unexpected_error_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str, given: object) -> Outcome:
        raise ZeroDivisionError(name)

    monkeypatch.setattr("gsat.training.recipe.make_options", broken)
    with pytest.raises(ZeroDivisionError):
        gsat("train", "ba2motifs")
