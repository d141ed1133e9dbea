"""Recorded runs, found by what was run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gsat.studies.study import PREDICTION, Experiment
from gsat.training.results import read_runs
from gsat.training.train import RESULTS_VERSION

Record = Mapping[str, Any]


def counts(line: Record) -> bool:
    """Whether a recorded line is of today's numerics and was trained by one process."""
    return line["results_version"] == RESULTS_VERSION and line.get("processes", 1) == 1


@dataclass(frozen=True)
class Runs:
    """What was recorded of one recipe on the same graphs.

    Attributes:
        done: finished runs by seed. failed: by seed, lines whose ``failed`` says why none is.
        data_hash: of the graphs; empty where nothing was run.
    """

    done: Mapping[int, Record] = field(default_factory=dict)
    failed: Mapping[int, Record] = field(default_factory=dict)
    data_hash: str = ""

    @property
    def seeds(self) -> list[int]:
        """Every seed that was tried."""
        return sorted({*self.done, *self.failed})

    @property
    def has_gap(self) -> bool:
        """Whether the seeds tried are other than 0 to n − 1: a bad one could have vanished."""
        return self.seeds != list(range(len(self.seeds)))

    def values(self, metric: str) -> dict[int, float | None]:
        """A metric of the test data by seed, as fractions; None where it is undefined.

        ``prediction`` stands for the task's own metric.
        """
        return {
            seed: self.done[seed]["test"].get(_own_metric(self.done[seed], metric))
            for seed in sorted(self.done)
        }


class Records:
    """An index of recorded runs of today's numerics, each trained by one process.

    Where the graphs of a data set have changed between runs, those of the last line count: older
    ones are stale, whatever was run on them.
    """

    def __init__(self, lines: Iterable[Record]) -> None:
        known = [line for line in lines if counts(line)]
        latest = {graphs_key(line["recipe"]): line["data_hash"] for line in known}
        done: dict[str, dict[int, Record]] = {}
        failed: dict[str, dict[int, Record]] = {}
        hashes = {}
        for line in known:
            if line["data_hash"] == latest[graphs_key(line["recipe"])]:
                recipe = line["recipe_hash"]
                hashes[recipe] = line["data_hash"]
                ended = failed if "failed" in line else done
                ended.setdefault(recipe, {})[line["seed"]] = line
        for recipe, lost in failed.items():
            for seed in done.get(recipe, ()):
                lost.pop(seed, None)
        self._runs = {
            recipe: Runs(done.get(recipe, {}), failed.get(recipe, {}), data_hash)
            for recipe, data_hash in hashes.items()
        }

    @classmethod
    def read(cls, path: str | Path) -> Records:
        """The index of a file such as ``results/runs.jsonl``; an absent one holds nothing."""
        return cls(read_runs(path))

    def of(self, experiment: Experiment) -> Runs:
        """The runs of an experiment."""
        return self._runs.get(experiment.hash, Runs())

    def knows(self, line: Record) -> bool:
        """Whether a line of another file, of curves say, is of runs that count: the same recipe,
        graphs and numerics."""
        runs = self._runs.get(line["recipe_hash"], Runs())
        return counts(line) and line["data_hash"] == runs.data_hash

    def items(self) -> Iterator[tuple[str, Runs]]:
        """All runs by recipe hash."""
        yield from self._runs.items()


def graphs_key(tables: Mapping[str, Any]) -> str:
    """What decides the graphs, of a recipe's tables: the data and its options, not the split."""
    options = {k: v for k, v in tables["data"].items() if k != "split_seed"}
    return json.dumps(options, sort_keys=True)


def _own_metric(record: Record, metric: str) -> str:
    if metric != PREDICTION:
        return metric
    return next(name for name in ("roc_auc", "accuracy", "r2") if name in record["test"])
