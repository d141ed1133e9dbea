"""Large molecules: the same graphs as in this process, and rows on which RDKit fails."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gsat.molecules.featuriser import read_all, to_arrays
from gsat.molecules.options import TableSettings
from gsat.molecules.parallel import read_many
from gsat.molecules.reader import read_table

pytest.importorskip("rdkit")

LARGE = "C/C=C/[C@H](N)C(=O)O" * 60


def chain(atoms: int) -> str:
    """A MOL block, V3000, of a chain of carbons."""
    listed = [f"M  V30 {i} C 0 0 0 0" for i in range(1, atoms + 1)]
    bonds = [f"M  V30 {i} 1 {i} {i + 1}" for i in range(1, atoms)]
    return "\n".join(
        (
            *("", "", "", "  0  0  0     0  0            999 V3000", "M  V30 BEGIN CTAB"),
            f"M  V30 COUNTS {atoms} {atoms - 1} 0 0 0",
            *("M  V30 BEGIN ATOM", *listed, "M  V30 END ATOM"),
            *("M  V30 BEGIN BOND", *bonds, "M  V30 END BOND"),
            *("M  V30 END CTAB", "M  END", ""),
        )
    )


def test_the_same_graphs_as_in_this_process() -> None:
    texts = ["CCO", LARGE, "C1CC", "C" * 1200, "C(C" * 600, "c1ccccc1"]
    options = {"canonical": True, "scaffold": True}
    here = read_all(texts, **options)
    found, parts = read_many(texts, quiet=True, **options)
    for name in ("rows", "smiles", "canonical", "scaffold", "components", "problems"):
        assert getattr(found, name) == getattr(here, name)
    assert [row for row, _ in found.problems] == [2, 4]
    for name, array in to_arrays(here).items():
        assert np.array_equal(parts[0][name], array)


@pytest.mark.medium
def test_a_molecule_that_takes_too_long_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSAT_LIMITS", "atoms=40000,bonds=40000,characters=40000,seconds=1")
    path = tmp_path / "t.csv"
    path.write_text(f"smiles,y\nCC,0\n{'C' * 30_000},1\n{LARGE},1\nCO,1\n")
    store = read_table(path, TableSettings(), quiet=True)
    assert store.per_graph("line").tolist() == [2, 4, 5]
    ((line, _, _, reason),) = store.meta["rejected"]
    assert (line, "seconds=" in reason) == (3, True)


@pytest.mark.medium
def test_a_record_on_which_rdkit_crashes_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.sdf"
    records = [f"{chain(n)}> <y>\n{n % 2}\n\n$$$$\n" for n in (4, 20_000, 7)]
    path.write_text("".join(records))
    for limit, why in (("", "20000 atoms"), ("atoms=40000,bonds=40000,characters=40000", "")):
        monkeypatch.setenv("GSAT_LIMITS", limit)
        store = read_table(path, TableSettings(), quiet=True)
        assert store.node_counts.tolist() == [4, 7]
        ((line, _, _, reason),) = store.meta["rejected"]
        assert (line, why in reason) == (records[0].count("\n") + 1, True)
