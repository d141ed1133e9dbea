"""Recorded runs: one JSON line per finished run in ``results/runs.jsonl``, and their summary."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gsat.errors import RunError
from gsat.io.files import append_line

# What identifies a run: the same four values mean the same numbers, from one process. A run shared
# among several has ``processes``, too, and stands apart.
IDENTITY = ("recipe_hash", "data_hash", "seed", "results_version")


def read_records(path: str | Path, needs: Iterable[str] = IDENTITY) -> list[dict[str, Any]]:
    """The lines of a file of results; an absent file holds none.

    Args:
        needs: keys that every line must have.
    """
    file = Path(path)
    if not file.exists():
        return []
    try:
        lines = file.read_bytes().split(b"\n")
    except OSError as error:
        raise RunError(f"{path} can't be read: {error.strerror}; a file was needed") from None
    records = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError:
            raise RunError(f"{path}, line {number}, is not JSON; mend or remove it") from None
        missing = [key for key in needs if not isinstance(record, dict) or key not in record]
        if missing:
            raise RunError(f"{path}, line {number}, has no '{missing[0]}'; mend or remove it")
        records.append(record)
    return records


def read_runs(path: str | Path) -> list[dict[str, Any]]:
    """Recorded runs, finished and failed; an absent file holds none."""
    return read_records(path, (*IDENTITY, "dataset", "method", "backbone", "recipe"))


def record_once(path: str | Path, record: dict[str, Any]) -> bool:
    """Append a run unless it is there already; whether it was appended.

    A run that failed is a line of its own: it is recorded once, and its later success once more.
    """
    identity = _identity(record)

    def known() -> bool:
        return any(_identity(other) == identity for other in read_records(path))

    return append_line(Path(path), record, unless=known)


def summarise(values: Iterable[float | None]) -> tuple[float, float] | None:
    """Mean and population standard deviation, as the paper reports; None if any is undefined."""
    known = list(values)
    if not known or any(value is None for value in known):
        return None
    numbers = [float(value) for value in known if value is not None]
    mean = sum(numbers) / len(numbers)
    return mean, math.sqrt(sum((n - mean) ** 2 for n in numbers) / len(numbers))


def _identity(record: dict[str, Any]) -> tuple[Any, ...]:
    return *(record.get(key) for key in (*IDENTITY, "processes")), "failed" in record
