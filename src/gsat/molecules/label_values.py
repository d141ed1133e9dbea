"""Labels from texts: numbers, class names and missing values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gsat.core.errors import DataError, shown

MOST_CLASSES: Final = 100
_MISSING: Final = frozenset(
    ("", "na", "n/a", "#n/a", "nan", "null", "none", "-", "--", "?", "nd", "n.d.", "missing")
)
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
# Whole numbers with at most this many different values are classes.
_FEW: Final = 10
# Names of negative classes, which come first, so that the other class is positive.
_NEGATIVE: Final = (
    "0", "no", "n", "false", "f", "negative", "neg", "inactive", "absent", "low", "safe",
    "insoluble", "impermeable", "nontoxic", "nonactive",
)  # fmt: skip


@dataclass(frozen=True)
class Labels:
    """The labels of a table and the task they imply."""

    values: NDArray[np.float64]  # numbers or class indices, [R, T]; NaN if missing
    classes: tuple[str, ...]  # names; empty for regression and for several labels
    kind: str  # "binary", "multiclass", "multilabel" or "regression"
    problems: dict[int, str]  # reasons why rows have no label


def is_missing(text: str) -> bool:
    """Whether a cell means a missing value, such as ``NA`` or ``-``."""
    return text.strip().lower() in _MISSING


def to_number(text: str, decimal_comma: bool = False) -> float | None:
    """Parse a finite number; ``None`` if the text is not one."""
    text = text.strip().replace("−", "-")
    if decimal_comma and text.count(",") == 1:
        text = text.replace(",", ".")
    if not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def read_labels(
    columns: Sequence[Sequence[str]],
    names: Sequence[str],
    task: str = "auto",
    decimal_comma: bool = False,
    classes: Sequence[str] = (),
) -> Labels:
    """Read the labels in one or several columns."""
    if len(columns) == 1 and task != "multilabel":
        return _one(columns[0], names[0], task, decimal_comma, classes)
    if task in ("binary", "multiclass"):
        raise DataError(f"a {task} task has one column of labels, not {len(columns)}")
    kinds = ["multilabel" if _is_binary(column) else "regression" for column in columns]
    kind = task if task != "auto" else kinds[0]
    if task == "auto" and len(set(kinds)) > 1:
        binary, other = names[kinds.index("multilabel")], names[kinds.index("regression")]
        raise DataError(
            f"several labels must all be binary or all be numbers: '{shown(binary, 60)}' is "
            f"binary, '{shown(other, 60)}' is not; choose some of them with label, or set task"
        )
    each = "regression" if kind == "regression" else "binary"
    read = [
        _zeros_and_ones(column)
        if kind == "multilabel" and _are_zeros_and_ones(column)
        else _one(column, name, each, decimal_comma, ())
        for column, name in zip(columns, names, strict=True)
    ]
    for name, labels in zip(names, read, strict=True):
        if kind == "multilabel" and len(labels.classes) > 2:
            raise DataError(f"several labels must be binary; '{shown(name, 60)}' has more values")
    values = np.concatenate([labels.values for labels in read], axis=1)
    problems = {
        row: next((each.problems[row] for each in read if row in each.problems), "no label")
        for row in np.flatnonzero(np.isnan(values).all(axis=1)).tolist()
    }
    return Labels(values, (), kind, problems)


def _one(
    cells: Sequence[str], name: str, task: str, decimal_comma: bool, classes: Sequence[str]
) -> Labels:
    """The labels of one column."""
    rows = [row for row, cell in enumerate(cells) if not is_missing(cell)]
    if not rows:
        raise DataError(f"the column '{shown(name, 60)}' has no labels: all its cells are missing")
    numbers = {row: to_number(cells[row], decimal_comma) for row in rows}
    problems = {row: "no label" for row, cell in enumerate(cells) if is_missing(cell)}
    are_numbers = sum(number is not None for number in numbers.values()) / len(rows)
    distinct = {number for number in numbers.values() if number is not None}
    if task == "auto" and not classes:
        whole = are_numbers == 1 and all(number == int(number) for number in distinct)
        few = whole and len(distinct) <= min(_FEW, max(2, len(rows) // 5))
        task = "regression" if are_numbers >= 0.8 and not few else "classes"
    values = np.full((len(cells), 1), np.nan)
    if task == "regression":
        if not distinct:
            raise DataError(f"the column '{shown(name, 60)}' has no numbers; set task or label")
        for row, number in numbers.items():
            if number is None:
                problems[row] = f"the label {cells[row].strip()[:40]!r} is not a number"
            else:
                values[row] = number
        return Labels(values, (), "regression", problems)
    # 1 and 1.0 are one class.
    words = {row: cells[row].strip() if n is None else f"{n:.15g}" for row, n in numbers.items()}
    order = [str(name) for name in classes] or in_order(set(words.values()))
    if not classes and len(order) > max(2, min(MOST_CLASSES, len(rows) // 2)):
        raise DataError(
            f"the column '{shown(name, 60)}' has {len(order)} different values in {len(rows)} "
            "rows, too many for classes; is it the label?"
        )
    for row, word in words.items():
        if word in order:
            values[row] = order.index(word)
        else:
            problems[row] = f"the class {word[:40]!r} is not one of {shown(', '.join(order), 60)}"
    if len(order) < 2:
        raise DataError(
            f"the column '{shown(name, 60)}' has only the class '{shown(order[0], 40)}'; training "
            "needs two"
        )
    return Labels(values, tuple(order), "binary" if len(order) == 2 else "multiclass", problems)


def in_order(words: Iterable[str]) -> list[str]:
    """Sort classes numerically or alphabetically; of two, the negative one comes first."""

    def place(word: str) -> tuple[bool, float, str]:
        number = to_number(word)
        return number is None, number or 0.0, word

    order = sorted(words, key=place)
    if len(order) == 2 and _is_negative(order[1], order[0]) and not _is_negative(*order):
        order.reverse()
    return order


def _is_negative(word: str, other: str) -> bool:
    """Whether a class is the negative one of two."""
    plain, opposite = (re.sub(r"[^a-z0-9]", "", text.lower()) for text in (word, other))
    return plain in _NEGATIVE or plain in (f"non{opposite}", f"in{opposite}", f"not{opposite}")


def _is_binary(cells: Sequence[str]) -> bool:
    values = {cell.strip() for cell in cells if not is_missing(cell)}
    words = any(to_number(cell) is None for cell in values)
    return _are_zeros_and_ones(cells) or (len(values) <= 2 and words)


def _are_zeros_and_ones(cells: Sequence[str]) -> bool:
    return {to_number(cell) for cell in cells if not is_missing(cell)} <= {0.0, 1.0}


def _zeros_and_ones(cells: Sequence[str]) -> Labels:
    """One of several binary labels, which may all be 0."""
    values = np.array([np.nan if is_missing(cell) else to_number(cell) for cell in cells])
    missing = dict.fromkeys(np.flatnonzero(np.isnan(values)).tolist(), "no label")
    return Labels(values[:, None].astype(np.float64), ("0", "1"), "binary", missing)
