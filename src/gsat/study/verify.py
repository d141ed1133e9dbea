"""Train recorded runs again and check that they give the same numbers."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from gsat.core.errors import GSATError
from gsat.study.plan import parse_filter
from gsat.study.records import Record, is_current
from gsat.training.recipe import from_tables, load_data
from gsat.training.results import read_runs
from gsat.training.run_directory import environment
from gsat.training.train import train

Differences = dict[str, tuple[Any, Any]]  # (recorded, now) by name


def verify(
    record: Record, out: str | Path, *, progress: bool = False
) -> tuple[Differences, Differences]:
    """Train a recorded run again; return differing metrics, and what differs of the machine."""
    recipe = from_tables(dict(record["recipe"]))
    if recipe.hash() != record["recipe_hash"]:
        raise GSATError(
            "the recorded recipe has other defaults now, so its numbers can't be reproduced"
        )
    data = load_data(recipe)
    if data.hash != record["data_hash"]:
        raise GSATError(
            f"{recipe.data.name} is not the data of the recorded run: hash {data.hash}, "
            f"recorded {record['data_hash']}"
        )
    threads = torch.get_num_threads()
    # Sums differ in the last bit between numbers of threads.
    torch.set_num_threads(record["threads"])
    try:
        result = train(recipe, out, progress=progress).result
        now = environment()
    finally:
        torch.set_num_threads(threads)
    metrics = _differences(record, result, ("best_epoch", "valid", "test"))
    return metrics, _differences(record, now, [key for key in now if key in record])


def verifiable(
    path: str | Path,
    only: str = "",
    budget: float | None = None,
    hashes: Collection[str] | None = None,
) -> list[Record]:
    """Find the recorded runs that can be trained again: all, or those of certain recipes."""
    filters = parse_filter(only)
    return [
        record
        for record in filter(is_current, read_runs(path))
        if "failed" not in record
        and record["backbone"] != "wrapped"
        and (hashes is None or record["recipe_hash"] in hashes)
        and all(record.get(key) in values for key, values in filters.items())
        and (budget is None or record["seconds"] <= budget)
    ]


def sample_runs(records: Sequence[Record], count: int, *, seed: int | None = None) -> list[Record]:
    """Draw recorded runs at random, of as many different kinds as possible."""
    shuffled = random.Random(seed).sample(records, len(records))
    turns: dict[tuple[str, str], int] = {}
    ranked = []
    for place, record in enumerate(shuffled):
        kind = record["method"], record["backbone"]
        turns[kind] = turns.get(kind, -1) + 1
        ranked.append((turns[kind], place))
    return [shuffled[place] for _, place in sorted(ranked)[:count]]


def _differences(
    before: Mapping[str, Any], after: Mapping[str, Any], names: Iterable[str]
) -> Differences:
    """Single values that differ, by dotted name."""
    pairs: Differences = {}
    for name in names:
        one, other = before.get(name), after.get(name)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            # A value that was not recorded can't differ.
            pairs |= {f"{name}.{key}": (one[key], other.get(key)) for key in one}
        else:
            pairs[name] = one, other
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
