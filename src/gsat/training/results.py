"""Recorded runs: one JSON line per finished run in ``results/runs.jsonl``, and their summary."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gsat.core.errors import RunError
from gsat.core.files import read_file
from gsat.core.limits import memory_limit
from gsat.core.parsing import ParseError, parse_json
from gsat.core.writing import append_line
from gsat.models import BACKBONES

# What identifies a run: the same four values mean the same numbers, if one process trains it. A run
# of several processes has ``processes`` as well, and is another run.
IDENTITY = ("recipe_hash", "data_hash", "seed", "results_version")


def results_version(backbone: str) -> int | None:
    """Return the version of the numbers that a backbone's training gives."""
    kind = BACKBONES.get(backbone, None)
    return None if kind is None else kind.results_version


def read_records(path: str | Path, needs: Iterable[str] = IDENTITY) -> list[dict[str, Any]]:
    """Read a file of results."""
    file = Path(path)
    if not file.exists():
        return []
    lines = read_file(file, error=RunError, limit=memory_limit() // 4, links=True).split(b"\n")
    records = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = parse_json(line, any_text=True)
        except ParseError as error:
            raise RunError(
                f"{path}, line {number}, is not JSON ({error}); correct or remove it"
            ) from None
        missing = [key for key in needs if not isinstance(record, dict) or key not in record]
        if missing:
            raise RunError(f"{path}, line {number}, has no '{missing[0]}'; correct or remove it")
        records.append(record)
    return records


def read_runs(path: str | Path) -> list[dict[str, Any]]:
    """Read recorded runs, finished and failed ones."""
    return read_records(path, (*IDENTITY, "dataset", "method", "backbone", "recipe"))


def record_once(path: str | Path, record: dict[str, Any]) -> bool:
    """Append a run to a file of results unless the file has it already.

    A failed run is recorded once as failed, and once more when it succeeds later.
    """
    identity = _identity(record)

    def known() -> bool:
        return any(_identity(other) == identity for other in read_records(path))

    return append_line(Path(path), record, unless=known)


def summarise(values: Iterable[float | None]) -> tuple[float, float] | None:
    """Mean and population standard deviation, as in the paper's tables."""
    all_values = list(values)
    if not all_values or any(value is None for value in all_values):
        return None
    numbers = [float(value) for value in all_values if value is not None]
    mean = sum(numbers) / len(numbers)
    return mean, math.sqrt(sum((n - mean) ** 2 for n in numbers) / len(numbers))


def _identity(record: dict[str, Any]) -> tuple[Any, ...]:
    return *(record.get(key) for key in (*IDENTITY, "processes")), "failed" in record
