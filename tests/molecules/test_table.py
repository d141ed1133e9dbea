"""Tables: separators, encodings, quotes, SDF and Parquet, and limits for untrusted files."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from gsat.core.errors import DataError, DataNotFoundError
from gsat.molecules import table
from gsat.molecules.table import is_table, open_table

Chem = pytest.importorskip("rdkit.Chem")


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", "smiles,y\nCC,1\nCO,2\n"),
        ("t.csv", "smiles;y\nCC;1\nCO;2\n"),
        ("t.csv", "smiles|y\r\nCC|1\r\nCO|2\r\n"),
        ("t.tsv", "smiles\ty\nCC\t1\nCO\t2"),
        ("t.csv", '"smiles","y"\n"CC","1"\n"CO","2"\n'),
        ("t.smi", "smiles y\nCC 1\nCO 2\n"),
        ("t.CSV", "smiles,y\n\nCC,1\n,\nCO,2\n\n"),
    ],
)
def test_separators(tmp_path: Path, name: str, text: str) -> None:
    for path in (
        write(tmp_path, name, text),
        write(tmp_path, f"{name}.gz", gzip.compress(text.encode())),
    ):
        table = open_table(path)
        assert table.columns == ["smiles", "y"]
        assert table.rows == [["CC", "1"], ["CO", "2"]]
        assert not table.problems


def test_rows_keep_their_line_numbers(tmp_path: Path) -> None:
    table = open_table(write(tmp_path, "t.csv", 'smiles,name\nCC,"a\nb"\n\nCO,c\n'))
    assert table.rows == [["CC", "a\nb"], ["CO", "c"]]
    assert table.lines == [2, 5]


def test_a_smiles_file_without_a_header(tmp_path: Path) -> None:
    table = open_table(write(tmp_path, "t.smi", "CC ethane\nCO\nC#N hydrogen cyanide\n"))
    assert table.columns == ["smiles", "name", "column_3"]
    assert table.rows[1] == ["CO", "", ""]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    table = open_table(write(tmp_path, "t.csv", "smiles,näme\nCC,é\n".encode(encoding)))
    assert table.columns == ["smiles", "näme"]
    assert table.rows == [["CC", "é"]]
    assert ("Windows-1252" in "".join(table.notes)) == (encoding == "cp1252")


def test_an_unclosed_quote_hides_no_rows(tmp_path: Path) -> None:
    table = open_table(write(tmp_path, "t.csv", 'smiles,name\nCC,"a\nCO,b\nCN,c\n'))
    assert [row[0] for row in table.rows] == ["CC", "CO", "CN"]
    assert table.lines == [2, 3, 4]
    assert "quotes" in table.notes[0]


def test_rows_that_do_not_fit_the_header(tmp_path: Path) -> None:
    table = open_table(write(tmp_path, "t.csv", "smiles,y\nCC\nCO,1,2\nCN,1,\n"))
    assert table.rows == [["CC", ""], ["CN", "1"]]
    ((line, _, cells),) = table.problems
    assert (line, cells) == (3, ["CO", "1", "2"])


def test_a_very_long_cell(tmp_path: Path) -> None:
    table = open_table(write(tmp_path, "t.csv", f"smiles,note\nCC,{'x' * 5_000_000}\nCO,b\n"))
    assert len(table.rows[0][1]) == 5_000_000
    assert table.rows[1] == ["CO", "b"]


def test_sdf(tmp_path: Path) -> None:
    path = tmp_path / "t.sdf"
    with Chem.SDWriter(str(path)) as writer:
        for smiles, activity in (("CCO", "1.5"), ("c1ccccc1", "two\nlines")):
            molecule = Chem.MolFromSmiles(smiles)
            molecule.SetProp("_Name", f"name of {smiles}")
            molecule.SetProp("activity", activity)
            writer.write(molecule)
    table = open_table(path)
    assert table.columns == ["smiles", "title", "activity"]
    assert table.rows[0][1:] == ["name of CCO", "1.5"]
    assert table.rows[1][2] == "two\nlines"
    lines = path.read_text().splitlines()
    assert [lines[number - 1] for number in table.lines] == ["name of CCO", "name of c1ccccc1"]
    assert table.blocks is not None
    found = [Chem.MolToSmiles(Chem.MolFromMolBlock(block)) for block in table.blocks]
    assert found == ["CCO", "c1ccccc1"]


def test_parquet(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    path = tmp_path / "t.parquet"
    polars.DataFrame({"smiles": ["CC", "CO"], "y": [1, None], "z": [0.5, 1e-9]}).write_parquet(path)
    table = open_table(path)
    assert table.columns == ["smiles", "y", "z"]
    assert table.rows == [["CC", "1", "0.5"], ["CO", "", "1e-09"]]
    assert table.lines == [1, 2]
    with pytest.raises(DataError, match=r"broken\.parquet"):
        open_table(write(tmp_path, "broken.parquet", b"PAR1nonsense"))


def test_damaged_parquet_files_are_errors_without_output(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    polars = pytest.importorskip("polars")
    path = tmp_path / "t.parquet"
    polars.DataFrame({"smiles": ["CC", "CO"], "y": [1.5, None]}).write_parquet(path)
    whole = path.read_bytes()
    refused = 0
    for place in range(4, len(whole), 200):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        try:
            open_table(path)
        except DataError:
            refused += 1
    assert refused
    assert capfd.readouterr().err == ""


def test_a_parquet_file_that_crashes_its_reader_is_an_error(tmp_path: Path) -> None:
    """A length in a page's header, changed, makes polars ask for 2 EiB and abort."""
    polars = pytest.importorskip("polars")
    path = tmp_path / "t.parquet"
    ending = "import os; os.abort()"
    (tmp_path / "polars").mkdir()
    (tmp_path / "polars" / "__init__.py").write_text(ending)
    polars.DataFrame({"smiles": ["CC", "CO"]}).write_parquet(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)  # only the worker imports it
        with pytest.raises(DataError, match=r"t\.parquet"):
            open_table(path)
    assert open_table(path).rows == [["CC"], ["CO"]]


@pytest.mark.parametrize(
    ("name", "content"), [("t.csv", ""), ("t.smi", "\n\n"), ("t.sdf", ""), ("t.csv", "smiles,y\n")]
)
def test_empty_tables(tmp_path: Path, name: str, content: str) -> None:
    with pytest.raises(DataError, match=r"empty|no rows"):
        open_table(write(tmp_path, name, content))


def test_missing_and_incomplete_files(tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, match=r"none\.csv"):
        open_table(tmp_path / "none.csv")
    with pytest.raises(DataError, match=r"t\.csv\.gz"):
        open_table(write(tmp_path, "t.csv.gz", gzip.compress(b"smiles\nCC\n")[:-6]))
    assert is_table("a/b.SDF.gz")
    assert not is_table("a.zip")


# -- untrusted files ------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "smi", "sdf.gz", "parquet"])
def test_only_regular_files_are_read(tmp_path: Path, suffix: str) -> None:
    if suffix == "parquet":
        pytest.importorskip("polars")
    fifo, device, folder = (tmp_path / f"{name}.{suffix}" for name in ("fifo", "zero", "folder"))
    os.mkfifo(fifo)
    device.symlink_to("/dev/zero")
    folder.mkdir()
    for path in (fifo, device, folder):
        with pytest.raises(DataError, match=path.name):
            open_table(path)


def test_a_link_named_by_the_user_is_followed(tmp_path: Path) -> None:
    link = tmp_path / "link.csv"
    link.symlink_to(write(tmp_path, "t.csv", "smiles,y\nCC,1\n"))
    assert open_table(link).rows == [["CC", "1"]]


def test_memory_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = write(tmp_path, "t.csv.gz", gzip.compress(b"smiles\n" + b"C" * 10_000_000))
    plain = write(tmp_path, "t.csv", "smiles,y\n" + "C,1\n" * 20_000)
    wide = write(tmp_path, "wide.csv", "smiles" + ",x" * 4000 + "\nC" * 4000)
    fields = "".join(f"\n\n\nM  END\n> <f{n}>\n1\n\n$$$$\n" for n in range(2000))
    many = write(tmp_path, "many.sdf", fields)
    one = write(tmp_path, "one.smi", "C " * 3000 + "\nC" * 3000)
    assert len(open_table(plain).rows) == 20_000
    monkeypatch.setenv("GSAT_MEMORY_LIMIT", "1M")
    for path in (packed, plain, wide, many, one):
        with pytest.raises(DataError, match=r"GSAT_MEMORY_LIMIT|too large"):
            open_table(path)


def test_memory_of_a_parquet_file_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    polars = pytest.importorskip("polars")
    path = tmp_path / "t.parquet"
    # Compressed, both are a few hundred bytes.
    for frame in ({"smiles": ["C"] * 300_000}, {"smiles": ["C" * 10_000] * 300}):
        polars.DataFrame(frame).write_parquet(path)
        monkeypatch.setenv("GSAT_MEMORY_LIMIT", "2M")
        with pytest.raises(DataError, match="GSAT_MEMORY_LIMIT"):
            open_table(path)


def test_a_small_parquet_file_of_gigabytes(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    path = tmp_path / "t.parquet"
    long = polars.Series("smiles", ["C" * 2000]).extend_constant("C" * 2000, 400_000)
    lists = polars.Series("x", [[1] * 100_000] * 100)
    for frame in (long.to_frame(), polars.DataFrame([polars.Series("smiles", ["C"] * 100), lists])):
        frame.write_parquet(path)
        assert path.stat().st_size < 100_000
        with pytest.raises(DataError, match=r"t\.parquet"):
            open_table(path)


def test_a_parquet_file_is_read_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    polars = pytest.importorskip("polars")
    path = tmp_path / "t.parquet"
    polars.DataFrame({"smiles": [f"C{n}" for n in range(25)], "y": range(25)}).write_parquet(path)
    monkeypatch.setattr(table, "_BATCH", 20)
    assert open_table(path).rows == [[f"C{n}", str(n)] for n in range(25)]


def test_the_number_of_columns_is_limited(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="20001"):
        open_table(write(tmp_path, "t.csv", "smiles" + ",x" * 20_000 + "\nC\n"))


def test_long_fields_and_odd_names_of_an_sdf_file(tmp_path: Path) -> None:
    text = "a\n\n\nM  END\n> <y>\n2\n\n>  25 <x> (7)\n" + "1\n" * 5000
    text += f"\n> {'<' * 50_000}\n$$$$\n"
    table = open_table(write(tmp_path, "t.sdf", text))
    assert table.columns == ["smiles", "title", "y", "x"]
    assert table.rows[0][2:] == ["2", "\n".join("1" * 5000)]
