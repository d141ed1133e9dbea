"""Parquet files, read by polars in batches of rows.

This module is imported in a worker with limits only: polars may crash on damaged files, and a small
file can hold gigabytes.
"""

from __future__ import annotations

import io
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

os.environ["POLARS_MAX_THREADS"] = "1"  # read when polars is imported

import polars

from gsat.core.errors import DataError, shown
from gsat.core.files import read_file
from gsat.core.limits import memory_limit


def describe(name: str) -> dict[str, Any]:
    """The names of the columns, and the number of rows."""
    try:
        lazy = _opened(name)
        columns = lazy.collect_schema().names()
        return {"columns": columns, "rows": int(lazy.select(polars.len()).collect().item())}
    except polars.exceptions.PanicException as error:  # not an Exception
        raise DataError(shown(str(error))) from None


def read_rows(job: dict[str, Any]) -> list[list[str]]:
    """The cells of some rows as texts."""
    try:
        frame = _opened(job["path"]).slice(job["first"], job["count"]).collect()
        return [[_cell(value) for value in row] for row in frame.iter_rows()]
    except polars.exceptions.PanicException as error:
        raise DataError(shown(str(error))) from None


@lru_cache(maxsize=1)
def _opened(name: str) -> Any:
    content = read_file(Path(name), error=DataError, limit=memory_limit(), links=True)
    return polars.scan_parquet(io.BytesIO(content))


def _cell(value: Any) -> str:
    return "" if value is None or value != value else str(value)
