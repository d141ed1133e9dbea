"""Tables of molecules on the command line: train, rejected.csv, predict; and hostile tables."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
from cli_harness import Trained, refuse, succeed
from cli_harness import gsat as call

import gsat
from gsat.core.errors import RunError

pytest.importorskip("rdkit")

TINY = ("--epochs", 1, "--set", "hidden=8", "--set", "layers=1", "--quiet")
MOLS = [f"{'C' * (n // 4 + 1)}{('N', 'O', 'S', 'F')[n % 4]}" for n in range(60)]
WORDS = ["inactive", "active"]


def read(path: Path, delimiter: str = ",") -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file, delimiter=delimiter))


def write(path: Path, rows: list[list[str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on 60 molecules, one of which is broken."""
    folder = tmp_path_factory.mktemp("molecules")
    rows = [[f"M{n}", s, WORDS[n % 2], "x"] for n, s in enumerate(MOLS)]
    rows[7][1] = "C1CC"
    table = write(folder / "mols.csv", [["name", "structure", "verdict", "comment"], *rows])
    outcome = call("train", table, *TINY, "--split", "random", "--out", folder / "run")
    assert outcome.code == 0, outcome
    columns, *_, rejected = outcome.err.splitlines()
    for name in ("structure", "verdict", "inactive", "active", "name"):
        assert name in columns
    assert rejected.startswith("1 row")
    return folder / "run"


def test_the_run_lists_rejected_rows_and_stores_its_input(run: Path) -> None:
    (_, (line, name, smiles, _)) = read(run / "rejected.csv")
    assert (line, name, smiles) == ("9", "M7", "C1CC")
    assert gsat.open_run(run).dataset.rejected[0].line == 9
    description = json.loads((run / "best" / "model.json").read_text())["config"]["input"]
    assert description["classes"] == WORDS
    assert description["table"]["labels"] == ["verdict"]
    assert description["table"]["smiles"] == "structure"
    assert description["features"]["version"] == 1


def test_predictions_keep_every_row_and_column(run: Path, tmp_path: Path) -> None:
    rows = [
        ["=1+1", "CCO", "7", "ö"],
        ["", "C1CC", "", ""],
        ["b", "", "", ""],
        ["c,d", "[Na+]", 'quote "', "line\nbreak"],
        ["e", "c1ccccc1Cl", "", ""],
    ]
    new = write(tmp_path / "new.csv", [["id", "structure", "prediction", "more"], *rows])
    assert succeed("predict", run, new, "--out", tmp_path / "p.csv").out.startswith(
        "5 molecules, 3 "
    )
    header, *predictions = read(tmp_path / "p.csv")
    assert header == [
        "id", "structure", "prediction", "more", "prediction_2", "p(inactive)", "p(active)", "note"
    ]  # fmt: skip
    assert [row[1:4] for row in predictions] == [row[1:] for row in rows]
    assert [row[0] for row in predictions] == ["'=1+1", "", "b", "c,d", "e"]
    assert [bool(row[-1]) for row in predictions] == [False, True, True, True, False]
    predicted = gsat.open_run(run).model.predict(gsat.molecules.featurise(["CCO", "c1ccccc1Cl"]))
    for row, at in ((predictions[0], 0), (predictions[4], 1)):
        assert row[4] == WORDS[int(predicted.labels[at])]
        assert [float(p) for p in row[5:7]] == pytest.approx(
            predicted.probabilities[at].tolist(), abs=1e-6
        )
    assert predictions[1][4:7] == ["", "", ""]
    assert succeed("predict", run, new).out == (tmp_path / "p.csv").read_text()
    succeed("predict", run, new, "--out", tmp_path / "p.tsv", "--smiles", "structure")
    assert read(tmp_path / "p.tsv", "\t")[0] == header


def test_a_copied_run_predicts_the_same_without_its_data(run: Path, tmp_path: Path) -> None:
    new = write(tmp_path / "new.csv", [["SMILES"], *([s] for s in MOLS[:9])])
    before = succeed("predict", run, new).out
    copy = shutil.copytree(run, tmp_path / "elsewhere" / "copy")
    (run.parent / "mols.csv").rename(tmp_path / "hidden.csv")
    try:
        assert succeed("predict", copy, new).out == before
    finally:
        (tmp_path / "hidden.csv").rename(run.parent / "mols.csv")


def test_labels_of_another_table_are_evaluated(run: Path, tmp_path: Path) -> None:
    rows = [[s, WORDS[n % 2]] for n, s in enumerate(MOLS[:20])]
    new = write(tmp_path / "new.csv", [["structure", "verdict"], *rows, ["C1CC", "active"]])
    measured = json.loads(succeed("evaluate", run, new, "--json").out)
    opened = gsat.open_run(run)
    graphs = opened.graphs(new)
    assert len(graphs) == 20
    assert graphs.per_graph("y")[:, 0].tolist() == [0.0, 1.0] * 10
    assert measured["roc_auc"] == opened.evaluate(new)["roc_auc"]
    rows[3][1], rows[4][1] = "", "unheard of"
    some = write(tmp_path / "some.csv", [["structure", "verdict"], *rows])
    kept = [n for n in range(20) if n not in (3, 4)]
    assert opened.evaluate(some) == opened.evaluate(graphs.select(kept))
    unlabelled = write(tmp_path / "u.csv", [["structure"], *([s] for s in MOLS[:3])])
    assert len(opened.explain(unlabelled)) == 3
    refuse("evaluate", run, unlabelled)


def test_several_numbers_and_several_questions(tmp_path: Path) -> None:
    rows = [[s, f"{n / 7:.2f}", str(n * 3.5)] for n, s in enumerate(MOLS)]
    table = write(tmp_path / "n.csv", [["smiles", "logP", "mp (C)"], *rows])
    chosen = ("--label", "logP", "--label", "mp (C)", "--split", "random")
    assert call("train", table, *TINY, *chosen, "--out", tmp_path / "n").code == 0
    assert read_header(tmp_path / "n", table) == ["prediction(logP)", "prediction(mp (C))", "note"]
    result = json.loads((tmp_path / "n" / "result.json").read_text())
    assert result["test"]["rmse"] > 0
    rows = [[s, str(n % 2), str(n // 2 % 2)] for n, s in enumerate(MOLS)]
    table = write(tmp_path / "q.csv", [["smiles", "toxic", "bitter"], *rows])
    assert call("train", table, *TINY, "--split", "random", "--out", tmp_path / "q").code == 0
    assert read_header(tmp_path / "q", table) == [
        "prediction(toxic)", "prediction(bitter)", "p(toxic)", "p(bitter)", "note"
    ]  # fmt: skip
    assert succeed("predict", tmp_path / "q").lines[0] == (
        "graph,prediction(toxic),prediction(bitter),p(toxic),p(bitter)"
    )


def read_header(run: Path, table: Path) -> list[str]:
    return succeed("predict", run, table).lines[0].split(",")[3:]


def test_a_model_that_can_not_read_a_table(run: Path, trained: Trained, tmp_path: Path) -> None:
    new = write(tmp_path / "new.csv", [["smiles"], ["CC"]])
    refuse("predict", trained.path, new)
    model = gsat.load(run)
    assert model.input is not None
    model.input = {**model.input, "features": {"version": 99}}
    with pytest.raises(RunError, match="99"):
        gsat.Run(model=model).predict_table(new)


def test_a_table_is_checked_without_training(tmp_path: Path) -> None:
    rows = [[s, WORDS[n % 2]] for n, s in enumerate(MOLS)]
    table = write(tmp_path / "t.csv", [["smiles", "y"], *rows, ["C1CC", "active"]])
    shown = succeed("datasets", "--check", table).out
    assert "note: SMILES in 'smiles'" in shown
    assert "note: 1 row" in shown


# -- hostile tables --------------------------------------------------------------------------------


def test_a_hostile_table_loses_nothing(tmp_path: Path) -> None:
    rows = [f"{s},{WORDS[n % 2]},id{n}" for n, s in enumerate(MOLS)]
    rows[0] = f'{MOLS[0]},inactive,=HYPERLINK("http://x")'
    rows[3], rows[11], rows[12] = "C1CC,active,a", "c1cc,inactive,b", "N(C)(C)(C)(C)C,active,c"
    rows[20] = f"{'C' * 5_000_000},active,long"
    rows[21] = f"{MOLS[21]},active,{'x' * 5_000_000}"
    rows[30] = "C\0C,active,nul"
    rows[31] = f"{MOLS[31]},active,nul\0id"
    rows[40] = f"{MOLS[40]},inactive,caf\xe9"
    path = tmp_path / "hostile.csv"
    text = "\r\n".join(["smiles,verdict,id", *rows]) + "\r\n"
    path.write_bytes(text.encode("cp1252"))
    outcome = call("train", path, *TINY, "--split", "random", "--out", tmp_path / "run")
    assert outcome.code == 0, outcome.err[:500]
    assert "Windows-1252" in outcome.err
    listed = read(tmp_path / "run" / "rejected.csv")
    assert [row[0] for row in listed[1:]] == ["5", "13", "14", "22", "32"]
    assert "5000000 characters" in listed[4][3]
    assert len(gsat.open_run(tmp_path / "run").dataset.store) == 55
    assert (tmp_path / "run" / "rejected.csv").stat().st_size < 2000
    assert listed[5][2] == "C\\x00C"
    assert call("predict", tmp_path / "run", path, "--out", tmp_path / "p.csv").code == 0
    csv.field_size_limit(1 << 30)
    predicted = read(tmp_path / "p.csv")
    csv.field_size_limit(131072)
    assert len(predicted) == 61
    assert predicted[1][2].startswith("'=HYPERLINK")
    assert predicted[41][2] == "café"
    assert len(predicted[22][2]) == 5_000_000
    assert [n for n, row in enumerate(predicted) if row[-1].startswith("not predicted")] == [
        4, 12, 13, 21, 31
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "bad.csv"),
        ("name,y\naspirin,1\nheroin,0\n", "SMILES"),
        ("smiles,y\n" + "\n".join(f"{s},active" for s in MOLS), "'active'"),
        ("smiles,y\nC1CC,1\nxx,0\n", "2 rows"),
        ("smiles,y\nCC,1\nCO,0\nCN,1\nCF,0\n", "'valid'"),
    ],
)
def test_unusable_tables_are_errors(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    assert problem in refuse("train", path, *TINY, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_options_of_tables_are_for_tables(tmp_path: Path) -> None:
    assert "--label" in refuse("train", "ba2motifs", "--label", "y")
    assert "--split" in refuse("train", "ba2motifs", "--split", "random")
    table = write(tmp_path / "t.csv", [["smiles", "y"], *([s, "1"] for s in MOLS)])
    assert "'nix'" in refuse("train", table, "--smiles", "nix")
