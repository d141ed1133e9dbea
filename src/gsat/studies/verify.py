"""Recorded runs trained again: do they give the same numbers?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gsat.errors import GSATError
from gsat.studies.records import counts
from gsat.studies.runner import parse_only
from gsat.training.recipe import from_tables
from gsat.training.results import read_runs
from gsat.training.run_directory import environment
from gsat.training.train import load_data, train


@dataclass(frozen=True)
class Verified:
    """A recorded run beside the same run now.

    Attributes:
        differing: metrics that are not the same to the last bit, as (recorded, now).
        elsewhere: what was different about the machine, as (recorded, now).
    """

    differing: dict[str, tuple[Any, Any]]
    elsewhere: dict[str, tuple[Any, Any]]


def verify(record: Mapping[str, Any], out: str | Path, *, progress: bool = False) -> Verified:
    """Train a recorded run again and compare every metric."""
    recipe = from_tables(dict(record["recipe"]))
    if recipe.hash() != record["recipe_hash"]:
        raise GSATError("the recorded recipe has other defaults now; its numbers can't be expected")
    data = load_data(recipe)
    if data.hash != record["data_hash"]:
        raise GSATError(
            f"{recipe.data.name} is not the data of the recorded run: hash {data.hash}, "
            f"recorded {record['data_hash']}"
        )
    threads = torch.get_num_threads()
    # Sums differ in the last bit between thread counts.
    torch.set_num_threads(record["threads"])
    try:
        result = train(recipe, out, progress=progress).result
        now = environment()
    finally:
        torch.set_num_threads(threads)
    differing = {
        name: (before, after)
        for name, before, after in _pairs(record, result, ("best_epoch", "valid", "test"))
        if before != after
    }
    elsewhere = {
        name: (before, after)
        for name, before, after in _pairs(record, now, tuple(key for key in now if key in record))
        if before != after
    }
    return Verified(differing, elsewhere)


def verifiable(
    path: str | Path, only: str = "", budget: float | None = None
) -> list[dict[str, Any]]:
    """Recorded runs that can be trained again: of today's numerics, as ``--only`` says, and in no
    more than ``budget`` seconds."""
    filters = parse_only(only)
    return [
        record
        for record in filter(counts, read_runs(path))
        if "failed" not in record
        and record["backbone"] != "wrapped"
        and all(record[key] in values for key, values in filters.items())
        and (budget is None or record["seconds"] <= budget)
    ]


def _pairs(
    before: Mapping[str, Any], after: Mapping[str, Any], names: Sequence[str]
) -> Iterable[tuple[str, Any, Any]]:
    """Single values of two results side by side, by dotted name."""
    for name in names:
        one, other = before.get(name), after.get(name)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            for key in {**one, **other}:
                yield f"{name}.{key}", one.get(key), other.get(key)
        else:
            yield name, one, other
