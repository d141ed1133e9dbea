"""Tables of molecules as texts: CSV, TSV, SMILES files and SDF, also gzipped, and Parquet.

Cells are not interpreted here. Every row keeps its first line in the file; rows that do not fit the
header are listed with the reason.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from gsat.core.errors import DataError, DataNotFoundError, MissingExtraError, shown
from gsat.core.files import read_file
from gsat.core.gzipped import GzipReader
from gsat.core.limits import check_count, check_size, memory_limit
from gsat.launch.jobs import Job
from gsat.launch.limited import LimitedWorker

TEXT_SUFFIXES: Final = (".csv", ".tsv", ".tab", ".smi", ".sdf")
SUFFIXES: Final = (*TEXT_SUFFIXES, *(f"{s}.gz" for s in TEXT_SUFFIXES), ".parquet")
CELL_BYTES: Final = 70  # memory of a short text in a list
_BATCH: Final = 200_000  # cells of a Parquet file that are read at a time
_DELIMITERS: Final = (",", ";", "\t", "|")


@dataclass
class Table:
    """A table of texts."""

    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)  # first line of each row; in Parquet, its number
    # MOL blocks of an SDF file; the reader fills the first column with their SMILES.
    blocks: list[str] | None = None
    # Line, reason and cells of rows that do not fit the header.
    problems: list[tuple[int, str, list[str]]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # about the encoding and quotes
    decimal_comma: bool = False

    def column(self, number: int) -> list[str]:
        """The cells of a column."""
        return [row[number] for row in self.rows]


def is_table(name: str) -> bool:
    """Whether a file name has the suffix of a table of molecules."""
    return name.lower().endswith(SUFFIXES)


def open_table(path: Path) -> Table:
    """Read a table."""
    if not path.exists():
        raise DataNotFoundError(f"there is no file {path}")
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(".parquet"):
        columns, rows = read_parquet(path)
        table = Table(columns, rows, list(range(1, len(rows) + 1)))
    else:
        text, notes = _text(path)
        if name.endswith(".sdf"):
            table = _sdf(text)
        elif name.endswith(".smi"):
            table = _smi(text)
        else:
            table = _separated(text, "\t" if name.endswith((".tsv", ".tab")) else None)
        table.notes[:0] = notes
    if not table.rows and not table.problems:
        raise DataError(f"{path} has no rows; a table has a header and a molecule in each row")
    return table


def _text(path: Path) -> tuple[str, list[str]]:
    """Decode a text file; the notes tell if the encoding is a guess."""
    content = read_file(path, error=DataError, limit=memory_limit(), links=True)
    if content[:2] == b"\x1f\x8b":
        content = _unpacked(path, content)
    cells = sum(map(content.count, (b"\n", b"\r", b",", b";", b"\t", b"|")))
    check_size(4 * len(content) + CELL_BYTES * cells, f"{path}, as a table,", DataError)
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return content.decode("utf-16", errors="replace"), []
    try:
        return content.decode("utf-8-sig"), []
    except UnicodeDecodeError:
        text = content.decode("cp1252", errors="replace")
        return text, ["it is not in UTF-8; read as Windows-1252"]


def _unpacked(path: Path, content: bytes) -> bytes:
    """Decompress up to the memory limit."""
    limit, out = memory_limit(), bytearray()
    try:
        file = io.BufferedReader(GzipReader(io.BytesIO(content), str(path), DataError), 1 << 16)
        while block := file.read(1 << 20):
            out += block
            check_size(4 * len(out), f"{path}, unpacked,", DataError, limit)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} can't be read ({error})") from error
    return bytes(out)


def check_shape(rows: int, columns: int) -> None:
    """Raise if a table has too many columns or needs too much memory."""
    check_count(columns, "columns", "the table", DataError)
    check_count(rows, "rows", "the table", DataError)
    check_size(8 * rows * columns, f"a table of {rows} rows and {columns} columns", DataError)


# -- CSV and TSV ----------------------------------------------------------------------------------


def _separated(text: str, delimiter: str | None) -> Table:
    first = next((line for line in text.splitlines() if line.strip()), "")
    if delimiter is None:
        delimiter = max(_DELIMITERS, key=lambda mark: _count(first, mark))
    try:
        # Strict mode raises an error for unclosed quotes, which would hide the rows after them.
        records = list(_records(io.StringIO(text, newline=""), delimiter, strict=True))
        notes: list[str] = []
    except csv.Error:
        records, notes = _line_by_line(text, delimiter)
    records = [(line, cells) for line, cells in records if any(cells)]
    if not records:
        raise DataError("the table is empty; a header and a molecule in each row were needed")
    header = [name.strip() for name in records[0][1]]
    check_shape(len(records), len(header))
    columns = [name or f"column_{number}" for number, name in enumerate(header, start=1)]
    table = Table(columns, notes=notes, decimal_comma=delimiter != ",")
    for line, cells in records[1:]:
        _add(table, line, cells)
    return table


def _count(line: str, mark: str) -> int:
    """Number of occurrences outside quotes."""
    return re.sub(r'"[^"]*"', "", line).count(mark)


def _records(
    lines: Iterable[str], delimiter: str, *, strict: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Iterate over rows with their first lines."""
    with _any_length():
        reader = csv.reader(lines, delimiter=delimiter, strict=strict)
        begun = 1
        for cells in reader:
            yield begun, cells
            begun = reader.line_num + 1


def _line_by_line(text: str, delimiter: str) -> tuple[list[tuple[int, list[str]]], list[str]]:
    """Read a file with unbalanced quotes: every line is a row."""
    records = []
    for number, line in enumerate(io.StringIO(text, newline=None), start=1):
        for _, cells in _records([line], delimiter):
            records.append((number, cells))
    return records, ["its quotes are not balanced; every line is read as a row"]


@contextmanager
def _any_length() -> Iterator[None]:
    """Lift csv's field limit; overlong cells are rejected per row."""
    before = csv.field_size_limit(1 << 31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _add(table: Table, line: int, cells: list[str]) -> None:
    """Add a row: missing cells are empty, too many cells are a problem."""
    count = len(table.columns)
    if any(cells[count:]):
        reason = f"the row has {len(cells)} cells, the header has {count}"
        table.problems.append((line, reason, cells))
        return
    table.rows.append((cells + [""] * count)[:count])
    table.lines.append(line)


# -- SMILES files and SDF -------------------------------------------------------------------------


def _smi(text: str) -> Table:
    """Read columns separated by tabs or spaces; a first line with "smiles" is the header."""
    lines = [(n, line) for n, line in enumerate(text.splitlines(), start=1) if line.strip()]
    split = [(n, re.split(r"\t" if "\t" in line else r"\s+", line.strip())) for n, line in lines]
    if not split:
        raise DataError("the file is empty; a SMILES in each line was needed")
    width = max(len(cells) for _, cells in split)
    check_shape(len(split), width)
    if "smiles" in split[0][1][0].lower():
        columns, split = split[0][1], split[1:]
    else:
        more = [f"column_{number}" for number in range(3, width + 1)]
        columns = ["smiles", "name", *more][:width]
    table = Table(columns)
    for line, cells in split:
        _add(table, line, cells)
    return table


class SDFRecord(NamedTuple):
    """One molecule of an SDF file."""

    line: int  # first line in the file
    title: str
    block: str  # MOL block
    fields: dict[str, str]  # properties by name


def sdf_records(text: str) -> Iterator[SDFRecord]:
    """Split an SDF file into molecules."""
    lines: list[str] = []
    begun = 1
    for number, line in enumerate([*text.splitlines(), "$$$$"], start=1):
        if not line.startswith("$$$$"):
            lines.append(line)
            continue
        if any(part.strip() for part in lines):
            yield _record(begun, lines)
        lines, begun = [], number + 1


def _record(begun: int, lines: list[str]) -> SDFRecord:
    end = next((n for n, line in enumerate(lines) if line.startswith("M  END")), len(lines) - 1)
    fields: dict[str, list[str]] = {}
    name = None
    for line in lines[end + 1 :]:
        opened = line.find("<") if line.startswith(">") else -1
        closed = line.find(">", opened + 2) if opened > 0 else -1
        if closed > 0:
            name = line[opened + 1 : closed].strip()
            fields[name] = []
        elif name is not None and line.strip():
            fields[name].append(line)
        else:
            name = None
    texts = {name: "\n".join(values) for name, values in fields.items()}
    return SDFRecord(begun, lines[0].strip(), "\n".join(lines[: end + 1]) + "\n", texts)


def _sdf(text: str) -> Table:
    """One row per molecule: the SMILES (filled in later), the title and the properties."""
    records = list(sdf_records(text))
    names = list(dict.fromkeys(name for record in records for name in record.fields))
    titles = ["title"] if any(record.title for record in records) else []
    check_shape(len(records), 1 + len(titles) + len(names))
    table = Table(["smiles", *titles, *names], blocks=[record.block for record in records])
    for record in records:
        cells = [record.fields.get(name, "") for name in names]
        table.rows.append(["", *([record.title] if titles else []), *cells])
        table.lines.append(record.line)
    return table


# -- Parquet ---------------------------------------------------------------------------------------


def read_parquet(path: Path) -> tuple[list[str], list[list[str]]]:
    """Read a Parquet file in a process with limits."""
    if importlib.util.find_spec("polars") is None:
        raise MissingExtraError("polars", "parquet", "a Parquet file")
    read_file(path, error=DataError, limit=memory_limit(), links=True)
    rows: list[list[str]] = []
    size = 0
    with LimitedWorker.for_files() as worker:

        def call(function: str, payload: Any) -> Any:
            outcome = worker.run(Job(f"gsat.molecules.parquet.{function}", payload))
            if outcome.status == "done":
                return outcome.value
            reason = shown(str(outcome.value))
            if reason.startswith(str(path)):
                raise DataError(reason)
            raise DataError(f"{path} can't be read as Parquet: {reason}")

        table = call("describe", str(path))
        check_shape(table["rows"], len(table["columns"]))
        count = max(1, _BATCH // max(1, len(table["columns"])))
        for first in range(0, table["rows"], count):
            rows += call("read_rows", {"path": str(path), "first": first, "count": count})
            cells = rows[first:]
            size += sum(CELL_BYTES + len(cell) for row in cells for cell in row)
            check_size(size, f"{path}, as a table,", DataError)
    return table["columns"], rows
