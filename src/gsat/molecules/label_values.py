"""Labels as texts: numbers, words and what is missing."""

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
# Whole numbers with at most so many different values are classes.
_FEW: Final = 10
# Words for "no": such a class comes first, so that the other is the positive one.
_NEGATIVE: Final = (
    "0", "no", "n", "false", "f", "negative", "neg", "inactive", "absent", "low", "safe",
    "insoluble", "impermeable", "nontoxic", "nonactive",
)  # fmt: skip


@dataclass(frozen=True)
class Labels:
    """The labels of a table.

    Attributes:
        values: Numbers or the numbers of classes, ``[R, T]``; NaN where one is missing.
        classes: Names of the classes; empty where numbers are predicted, or several labels.
        kind: The task they suggest: ``"binary"``, ``"multiclass"``, ``"multilabel"`` or
            ``"regression"``.
        problems: Why rows have no label, by row.
    """

    values: NDArray[np.float64]
    classes: tuple[str, ...]
    kind: str
    problems: dict[int, str]


def is_missing(text: str) -> bool:
    """Whether a cell stands for a missing value: empty, ``NA``, ``nan``, ``-`` and the like."""
    return text.strip().lower() in _MISSING


def to_number(text: str, decimal_comma: bool = False) -> float | None:
    """Read a number."""
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
    """Read the labels of a table."""
    if len(columns) == 1 and task != "multilabel":
        return _one(columns[0], names[0], task, decimal_comma, classes)
    if task in ("binary", "multiclass"):
        raise DataError(f"a {task} task has one column of labels, not {len(columns)}")
    kinds = ["multilabel" if _two_answers(column) else "regression" for column in columns]
    kind = task if task != "auto" else kinds[0]
    if task == "auto" and len(set(kinds)) > 1:
        answers = names[kinds.index("multilabel")], names[kinds.index("regression")]
        raise DataError(
            f"several labels are all yes or no, or all numbers: '{shown(answers[0], 60)}' is the "
            f"first and '{shown(answers[1], 60)}' is not; choose some of them with label, or say "
            "task"
        )
    each = "regression" if kind == "regression" else "binary"
    read = [
        _zeros_and_ones(column)
        if kind == "multilabel" and _are_zeros_and_ones(column)
        else _one(column, name, each, decimal_comma, ())
        for column, name in zip(columns, names, strict=True)
    ]
    if kind == "multilabel" and (more := [n for n, f in enumerate(read) if len(f.classes) > 2]):
        raise DataError(
            f"a label of several has two answers; '{shown(names[more[0]], 60)}' has more"
        )
    values = np.concatenate([found.values for found in read], axis=1)
    problems = {
        row: next((found.problems[row] for found in read if row in found.problems), "no label")
        for row in np.flatnonzero(np.isnan(values).all(axis=1)).tolist()
    }
    return Labels(values, (), kind, problems)


def _one(
    cells: Sequence[str], name: str, task: str, decimal_comma: bool, classes: Sequence[str]
) -> Labels:
    """The labels of one column."""
    known = [row for row, cell in enumerate(cells) if not is_missing(cell)]
    if not known:
        raise DataError(f"the column '{shown(name, 60)}' has no labels: all its cells are missing")
    numbers = {row: to_number(cells[row], decimal_comma) for row in known}
    problems = {row: "no label" for row, cell in enumerate(cells) if is_missing(cell)}
    are_numbers = sum(number is not None for number in numbers.values()) / len(known)
    distinct = {number for number in numbers.values() if number is not None}
    if task == "auto" and not classes:
        whole = are_numbers == 1 and all(number == int(number) for number in distinct)
        few = whole and len(distinct) <= min(_FEW, max(2, len(known) // 5))
        task = "regression" if are_numbers >= 0.8 and not few else "classes"
    values = np.full((len(cells), 1), np.nan)
    if task == "regression":
        if not distinct:
            raise DataError(
                f"the column '{shown(name, 60)}' holds no numbers; say another task or column"
            )
        for row, number in numbers.items():
            if number is None:
                problems[row] = f"the label {cells[row].strip()[:40]!r} is not a number"
            else:
                values[row] = number
        return Labels(values, (), "regression", problems)
    # 1 and 1.0 are one class.
    words = {row: cells[row].strip() if n is None else f"{n:.15g}" for row, n in numbers.items()}
    found = [str(name) for name in classes] or in_order(set(words.values()))
    if not classes and len(found) > max(2, min(MOST_CLASSES, len(known) // 2)):
        raise DataError(
            f"the column '{shown(name, 60)}' has {len(found)} different values in {len(known)} "
            "rows, too many for classes; is it the label?"
        )
    for row, word in words.items():
        if word in found:
            values[row] = found.index(word)
        else:
            known_as = shown(", ".join(found), 60)
            problems[row] = f"the class {word[:40]!r} is not one of {known_as}"
    if len(found) < 2:
        raise DataError(
            f"the column '{shown(name, 60)}' has one class only, '{shown(found[0], 40)}'; two are "
            "needed to learn from"
        )
    return Labels(values, tuple(found), "binary" if len(found) == 2 else "multiclass", problems)


def in_order(words: Iterable[str]) -> list[str]:
    """Order classes: numbers by size, words by the alphabet, and of two the negative one first."""

    def place(word: str) -> tuple[bool, float, str]:
        number = to_number(word)
        return number is None, number or 0.0, word

    found = sorted(words, key=place)
    if len(found) == 2 and _is_negative(found[1], found[0]) and not _is_negative(*found):
        found.reverse()
    return found


def _is_negative(word: str, other: str) -> bool:
    """Whether a class is the "no" of two."""
    plain = re.sub(r"[^a-z0-9]", "", word.lower())
    against = re.sub(r"[^a-z0-9]", "", other.lower())
    return plain in _NEGATIVE or plain in (f"non{against}", f"in{against}", f"not{against}")


def _two_answers(cells: Sequence[str]) -> bool:
    known = {cell.strip() for cell in cells if not is_missing(cell)}
    words = any(to_number(cell) is None for cell in known)
    return _are_zeros_and_ones(cells) or (len(known) <= 2 and words)


def _are_zeros_and_ones(cells: Sequence[str]) -> bool:
    return {to_number(cell) for cell in cells if not is_missing(cell)} <= {0.0, 1.0}


def _zeros_and_ones(cells: Sequence[str]) -> Labels:
    """One of several labels, of which all may be 0."""
    values = np.array([np.nan if is_missing(cell) else to_number(cell) for cell in cells])
    missing = dict.fromkeys(np.flatnonzero(np.isnan(values)).tolist(), "no label")
    return Labels(values[:, None].astype(np.float64), ("0", "1"), "binary", missing)
