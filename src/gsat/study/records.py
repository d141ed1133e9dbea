"""Recorded runs of studies: where they are kept, and an index by recipe and seed."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gsat.core.writing import check_appendable, check_writable
from gsat.study.study import PREDICTION, Experiment
from gsat.training.results import IDENTITY, read_runs, record_once, results_version
from gsat.training.run_directory import RunDirectory, run_name

Record = Mapping[str, Any]  # a line of a JSON-lines file
_DIGITS = 5  # significant digits of recorded curves


@dataclass(frozen=True)
class BenchFolders:
    """The folders and files of studies."""

    runs: Path  # folder of run directories
    record: Path  # JSON-lines file of results; the other files are in the same folder

    @property
    def pretrained_cache(self) -> Path:
        """Folder of trained backbones, which several methods start from."""
        return self.runs / "pretrained"

    @property
    def curves(self) -> Path:
        """JSON-lines file of curves over epochs."""
        return self.record.with_name("curves.jsonl")

    @property
    def pictures(self) -> Path:
        """Folder of pictures."""
        return self.record.with_name("figures")

    @property
    def stability(self) -> Path:
        """JSON-lines file of rank correlations between seeds."""
        return self.record.with_name("stability.jsonl")

    def finished(self, experiment: Experiment, data_hash: str = "") -> dict[int, Path]:
        """Find the finished runs of an experiment by seed; by default, on the latest graphs."""
        name = run_name(experiment.recipe(0), data_hash or "*")
        folders = sorted(self.runs.glob(str(Path(name).parent)), key=lambda f: f.stat().st_mtime)
        return {
            int(match[1]): run
            for run in sorted(folders[-1].iterdir() if folders else [])
            if (match := re.fullmatch(r"seed-(\d+)", run.name))
            and RunDirectory(run).result_path.is_file()
        }

    def check(self) -> None:
        """Raise a :class:`DiskError` unless runs and records can be written."""
        check_writable(self.runs)
        for file in (self.record, self.curves):
            check_appendable(file)


def is_current(record: Record) -> bool:
    """Whether a record has its backbone's current version and was trained by one process."""
    current = results_version(record.get("backbone", ""))
    return record["results_version"] == current and record.get("processes", 1) == 1


@dataclass(frozen=True)
class RecordedRuns:
    """The recorded runs of one recipe on the same graphs."""

    done: Mapping[int, Record] = field(default_factory=dict)  # by seed
    failed: Mapping[int, Record] = field(default_factory=dict)  # their ``failed`` is the reason
    data_hash: str = ""

    @property
    def seeds(self) -> list[int]:
        """Every seed that was run, finished or failed."""
        return sorted({*self.done, *self.failed})

    @property
    def has_gap(self) -> bool:
        """Whether the seeds are not 0 to n − 1: an unfavourable one may be missing."""
        return self.seeds != list(range(len(self.seeds)))

    def values(self, metric: str) -> dict[int, float | None]:
        """A metric of the test data by seed."""
        return {
            seed: self.done[seed]["test"].get(_metric_name(self.done[seed], metric))
            for seed in sorted(self.done)
        }


class Records:
    """An index of the recorded runs that are current, each trained by one process.

    Where the graphs of a data set changed between runs, only runs on the graphs of the last record
    count, whatever their recipe.
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

    def only(self, hashes: Collection[str]) -> Records:
        """The runs of certain recipes."""
        chosen = Records(())
        chosen._runs = {recipe: runs for recipe, runs in self._runs.items() if recipe in hashes}
        return chosen

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


def read_curves(run: str | Path) -> dict[str, Any]:
    """Read the curves over epochs of a finished run, which figures are drawn from."""
    directory = RunDirectory.open(run)
    result = directory.result
    phases: dict[str, dict[str, list[float | None]]] = {}
    for line in directory.read_log():
        phase = phases.setdefault(line["phase"], {"loss": [], "train_auc": [], "valid_auc": []})
        train = line["train"]
        # GSAT logs the prediction loss and, with the information loss added, the total.
        phase["loss"].append(_rounded(train.get("total", train.get("loss"))))
        phase["train_auc"].append(_rounded(train.get("explanation_auc")))
        phase["valid_auc"].append(_rounded(line["valid"].get("explanation_auc")))
    defined = {
        name: {key: values for key, values in phase.items() if any(v is not None for v in values)}
        for name, phase in phases.items()
    }
    return {
        **{key: result[key] for key in ("dataset", "method", "backbone", *IDENTITY)},
        "phases": defined,
    }


def record_curves(path: str | Path, run: str | Path) -> bool:
    """Append the curves of a run to a file, unless they are there already."""
    return record_once(path, read_curves(run))


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{_DIGITS}g}")
