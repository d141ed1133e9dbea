"""Help, version, data sets, wrong usage, and output that can't be written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_harness import GSAT, Outcome, environment, finish, gsat, refused, start, succeed
from typer.main import get_command

import gsat as package
from gsat.cli.app import app, load_commands


def commands() -> list[tuple[str, ...]]:
    """Every command that help texts show."""
    load_commands()
    shown = {name: c for name, c in get_command(app).commands.items() if not c.hidden}
    bench = shown["bench"].commands
    names = [(name,) for name in shown]
    return names + [("bench", name) for name, c in bench.items() if not c.hidden]


def test_quick_commands_import_nothing_heavy() -> None:
    script = """
import sys
from gsat.cli.app import run
heavy = {"torch", "torch_geometric", "numba", "matplotlib", "networkx", "rich", "scipy"}

def check(arguments, forbidden):
    try:
        run(arguments)
    except SystemExit:
        pass
    if found := forbidden & set(sys.modules):
        sys.exit(f"{arguments}: {sorted(found)}")

for arguments in (
    ["--help"], ["--version"], ["train", "--help"], ["bench", "run", "--help"], ["nonsense"],
):
    check(arguments, heavy | {"numpy"})
# Files of data sets import numpy to generate graphs.
for arguments in (["datasets"], ["datasets", "mutag"], ["runs", "."]):
    check(arguments, heavy)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment()
    )
    assert done.returncode == 0, done.stderr


def test_module_is_the_command() -> None:
    ended = [
        subprocess.run([*command, "train"], capture_output=True, text=True, env=environment())
        for command in ([GSAT], [sys.executable, "-m", "gsat"])
    ]
    assert len({(done.stdout, done.stderr, done.returncode) for done in ended}) == 1


def test_version() -> None:
    assert succeed("--version").out == f"gsat {package.__version__}\n"


def test_help_lists_every_command_in_full() -> None:
    usage, *lines = succeed("--help").lines
    assert usage.startswith("Usage: gsat ")
    listed = [line.split()[0] for line in lines if line.startswith("  ") and line.strip()]
    assert {name for name, *rest in commands() if not rest} <= set(listed)
    assert not any("..." in line for line in lines)


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_every_command_has_help_that_ends_with_examples(command: tuple[str, ...]) -> None:
    lines = succeed(*command, "--help").lines
    name = f"gsat {' '.join(command)}"
    assert lines[0].startswith(f"Usage: {name}")
    begin = lines.index("  Examples:")
    assert any("--help" in line for line in lines[:begin])
    examples = [line.strip() for line in lines[begin + 1 :]]
    assert examples
    assert all(line.startswith(name) for line in examples)


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["frobnicate"], "frobnicate"),
        (["train"], "dataset"),
        (["train", "ba2motifs", "--bogus"], "--bogus"),
        (["train", "ba2motifs", "--epochs", "0"], "--epochs"),
        (["tune", "ba2motifs", "--by", "luck"], "--by"),
        (["explain", "run", "--graph", "0", "--above", "1.5"], "--above"),
        (["resume"], "run"),
    ],
)
def test_wrong_usage_is_refused_before_any_work(arguments: list[str], output: str) -> None:
    outcome = gsat(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert "Usage: gsat" in outcome.err
    assert output in outcome.err.splitlines()[-1]


REFUSED = {
    ("train", "bogus"): "'bogus'",
    ("train", "bogus.jsonl"): "bogus.jsonl",
    ("train", "ba2motifs", "--method", "bogus"): "'bogus'",
    ("train", "ba2motifs", "--backbone", "bogus"): "'bogus'",
    ("train", "ba2motifs", "--method", "bogus.py:Mine"): "bogus.py",
    ("train", "ba2motifs", "--recipe", "missing.toml"): "missing.toml",
    ("train", "ba2motifs", "--set", "nonsense"): "'nonsense'",
    ("tune", "bogus", "ba2motifs"): "'bogus'",
    ("tune", "gsat", "bogus"): "'bogus'",
    ("resume", "missing"): "missing",
    ("evaluate", "missing"): "missing",
    ("predict", "missing"): "missing",
    ("explain", "missing"): "missing",
    ("runs", "missing"): "missing",
    ("datasets", "bogus"): "'bogus'",
    ("datasets", "bogus.jsonl"): "bogus.jsonl",
    ("datasets", "--download", "bogus"): "'bogus'",
    ("bench", "run", "table1", "--budget", "soon"): "'soon'",
}


def test_wrong_names_and_missing_files_are_refused_before_torch_is_imported(
    tmp_path: Path,
) -> None:
    script = """
import contextlib, io, json, sys
from gsat.cli.app import run
for arguments in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
    heavy = sorted({"torch", "numpy", "numba", "matplotlib"} & set(sys.modules))
    print(json.dumps([code, out.getvalue(), err.getvalue(), heavy]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps(list(REFUSED))],
        capture_output=True, text=True, env=environment(), cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(REFUSED)
    for (code, out, err, heavy), expected in zip(lines, REFUSED.values(), strict=True):
        assert heavy == [], err
        assert expected in refused(Outcome(code, out, err))


@pytest.fixture
def _no_raw_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GSAT_DATA", raising=False)
    monkeypatch.setenv("GSAT_CACHE", str(tmp_path / "cache"))


@pytest.mark.usefixtures("_no_raw_data")
def test_datasets_says_what_is_missing_and_where_to_put_it(tmp_path: Path) -> None:
    lines = succeed("datasets").lines
    names = [line.split()[0] for line in lines[:-1]]
    assert len(names) == len(set(names))  # one line per data set
    listed = dict(zip(names, lines, strict=False))
    assert " missing " in listed["mutag"]
    assert " here " in listed["ba2motifs"]
    details = succeed("datasets", "mutag").out
    assert str(tmp_path / "cache" / "raw" / "mutagenicity" / "Mutagenicity.zip") in details
    assert "--set test='paper' " in details
    sources = [line for line in succeed("datasets", "ba2motifs").lines if "gsat train" in line]
    assert sources[0] == "here     gsat train ba2motifs"
    assert sources[1] == "missing  gsat train ba2motifs --set source=published"


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


def test_debug_shows_the_traceback() -> None:
    for arguments in (("--debug", "train", "nosuch"), ("train", "nosuch", "--debug")):
        outcome = gsat(*arguments)
        assert outcome.code == 2
        assert outcome.err.startswith("Traceback")
        assert "'nosuch'" in outcome.err.splitlines()[-1]


def test_an_unexpected_error_is_one_line_that_asks_for_a_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(name: str, given: object) -> Outcome:
        raise ZeroDivisionError(name)

    monkeypatch.setattr("gsat.training.recipe.make_options", broken)
    assert "ZeroDivisionError: ba2motifs" in refused(gsat("train", "ba2motifs"))
