"""Checks of values in JSON lines: numbers, labels and identifiers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gsat.core.errors import DataError, escape_controls, shown

Array = NDArray[Any]

LONGEST_NAME: Final = 1000  # characters of a class
_NUMBERS: Final = {int, float, bool}


def class_name(value: str, name: str) -> str:
    """Return a text that can be the name of a class, or raise."""
    if len(value) > LONGEST_NAME or escape_controls(value) != value:
        raise DataError(f"'{name}' is a text that can't be the name of a class: {shown(value, 40)}")
    return value


def identifier(value: Any, name: str) -> str | None:
    """Return a text or a number as a text, None as it is; anything else is wrong."""
    if value is None or (isinstance(value, str) and escape_controls(value) == value):
        return value
    if isinstance(value, (int, float)):
        return shown(value)
    raise DataError(f"'{name}' must be a text without control characters, not {shown(value, 40)}")


def numbers(value: Any, name: str, dimensions: int) -> Array:
    """Make an array of nested lists of numbers; a list of numbers may stand for one column."""
    # NumPy would make room for the longest text in every place.
    if not _all_numbers(value, dimensions):
        raise DataError(f"'{name}' must contain numbers only")
    try:
        rows = np.asarray(value)
    except OverflowError:
        raise DataError(f"'{name}' contains a number that is too large") from None
    except ValueError:
        raise DataError(f"'{name}' contains lists of different lengths") from None
    if rows.dtype.kind not in "iufb":
        raise DataError(f"'{name}' must contain numbers only")
    if rows.dtype == np.uint64:
        raise DataError(f"'{name}' contains a number that is too large: {int(rows.max())}")
    if dimensions == 2 and rows.ndim == 1 and name not in ("edges", "edge_index"):
        rows = rows[:, None]
    if rows.size and rows.ndim != dimensions:
        raise DataError(f"'{name}' has shape {list(rows.shape)}, not {dimensions} dimensions")
    return rows


def _all_numbers(value: Any, dimensions: int) -> bool:
    """Whether lists, nested at most ``dimensions`` deep, hold only numbers."""
    if not isinstance(value, list):
        return type(value) in _NUMBERS
    kinds = set(map(type, value))
    if list not in kinds:
        return kinds <= _NUMBERS
    return dimensions > 0 and all(_all_numbers(part, dimensions - 1) for part in value)


def check_rows(rows: Array, name: str, count: int, per: str) -> None:
    """Raise unless an array has ``count`` rows, one per node or edge."""
    if rows.ndim == 0 or len(rows) != count:
        raise DataError(f"'{name}' has shape {list(rows.shape)}, but there are {count} {per}s")
