"""Parquet files as tables of texts, read in a process of its own.

A damaged file can make polars ask for more memory than there is, which ends its process.
"""

from __future__ import annotations

import importlib.util
import io
import os
from pathlib import Path
from typing import Any, Final

from gsat.core.errors import DataError, MissingExtraError, shown
from gsat.core.files import read_file
from gsat.core.limits import check_size, memory_limit
from gsat.launch.jobs import Job
from gsat.launch.pool import WorkerPool

MOST_COLUMNS: Final = 10_000
CELL_BYTES: Final = 70  # memory of a short text in a list


def read_parquet(path: Path) -> tuple[list[str], list[list[str]]]:
    """Read a Parquet file."""
    if importlib.util.find_spec("polars") is None:
        raise MissingExtraError("polars", "parquet", "a Parquet file")
    read_file(path, error=DataError, limit=memory_limit(), links=True)
    name = f"{__name__}.{read_here.__name__}"
    with WorkerPool(1) as pool:
        done = pool.run({"read": Job(name, str(path))})
    if "read" in done.results:
        return done.results["read"]["columns"], done.results["read"]["rows"]
    reason = shown(done.failures.get("read", "its reader was stopped"))
    if reason.startswith(str(path)):
        raise DataError(reason)
    raise DataError(f"{path} can't be read as Parquet ({reason})")


def read_here(name: str) -> dict[str, Any]:
    """Read a Parquet file in this process, which may not survive it; see :func:`read_parquet`."""
    import polars

    path = Path(name)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # polars writes at length what is in the error
    content = read_file(path, error=DataError, limit=memory_limit(), links=True)
    try:
        lazy = polars.scan_parquet(io.BytesIO(content))
        columns = lazy.collect_schema().names()
        check_shape(int(lazy.select(polars.len()).collect().item()), len(columns))
        found = lazy.collect()
    except polars.exceptions.PanicException as error:  # what it did not expect; no Exception
        raise DataError(shown(str(error))) from None
    rows, size = [], 0
    for row in found.iter_rows():
        rows.append([_cell(value) for value in row])
        size += sum(CELL_BYTES + len(cell) for cell in rows[-1])
        check_size(size, f"{path}, as a table,", DataError)
    return {"columns": columns, "rows": rows}


def check_shape(rows: int, columns: int) -> None:
    """Refuse a table that would be far larger than its file, or has no end of columns."""
    if columns > MOST_COLUMNS:
        raise DataError(f"the table has {columns} columns; at most {MOST_COLUMNS} are read")
    check_size(8 * rows * columns, f"a table of {rows} rows and {columns} columns", DataError)


def _cell(value: Any) -> str:
    return "" if value is None or value != value else str(value)
