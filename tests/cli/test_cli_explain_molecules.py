"""``gsat explain`` and ``gsat patterns`` on molecules, from a table to pages."""

from __future__ import annotations

import csv
import json
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from cli_harness import Trained, gsat, refuse, succeed

import gsat as package

ALKYL = ["C", "CC", "CCC", "CC(C)", "CCCC", "CCO", "CCOC", "CCN(C)C", "CC(C)C", "CCC#N"]
CORES = ["c1ccccc1{}", "c1ccncc1{}", "c1ccsc1{}", "C1CCCCC1{}"]


def _table(path: Path) -> Path:
    """80 molecules, toxic if they have a nitro group, with identifiers."""
    rows = ["name,smiles,toxic"]
    for number, alkyl in enumerate(ALKYL):
        for core in CORES:
            rows.append(f"a{len(rows)},{alkyl}{core.format('[N+](=O)[O-]')},yes")
            rows.append(f"b{len(rows)},{alkyl}{core.format('O' if number % 2 else 'F')},no")
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("molecules")
    done = gsat(
        "train", _table(folder / "toxic.csv"), "--split", "random", "--epochs", 12, "--out",
        folder / "run", "--quiet", "--set", "batch_size=8",
    )  # fmt: skip
    assert done.code == 0, done
    return folder / "run"


def test_a_molecule_is_explained_by_its_fragments(run: Path) -> None:
    done = gsat("explain", run, "--smiles", "CCc1ccccc1[N+](=O)[O-]")
    assert done.code == 0, done
    assert done.lines[0].startswith("predicted ")
    for name in ("nitro", "benzene", "ethyl"):
        (line,) = [line for line in done.lines if line.startswith(name)]
        score, effect = line.split()[1].rstrip("*"), line.split()[2]
        assert 0 <= float(score) <= 1
        assert effect[0] in "+-"
    assert "effect on p(yes)" in done.out
    assert any(line.startswith("nearest training molecule: similarity") for line in done.lines)


def test_effects_on_the_target_class(run: Path) -> None:
    smiles = ("--smiles", "Cc1ccccc1[N+](=O)[O-]")
    yes, no = (
        json.loads(gsat("explain", run, *smiles, "--target", t, "--json").out)
        for t in ("yes", "no")
    )
    assert (yes["target"], no["target"]) == (yes["outputs"].index("yes"), no["outputs"].index("no"))
    for fragment in yes["fragments"]:
        assert sum(fragment["effects"]) == pytest.approx(0, abs=1e-6)
    assert "effect on p(no)" in gsat("explain", run, *smiles, "--target", "no").out
    assert "'maybe'" in refuse("explain", run, *smiles, "--target", "maybe")


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf", ".html", ".json", ".csv"])
def test_a_molecule_is_written_in_every_format(run: Path, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"m{suffix}"
    done = gsat("explain", run, "--smiles", "Cc1ccccc1[N+](=O)[O-]", "--out", out, "--numbers")
    assert done.code == 0, done
    assert str(out) in done.lines
    content = out.read_bytes()
    if suffix == ".svg":
        ET.fromstring(content)
    elif suffix == ".json":
        fragments = {fragment["name"] for fragment in json.loads(content)["fragments"]}
        assert fragments == {"methyl", "benzene", "nitro"}
    elif suffix == ".csv":
        rows = list(csv.DictReader(content.decode().splitlines()))
        assert [row["kind"] for row in rows] == ["atom"] * 10 + ["bond"] * 10
    elif suffix == ".html":
        assert b"<article" in content


def test_a_graph_of_the_run_is_explained_as_a_molecule(run: Path, tmp_path: Path) -> None:
    done = gsat("explain", run, "--graph", 2, "--out", tmp_path / "g.svg", "--top", 3)
    assert done.code == 0, done
    assert "bond-0" in (tmp_path / "g.svg").read_text()
    listed = gsat("explain", run, "--graph", 2, "--top", 3)
    assert sum(" – " in line for line in listed.lines) == 3


def test_a_table_becomes_one_page(run: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.csv"
    new.write_text('id,smiles\n<b>x</b>,CCO\nbroken,C(\n"=1+1",Cc1ccccc1[N+](=O)[O-]\n')
    done = gsat("explain", run, new, "--out", tmp_path / "report.html")
    assert done.code == 0, done
    assert done.lines[-1] == f"2 molecules · {tmp_path / 'report.html'}"
    assert "1 rows" in done.err
    page = (tmp_path / "report.html").read_text()
    assert page.count("<article") == 2
    assert "<b>x</b>" not in page
    assert "broken" in page
    scores = gsat("explain", run, new, "--out", tmp_path / "scores.csv")
    assert scores.code == 0, scores
    rows = list(csv.DictReader((tmp_path / "scores.csv").read_text().splitlines()))
    assert {row["line"] for row in rows} == {"2", "4"}
    assert {row["id"] for row in rows} == {"<b>x</b>", "'=1+1"}


def test_patterns_are_found_printed_and_written(run: Path, tmp_path: Path) -> None:
    done = gsat("patterns", run, "--split", "all", "--out", tmp_path / "patterns.html")
    assert done.code == 0, done
    assert any(line.startswith("yes: ") for line in done.lines)
    assert (tmp_path / "patterns.html").is_file()
    table = gsat("patterns", run, "--split", "all", "--out", tmp_path / "patterns.csv")
    assert table.code == 0, table
    rows = list(csv.DictReader((tmp_path / "patterns.csv").read_text().splitlines()))
    assert {"yes", "no"} == {row["group"] for row in rows}
    assert all(0 <= float(row["p_value"]) <= float(row["q_value"]) + 1e-12 for row in rows)


def test_a_run_explains_without_the_table_it_was_trained_on(run: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(run, tmp_path / "elsewhere" / "run"))
    opened = package.open_run(moved)
    table = run.parent / "toxic.csv"
    hidden = table.rename(table.with_name("hidden.csv"))
    try:
        report = opened.explain_molecules(smiles="Cc1ccccc1[N+](=O)[O-]")
        assert report[0].nearest is None
        assert {fragment.name for fragment in report[0].fragments} == {"methyl", "benzene", "nitro"}
    finally:
        hidden.rename(table)


def test_numbers_are_named_by_their_column(tmp_path: Path) -> None:
    table = tmp_path / "logs.csv"
    rows = [f"{'C' * n}O{'C' * m},{0.37 * n - 0.5 * m}" for n in range(1, 6) for m in range(1, 5)]
    table.write_text("\n".join(["smiles,logS", *rows]) + "\n")
    done = gsat("train", table, "--epochs", 1, "--out", tmp_path / "run", "--quiet")
    assert done.code == 0, done
    explained = gsat("explain", tmp_path / "run", "--smiles", "CCOC")
    assert "effect on logS" in explained.out
    patterns = gsat("patterns", tmp_path / "run", "--split", "all")
    assert patterns.lines[0].startswith("logS above ")


def test_a_page_too_large_for_a_browser_is_refused(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gsat.draw.export.MOST_CARDS", 3)
    assert ".csv" in refuse("explain", run, "--out", tmp_path / "report.html")
    succeed("explain", run, "--out", tmp_path / "scores.csv")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--smiles", "C("), "C("),
        (("--smiles", "C", "--graph", "1"), "--graph"),
        ((), "--smiles"),
        (("--out", "report.docx"), ".docx"),
        (("--smiles", "CC", "--out", "m.docx"), ".docx"),
    ],
)
def test_wrong_options_are_errors(run: Path, arguments: tuple[str, ...], problem: str) -> None:
    assert problem in refuse("explain", run, *arguments)


def test_graphs_without_molecules_are_errors(trained: Trained, tmp_path: Path) -> None:
    refuse("explain", trained.path, "--out", tmp_path / "report.html")
    refuse("patterns", trained.path, "--out", tmp_path / "patterns.html")
    refuse("explain", trained.path, "--smiles", "CC")
