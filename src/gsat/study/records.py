"""An index of recorded runs by recipe and seed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gsat.study.study import PREDICTION, Experiment
from gsat.training.results import read_runs, results_version

Record = Mapping[str, Any]  # a line of a JSON-lines file


def is_current(record: Record) -> bool:
    """Whether a record has its backbone's current version and was trained by one process."""
    current = results_version(record.get("backbone", ""))
    return record["results_version"] == current and record.get("processes", 1) == 1


@dataclass(frozen=True)
class RecordedRuns:
    """The recorded runs of one recipe on the same graphs.

    Attributes:
        done: Records of finished runs, by seed.
        failed: Records of failed runs, by seed; their ``failed`` holds the reason.
        data_hash: Hash of the graphs; empty without any record.
    """

    done: Mapping[int, Record] = field(default_factory=dict)
    failed: Mapping[int, Record] = field(default_factory=dict)
    data_hash: str = ""

    @property
    def seeds(self) -> list[int]:
        """Every seed that was run, finished or failed."""
        return sorted({*self.done, *self.failed})

    @property
    def has_gap(self) -> bool:
        """Whether the seeds are other than 0 to n − 1: an unfavourable one may be missing."""
        return self.seeds != list(range(len(self.seeds)))

    def values(self, metric: str) -> dict[int, float | None]:
        """A metric of the test data by seed."""
        return {
            seed: self.done[seed]["test"].get(_metric_name(self.done[seed], metric))
            for seed in sorted(self.done)
        }


class Records:
    """An index of the recorded runs that are current, each trained by one process.

    Where the graphs of a data set changed between runs, those of the last record count: all runs
    on older graphs are left out, whatever their recipe.
    """

    def __init__(self, lines: Iterable[Record]) -> None:
        current = [line for line in lines if is_current(line)]
        latest = {graphs_key(line["recipe"]): line["data_hash"] for line in current}
        done: dict[str, dict[int, Record]] = {}
        failed: dict[str, dict[int, Record]] = {}
        hashes = {}
        for line in current:
            if line["data_hash"] == latest[graphs_key(line["recipe"])]:
                recipe = line["recipe_hash"]
                hashes[recipe] = line["data_hash"]
                ended = failed if "failed" in line else done
                ended.setdefault(recipe, {})[line["seed"]] = line
        for recipe, failures in failed.items():
            for seed in done.get(recipe, ()):
                failures.pop(seed, None)
        self._runs = {
            recipe: RecordedRuns(done.get(recipe, {}), failed.get(recipe, {}), data_hash)
            for recipe, data_hash in hashes.items()
        }

    @classmethod
    def read(cls, path: str | Path) -> Records:
        """Read a file such as ``results/runs.jsonl``; a missing file holds no runs."""
        return cls(read_runs(path))

    def of(self, experiment: Experiment) -> RecordedRuns:
        """The runs of an experiment."""
        return self._runs.get(experiment.hash, RecordedRuns())

    def matches(self, record: Record) -> bool:
        """Whether a record of another file, such as one of curves, belongs to indexed runs."""
        runs = self._runs.get(record["recipe_hash"], RecordedRuns())
        return is_current(record) and record["data_hash"] == runs.data_hash

    def items(self) -> Iterator[tuple[str, RecordedRuns]]:
        """Iterate over all runs by recipe hash."""
        yield from self._runs.items()


def graphs_key(tables: Mapping[str, Any]) -> str:
    """A key for the graphs of a recipe: the data set and its options, without the split."""
    options = {k: v for k, v in tables["data"].items() if k != "split_seed"}
    return json.dumps(options, sort_keys=True)


def _metric_name(record: Record, metric: str) -> str:
    if metric != PREDICTION:
        return metric
    return next(name for name in ("roc_auc", "accuracy", "r2") if name in record["test"])
