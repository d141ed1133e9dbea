"""Where runs are kept, and how finished ones are found again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gsat.core.errors import DiskError
from gsat.study.bench_folders import BenchFolders
from gsat.study.plan import RunRequest, make_plan
from gsat.study.records import Records
from gsat.study.runner import run_plan
from study_harness import GSAT


@pytest.mark.usefixtures("trained")
def test_finished_runs_are_of_the_graphs_asked_for(folders: BenchFolders) -> None:
    run_plan(make_plan([RunRequest(GSAT, 2)], folders), folders)
    (folder,) = folders.runs.glob("houses-*")
    now = folders.finished(GSAT)
    graphs = Records.read(folders.record).of(GSAT).data_hash
    stale = folder.with_name(folder.name.replace(graphs, "0" * 16))
    shutil.copytree(folder, stale)
    shutil.copytree(stale / "seed-0", stale / "seed-2")
    shutil.copytree(folder / "seed-0", folder / "seed-0.bak")
    os.utime(stale, (1, 1))
    assert folders.finished(GSAT) == folders.finished(GSAT, graphs) == now
    assert sorted(folders.finished(GSAT, "0" * 16)) == [0, 1, 2]
    assert folders.finished(GSAT, "f" * 16) == {}
    # The graphs of the last runs count, even without seed 0.
    shutil.rmtree(stale / "seed-0")
    assert sorted(folders.finished(GSAT)) == [1, 2]


def test_a_folder_that_can_not_be_written_is_refused_before_training(tmp_path: Path) -> None:
    BenchFolders(tmp_path / "runs", tmp_path / "results" / "runs.jsonl").check()
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == []
    (tmp_path / "folder").mkdir()
    for folders, message in (
        (BenchFolders(Path("/proc/none"), tmp_path / "runs.jsonl"), "/proc/none: "),
        (BenchFolders(tmp_path, Path("/proc/none/runs.jsonl")), "/proc/none"),
        (BenchFolders(tmp_path, tmp_path / "folder"), "folder: Is a directory"),
    ):
        with pytest.raises(DiskError, match=f"can't write to .*{message}"):
            folders.check()
