"""Columns found by name and content."""

from __future__ import annotations

import pytest

from gsat.core.errors import DataError
from gsat.molecules.columns import find_columns
from gsat.molecules.table import Table

pytest.importorskip("rdkit")

MOLS = ["CCO", "c1ccccc1C", "CC(=O)N", "CCCl", "CCN", "C1CCCCC1"] * 4


def table(**columns: list[str]) -> Table:
    names = [name.replace("_", " ") for name in columns]
    rows = [list(cells) for cells in zip(*columns.values(), strict=True)]
    return Table(names, rows, list(range(2, len(rows) + 2)))


def numbers(n: int = len(MOLS)) -> list[str]:
    return [f"{k * 7 % 11 / 3:.2f}" for k in range(n)]


def found(data: Table, **options: object) -> tuple[str, list[str], str | None]:
    columns = find_columns(data, **options)  # type: ignore[arg-type]
    named = None if columns.id is None else data.columns[columns.id]
    return data.columns[columns.smiles], [data.columns[n] for n in columns.labels], named


@pytest.mark.parametrize("name", ["smiles", "SMILES", "Canonical_SMILES", "mol", "Structure", "X"])
def test_smiles_by_name_or_content(name: str) -> None:
    data = table(**{"Compound_ID": [f"M{k}" for k in range(24)], name: MOLS, "logS": numbers()})
    shown = name.replace("_", " ")
    assert found(data) == (shown, ["logS"], "Compound ID")


def test_a_name_that_promises_smiles_and_holds_none() -> None:
    data = table(mol=[f"Aspirin{k}" for k in range(24)], drawn=MOLS, y=numbers())
    assert found(data)[0] == "drawn"


def test_what_is_not_a_label() -> None:
    data = table(
        index=[str(k) for k in range(24)],
        name=[f"drug {k}" for k in range(24)],
        smiles=MOLS,
        row_number=[str(k + 100) for k in range(24)],
        remarks=[f"text {k}" for k in range(24)],
        MW=numbers(),
        series=["7"] * 24,
        permeability=["high", "low"] * 12,
    )
    assert found(data) == ("smiles", ["permeability"], "name")


def test_several_questions_are_all_labels() -> None:
    answers = ["0", "1", ""] * 8
    data = table(smiles=MOLS, NR=answers, SR=answers[::-1], AhR=["0", "1"] * 12)
    assert found(data)[1] == ["NR", "SR", "AhR"]


def test_a_telling_name_decides() -> None:
    data = table(smiles=MOLS, logP=numbers(), activity=["0", "1"] * 12)
    assert found(data)[1] == ["activity"]


def test_several_candidates_must_be_named() -> None:
    data = table(smiles=MOLS, logP=numbers(), logS=numbers()[::-1])
    with pytest.raises(DataError, match=r"several columns could be the label: 'logP', 'logS'"):
        find_columns(data)
    assert found(data, label=["logS"])[1] == ["logS"]
    assert found(data, label=["logS", "logP"])[1] == ["logS", "logP"]


def test_names_that_are_not_there() -> None:
    data = table(smiles=MOLS, y=numbers())
    for option in ({"smiles": "mol"}, {"label": ["activity"]}, {"id": "cas"}):
        with pytest.raises(DataError, match=r"there is no column .* the columns are 'smiles', 'y'"):
            find_columns(data, **option)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="different columns, not SMILES"):
        find_columns(data, label=["smiles"])


def test_a_name_that_two_columns_have() -> None:
    data = Table(["smiles", "y", "y"], [["CC", "1", "2"]], [2])
    with pytest.raises(DataError, match="the columns 2 and 3 are both called 'y'"):
        find_columns(data, label=["y"])


def test_labels_that_are_found_have_names_of_their_own() -> None:
    with pytest.raises(DataError, match="the columns 2 and 3 are both called 'y'"):
        find_columns(Table(["smiles", "y", "y"], [["CC", "1", "0"], ["CO", "0", "1"]]))


def test_a_table_without_a_header_is_refused() -> None:
    data = Table(["CC(=O)O", "1"], [[s, "0"] for s in MOLS], list(range(2, 26)))
    with pytest.raises(DataError, match=r"the first line must name the columns; 'CC\(=O\)O'"):
        find_columns(data)


def test_tables_without_smiles_or_labels() -> None:
    with pytest.raises(DataError, match="no column holds SMILES"):
        find_columns(table(name=["aspirin", "heroin"], y=["1", "2"]))
    with pytest.raises(DataError, match="no column could be the label"):
        find_columns(table(smiles=MOLS, name=[f"drug {k}" for k in range(24)]))
    assert find_columns(table(smiles=MOLS), labelled=False).labels == ()
