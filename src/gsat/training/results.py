"""Recorded runs: one JSON line per finished run in ``results/runs.jsonl``, and their summary."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gsat.errors import RunError
from gsat.training.files import append_line

# What identifies a run: the same four values mean the same numbers, from one process. A run shared
# among several has ``processes``, too, and stands apart.
IDENTITY = ("recipe_hash", "data_hash", "seed", "results_version")


def read_records(path: str | Path) -> list[dict[str, Any]]:
    """All recorded runs; an absent file holds none."""
    file = Path(path)
    if not file.is_file():
        return []
    records = []
    for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), start=1):
        if not line:
            continue
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            raise RunError(
                f"{path}, line {number}, is not JSON; mend or remove that line"
            ) from None
    return records


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
