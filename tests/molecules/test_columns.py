"""Detection of columns by name and content."""

from __future__ import annotations

from typing import Any

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


def detected(data: Table, **options: object) -> tuple[str, list[str], str | None]:
    columns = find_columns(data, **options)  # type: ignore[arg-type]
    named = None if columns.id is None else data.columns[columns.id]
    return data.columns[columns.smiles], [data.columns[n] for n in columns.labels], named


@pytest.mark.parametrize(
    "name", ["smiles", "SMILES", "Canonical_SMILES", "mol", "Structure", "X", "N"]
)
def test_smiles_by_name_or_content(name: str) -> None:
    data = table(**{"Compound_ID": [f"M{k}" for k in range(24)], name: MOLS, "logS": numbers()})
    shown = name.replace("_", " ")
    assert detected(data) == (shown, ["logS"], "Compound ID")


def test_content_decides_if_a_column_named_mol_has_no_smiles() -> None:
    data = table(mol=[f"Aspirin{k}" for k in range(24)], drawn=MOLS, y=numbers())
    assert detected(data)[0] == "drawn"


def test_a_few_molecules_in_a_column_named_smiles_are_not_enough() -> None:
    data = table(smiles_source=["C", *["vendor A"] * 23], mol=MOLS, y=numbers())
    assert detected(data)[0] == "mol"


def test_texts_of_a_thousand_characters_are_not_parsed() -> None:
    assert detected(table(drawn=["C" * 999] * 4, y=numbers(4)))[0] == "drawn"
    with pytest.raises(DataError, match="'drawn'"):
        find_columns(table(drawn=["C" * 1000] * 4, y=numbers(4)))


@pytest.mark.parametrize(
    ("cells", "is_label"),
    [
        ([f"{k * k}" for k in range(23)] + [">500"], True),  # numbers, all different
        ([f"{k * k}" for k in range(12)] + [f"w{k}" for k in range(12)], False),
        ([f"w{k % 12}" for k in range(24)], True),  # every word twice
        ([f"w{k % 13}" for k in range(24)], False),
        ([""] * 24, False),
    ],
)
def test_labels_are_numbers_or_few_words(cells: list[str], is_label: bool) -> None:
    data = table(smiles=MOLS, content=cells)
    if is_label:
        assert detected(data)[1] == ["content"]
    else:
        with pytest.raises(DataError, match="'content'"):
            find_columns(data)


def test_columns_that_are_not_labels() -> None:
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
    assert detected(data) == ("smiles", ["permeability"], "name")


def test_several_binary_columns_are_all_labels() -> None:
    answers = ["0", "1", ""] * 8
    data = table(smiles=MOLS, NR=answers, SR=answers[::-1], AhR=["0", "1"] * 12)
    assert detected(data)[1] == ["NR", "SR", "AhR"]


def test_the_name_decides_between_candidates() -> None:
    data = table(smiles=MOLS, logP=numbers(), activity=["0", "1"] * 12)
    assert detected(data)[1] == ["activity"]


def test_ambiguous_labels_are_listed() -> None:
    data = table(smiles=MOLS, logP=numbers(), logS=numbers()[::-1])
    with pytest.raises(DataError, match="'logP', 'logS'"):
        find_columns(data)
    with pytest.raises(DataError, match=r"'c0'.*'c7' and 2 more"):
        find_columns(table(smiles=MOLS, **{f"c{k}": numbers() for k in range(10)}))
    assert detected(data, label=["logS"])[1] == ["logS"]
    assert detected(data, label=["logS", "logP"])[1] == ["logS", "logP"]


@pytest.mark.parametrize("option", [{"smiles": "mol"}, {"label": ["activity"]}, {"id": "cas"}])
def test_a_missing_column_is_named_with_all_columns(option: dict[str, Any]) -> None:
    (name,) = option["label"] if "label" in option else option.values()
    with pytest.raises(DataError, match=f"'{name}'.*'smiles', 'y'"):
        find_columns(table(smiles=MOLS, y=numbers()), **option)


def test_the_column_of_smiles_can_not_be_the_label() -> None:
    with pytest.raises(DataError, match="smiles"):
        find_columns(table(smiles=MOLS, y=numbers()), label=["smiles"])


@pytest.mark.parametrize("label", [["y"], []])
def test_labels_with_the_same_name_are_refused(label: list[str]) -> None:
    data = Table(["smiles", "y", "y"], [["CC", "1", "0"], ["CO", "0", "1"]])
    with pytest.raises(DataError, match=r"2 and 3 .*'y'"):
        find_columns(data, label=label)


def test_a_table_without_a_header_is_refused() -> None:
    data = Table(["CC(=O)O", "1"], [[s, "0"] for s in MOLS], list(range(2, 26)))
    with pytest.raises(DataError, match=r"'CC\(=O\)O'"):
        find_columns(data)


def test_tables_without_smiles_or_labels() -> None:
    with pytest.raises(DataError, match="'name', 'y'"):
        find_columns(table(name=["aspirin", "heroin"], y=["1", "2"]))
    with pytest.raises(DataError, match="'smiles', 'name'"):
        find_columns(table(smiles=MOLS, name=[f"drug {k}" for k in range(24)]))
    assert find_columns(table(smiles=MOLS), labelled=False).labels == ()
