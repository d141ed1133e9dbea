"""Tables of molecules as they come: CSV, TSV, SMILES files, SDF, Parquet; plain or gzipped.

Nothing is interpreted here. Every row keeps its text and the line it began at; a row that does not
fit the header is noted with its reason.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from gsat.core.errors import DataError, DataNotFoundError
from gsat.core.files import read_file
from gsat.core.limits import check_size, memory_limit
from gsat.molecules.parquet import CELL_BYTES, check_shape, read_parquet

TEXT_SUFFIXES: Final = (".csv", ".tsv", ".tab", ".smi", ".sdf")
SUFFIXES: Final = (*TEXT_SUFFIXES, *(f"{s}.gz" for s in TEXT_SUFFIXES), ".parquet")
_DELIMITERS: Final = (",", ";", "\t", "|")


@dataclass
class Table:
    """A table of texts.

    Attributes:
        columns: Names of the columns.
        rows: The cells of each row, as many as there are columns.
        lines: The line of the file at which each row begins; in a Parquet file, its number from 1.
        blocks: The MOL block of each row, of an SDF file; its SMILES are in the first column once
            they have been read. (default: none)
        problems: Line, reason and cells of the rows that do not fit the header.
        notes: What was odd about the file.
        decimal_comma: Whether a number may be written with a comma. (default: ``False``)
    """

    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    blocks: list[str] | None = None
    problems: list[tuple[int, str, list[str]]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    decimal_comma: bool = False

    def column(self, number: int) -> list[str]:
        """The cells of a column."""
        return [row[number] for row in self.rows]


def is_table(name: str) -> bool:
    """Whether a path has the name of a table of molecules."""
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
    """The text of a file, and a note if its encoding had to be guessed."""
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
    """What a gzipped file holds, as far as it may."""
    limit, out = memory_limit(), bytearray()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            while block := file.read(1 << 20):
                out += block
                check_size(4 * len(out), f"{path}, unpacked,", DataError, limit)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} can't be read ({error})") from error
    return bytes(out)


# -- CSV and TSV ----------------------------------------------------------------------------------


def _separated(text: str, delimiter: str | None) -> Table:
    first = next((line for line in text.splitlines() if line.strip()), "")
    if delimiter is None:
        delimiter = max(_DELIMITERS, key=lambda mark: _count(first, mark))
    try:
        # Strict: a quote that is never closed would swallow the rows after it.
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
    """How often a mark occurs outside quotes."""
    return re.sub(r'"[^"]*"', "", line).count(mark)


def _records(
    lines: Iterable[str], delimiter: str, *, strict: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """The rows of a file, each with the line at which it begins."""
    with _any_length():
        reader = csv.reader(lines, delimiter=delimiter, strict=strict)
        begun = 1
        for cells in reader:
            yield begun, cells
            begun = reader.line_num + 1


def _line_by_line(text: str, delimiter: str) -> tuple[list[tuple[int, list[str]]], list[str]]:
    """The rows of a file with broken quotes: one per line, so that none swallows the next."""
    records = []
    for number, line in enumerate(io.StringIO(text, newline=None), start=1):
        for _, cells in _records([line], delimiter):
            records.append((number, cells))
    return records, ["its quotes are not balanced; every line is read as a row"]


@contextmanager
def _any_length() -> Iterator[None]:
    """Let cells of any length through: a long one is refused by itself, not with its file."""
    before = csv.field_size_limit(1 << 31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _add(table: Table, line: int, cells: list[str]) -> None:
    """Add a row; one with too many cells is a problem, missing ones are empty."""
    count = len(table.columns)
    if any(cells[count:]):
        reason = f"the row has {len(cells)} cells, the header has {count}"
        table.problems.append((line, reason, cells))
        return
    table.rows.append((cells + [""] * count)[:count])
    table.lines.append(line)


# -- SMILES files and SDF -------------------------------------------------------------------------


def _smi(text: str) -> Table:
    """SMILES, a name, and more, separated by tabs or spaces; a header only if it says SMILES."""
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
    """One molecule of an SDF file.

    Attributes:
        line: The line at which it begins.
        title: Its first line.
        block: Its MOL block.
        fields: Its properties by name.
    """

    line: int
    title: str
    block: str
    fields: dict[str, str]


def sdf_records(text: str) -> Iterator[SDFRecord]:
    """Read the molecules of an SDF file, as texts."""
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
    """One row per record: the SMILES (read later), the title and the properties."""
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
