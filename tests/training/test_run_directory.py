"""A run directory is never shared, never overwritten, never half-written; its model loads back."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

import gsat
from gsat.core.errors import BusyError, CheckpointError, RunError, RunExistsError
from gsat.training import checkpoint
from gsat.training.run_directory import RunDirectory
from training_harness import differing, flip_byte, left_over, one_line, outcome, small_recipe


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> gsat.Run:
    return gsat.train(small_recipe(), tmp_path_factory.mktemp("directory") / "run")


# -- where a run may not go -----------------------------------------------------------------------


def refused(out: Path) -> str:
    with pytest.raises(RunError) as caught:
        gsat.train(small_recipe(), out)
    return one_line(caught.value)


def test_a_folder_that_holds_a_run_is_refused(finished: gsat.Run, tmp_path: Path) -> None:
    assert finished.path
    before = outcome(finished.path)
    said = refused(finished.path)
    assert "already holds a run (it is finished); choose another folder" in said
    assert differing(outcome(finished.path), before) == []
    RunDirectory.create(tmp_path / "unfinished", small_recipe())
    said = refused(tmp_path / "unfinished")
    assert f"resume it with: gsat resume {tmp_path / 'unfinished'}" in said


def test_a_file_or_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    for out in (file, tmp_path):
        assert "exists and is not an empty folder; choose another folder" in refused(out)
    assert file.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [file]


def test_only_one_of_two_processes_creates_a_run(tmp_path: Path) -> None:
    """The other does not clear away what the first is writing."""
    recipe, start = small_recipe(), threading.Barrier(4)
    ends: list[str] = []

    def make() -> None:
        start.wait()
        try:
            RunDirectory.create(tmp_path / "run", recipe)
            ends.append("made")
        except (RunExistsError, BusyError) as error:
            ends.append(type(error).__name__)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ends.count("made") == 1
    assert set(ends) <= {"made", "RunExistsError", "BusyError"}
    assert RunDirectory.open(tmp_path / "run").recipe == recipe


def test_an_empty_folder_is_taken_and_parents_are_made(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "empty", tmp_path / "a" / "b" / "c"):
        run = RunDirectory.create(out, small_recipe())
        assert run.is_run()
        assert run.recipe == small_recipe()


def test_a_folder_in_use_is_refused(run_path: Path) -> None:
    RunDirectory.create(run_path, small_recipe())
    hold = (
        "import fcntl, sys; file = open(sys.argv[1], 'w'); "
        "fcntl.flock(file, fcntl.LOCK_EX); print('held', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(run_path / ".lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout
        other.stdout.readline()
        with pytest.raises(RunError, match="another process is training in"):
            gsat.resume(run_path)
        other.communicate("\n")
    # The lock goes with the process that held it.
    gsat.resume(run_path)
    assert (run_path / "result.json").exists()


def test_the_folder_is_locked_until_the_result_is_there(
    run_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals: list[str] = []
    write_result = RunDirectory.write_result

    def while_writing(run: RunDirectory, result: dict[str, Any]) -> None:
        with pytest.raises(RunError) as caught:
            gsat.resume(run_path)
        refusals.append(str(caught.value))
        write_result(run, result)

    monkeypatch.setattr(RunDirectory, "write_result", while_writing)
    gsat.train(small_recipe(epochs=1), run_path)
    assert len(refusals) == 1
    assert "another process" in refusals[0]


# -- a full disk ----------------------------------------------------------------------------------


@contextmanager
def full_disk(name: str) -> Iterator[None]:
    """Nothing can be written to files with this in their path."""
    open_path, open_descriptor = Path.open, os.open

    def refuse(path: Any) -> None:
        if name in str(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    def by_path(self: Path, mode: str = "r", *args: Any, **how: Any) -> Any:
        if "r" not in mode:
            refuse(self)
        return open_path(self, mode, *args, **how)

    def by_descriptor(path: Any, flags: int, *args: Any, **how: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            refuse(path)
        return open_descriptor(path, flags, *args, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", by_path)
        patch.setattr(os, "open", by_descriptor)
        yield


@pytest.mark.parametrize(
    "name", ["metrics.jsonl", "best/", "epoch-13/", "LAST", "timing.json", "result.json"]
)
def test_a_full_disk_is_an_error_and_the_run_can_be_resumed(
    name: str, run_path: Path, uninterrupted: dict[str, bytes]
) -> None:
    with full_disk(name), pytest.raises(RunError) as caught:
        gsat.train(small_recipe(), run_path, checkpoint_seconds=0)
    said = one_line(caught.value)
    assert said.startswith(f"can't write to {run_path}: No space left on device; make room")
    assert left_over(run_path) == []
    gsat.resume(run_path)
    assert differing(outcome(run_path), uninterrupted) == []


@pytest.mark.parametrize("name", [".lock", "recipe.toml", "environment.json"])
def test_a_full_disk_at_the_start_leaves_the_folder_free(name: str, run_path: Path) -> None:
    with full_disk(name), pytest.raises(RunError, match="No space left on device"):
        gsat.train(small_recipe(epochs=1), run_path)
    gsat.train(small_recipe(epochs=1), run_path)


@pytest.mark.parametrize("name", ["metrics.jsonl", "best/", "LAST"])
def test_a_full_disk_while_resuming_is_an_error(
    name: str, run_path: Path, uninterrupted: dict[str, bytes]
) -> None:
    with full_disk("result.json"), pytest.raises(RunError):
        gsat.train(small_recipe(), run_path)
    (run_path / "ckpt" / "LAST").write_text("epoch-99\n")  # so that it has to be written
    with full_disk(name), pytest.raises(RunError, match="No space left on device"):
        gsat.resume(run_path)
    assert left_over(run_path) == []
    gsat.resume(run_path)
    assert differing(outcome(run_path), uninterrupted) == []


# -- files ----------------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="names of open files: Linux")
def test_files_of_a_checkpoint_are_on_disk_before_it_is_named(
    run_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of the calls: every file is synced, then LAST is replaced, then it is synced."""
    events: list[str] = []
    replace = Path.replace

    def sync(handle: int) -> None:
        events.append("sync " + Path(f"/proc/self/fd/{handle}").readlink().name)

    def rename(self: Path, target: Path) -> Path:
        events.append(f"name {target.name}")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "replace", rename)
    gsat.train(small_recipe(epochs=1), run_path, checkpoint_seconds=0)
    events = ["sync .partial" if e.endswith(".partial") else e for e in events]
    named = events.index("name LAST")
    before = events[:named]
    for name in ("state.safetensors", "state.json"):
        at = before.index(f"name {name}")
        assert before[at - 1] == "sync .partial"
        assert before[at + 1] == "sync epoch-1"
    assert "sync metrics.jsonl" in before
    assert before[-2:] == ["sync ckpt", "sync .partial"]
    assert events[named + 1] == "sync ckpt"
    result = events.index("name result.json")
    assert result > named
    assert events[result - 1] == "sync .partial"


def test_nothing_in_a_run_is_pickled(finished: gsat.Run) -> None:
    assert finished.path
    files = [file for file in finished.path.rglob("*") if file.is_file()]
    assert {file.suffix for file in files} == {".toml", ".json", ".jsonl", ".safetensors", ""}
    for file in files:
        content = file.read_bytes()
        assert not zipfile.is_zipfile(file), file  # what torch.save writes
        assert not content.startswith(b"\x80"), file  # what pickle writes
        if file.suffix == ".safetensors":
            length = int.from_bytes(content[:8], "little")
            assert json.loads(content[8 : 8 + length])
        else:
            content.decode()


def test_checkpoints_keep_tensors_and_plain_values_exactly(tmp_path: Path) -> None:
    tensors = {
        "a/whole": torch.tensor([2**53 + 1, -5]),
        "a/real": torch.tensor([0.1, float("inf"), -0.0]),
        "b/scalar": torch.tensor(3.5, dtype=torch.float64),
        "b/view": torch.arange(12.0).reshape(3, 4).T[1:],
        "b/none": torch.zeros(0, 3),
    }
    values = {"best": None, "x": 0.1 + 0.2, "deep": {"é": [1, float("inf")]}}
    checkpoint.write(tmp_path, checkpoint.State(7, tensors, None, values))
    state, problems = checkpoint.read(tmp_path)
    assert problems == []
    assert (state.epoch, state.values, state.best) == (7, values, None)
    assert state.tensors.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert state.tensors[name].dtype == tensor.dtype
        assert state.tensors[name].shape == tensor.shape
        assert state.tensors[name].contiguous().numpy().tobytes() == (
            tensor.contiguous().numpy().tobytes()
        )


# -- loading --------------------------------------------------------------------------------------


@pytest.fixture
def damaged(finished: gsat.Run, run_path: Path) -> Callable[[str], Path]:
    """``damaged(pattern)``: a copy of the best model, and the file of it to damage."""
    assert finished.path
    shutil.copytree(finished.path, run_path)

    def find(pattern: str) -> Path:
        (file,) = (run_path / "best").glob(pattern)
        return file

    return find


@pytest.mark.parametrize("pattern", ["model-*.safetensors", "model.json"])
@pytest.mark.parametrize("where", [0.0, 0.5, 0.99])
def test_one_flipped_bit_of_the_best_model_is_noticed(
    pattern: str, where: float, damaged: Callable[[str], Path], run_path: Path
) -> None:
    flip_byte(damaged(pattern), where)
    with pytest.raises(CheckpointError) as caught:
        gsat.load(run_path)
    one_line(caught.value)
    with pytest.raises(CheckpointError):
        gsat.resume(run_path)


@pytest.mark.parametrize("content", [b"", b"[1]", b"{}", b"null", b'{"file": 3}', b"\xff"])
def test_a_description_that_is_something_else_is_noticed(
    content: bytes, damaged: Callable[[str], Path], run_path: Path
) -> None:
    damaged("model.json").write_bytes(content)
    with pytest.raises(CheckpointError, match="can't be read"):
        gsat.load(run_path)


def test_a_method_of_a_later_version_is_an_error(run_path: Path) -> None:
    model = gsat.train(small_recipe(epochs=1), run_path).model
    config = {"method": "of-tomorrow", "model": model.config}
    RunDirectory(run_path).write_best(model.state_dict(), config, 0)
    with pytest.raises(RunError, match="the method 'of-tomorrow', which is unknown here"):
        gsat.load(run_path)


def test_a_run_without_a_model_is_an_error(run_path: Path) -> None:
    run = RunDirectory.create(run_path, small_recipe())
    with pytest.raises(RunError, match="has no model yet; resume it with: gsat resume"):
        gsat.load(run_path)
    with pytest.raises(RunError, match="is not finished; resume it with: gsat resume"):
        assert run.result
    with pytest.raises(RunError, match="is not a run"):
        gsat.load(run_path / "ckpt")


def test_an_unavailable_device_is_an_error(run_path: Path) -> None:
    for device in ("nonsense", "cuda:99"):
        with pytest.raises(gsat.GSATError, match=f"the device '{device}' is unavailable"):
            gsat.train(small_recipe(epochs=1), run_path, device=device)
        assert not run_path.exists()
