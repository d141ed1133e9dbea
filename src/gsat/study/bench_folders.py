"""Where the runs of a benchmark and their records are kept."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from gsat.core.writing import check_appendable, check_writable
from gsat.study.study import Experiment
from gsat.training.run_directory import RunDirectory, run_name


@dataclass(frozen=True)
class BenchFolders:
    """The folders and files of a benchmark.

    Attributes:
        runs: Folder of the run directories.
        record: JSON-lines file of results; the other files are beside it.
    """

    runs: Path
    record: Path

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
        """Find the finished runs of an experiment."""
        name = run_name(experiment.recipe(0), data_hash or "*")
        folders = sorted(self.runs.glob(str(Path(name).parent)), key=lambda f: f.stat().st_mtime)
        return {
            int(found[1]): run
            for run in sorted(folders[-1].iterdir() if folders else [])
            if (found := re.fullmatch(r"seed-(\d+)", run.name))
            and RunDirectory(run).result_path.is_file()
        }

    def check(self) -> None:
        """Raise a :class:`DiskError` unless runs and records can be written."""
        check_writable(self.runs)
        for file in (self.record, self.curves):
            check_appendable(file)
