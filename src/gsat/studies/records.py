"""Recorded runs, found by what was run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gsat.studies.study import PREDICTION, Experiment
from gsat.training.results import read_records
from gsat.training.train import RESULTS_VERSION

Record = Mapping[str, Any]
_Lines = tuple[dict[int, Record], dict[int, Record]]  # finished and failed, by seed


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

    Where the graphs of a data set have changed between runs, those on which most seeds were tried
    count, of equals the later.
    """

    def __init__(self, lines: Iterable[Record]) -> None:
        found: dict[str, dict[str, _Lines]] = {}
        for line in filter(counts, lines):
            graphs = found.setdefault(line["recipe_hash"], {})
            # Put at the end again: the later of two equals is the one that was added to last.
            done, failed = graphs[line["data_hash"]] = graphs.pop(line["data_hash"], ({}, {}))
            (failed if "failed" in line else done)[line["seed"]] = line
        self._runs = {recipe: _most_seeds(graphs) for recipe, graphs in found.items()}

    @classmethod
    def read(cls, path: str | Path) -> Records:
        """The index of a file such as ``results/runs.jsonl``; an absent one holds nothing."""
        return cls(read_records(path))

    def of(self, experiment: Experiment) -> Runs:
        """The runs of an experiment."""
        return self._runs.get(experiment.hash, Runs())

    def items(self) -> Iterator[tuple[str, Runs]]:
        """All runs by recipe hash."""
        yield from self._runs.items()


def _most_seeds(graphs: Mapping[str, _Lines]) -> Runs:
    best = Runs()
    for data_hash, (done, failed) in graphs.items():
        left = {seed: line for seed, line in failed.items() if seed not in done}
        runs = Runs(done, left, data_hash)
        if len(runs.seeds) >= len(best.seeds):
            best = runs
    return best


def _own_metric(record: Record, metric: str) -> str:
    if metric != PREDICTION:
        return metric
    return next(name for name in ("roc_auc", "accuracy", "r2") if name in record["test"])
