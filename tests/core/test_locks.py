"""Locks exclude other processes and end with their owners."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import pytest

from gsat.core import locks
from gsat.core.errors import BusyError, RunError
from gsat.core.locks import is_locked, locked, open_locked

# As earlier versions lock a run directory.
BY_FLOCK = "file = open(sys.argv[1], 'w'); fcntl.flock(file, fcntl.LOCK_EX)"
BY_LOCKED = "lock = locked(Path(sys.argv[1])); lock.__enter__()"


@contextmanager
def held_elsewhere(path: Path, how: str = BY_LOCKED) -> Iterator[subprocess.Popen[str]]:
    """Another process holds the lock until its standard input ends."""
    script = (
        "import fcntl, sys; from pathlib import Path; from gsat.core.locks import locked\n"
        f"{how}; print('held', flush=True); sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script, str(path)], text=True, **pipes) as other:  # type: ignore[call-overload]
        assert other.stdout.readline() == "held\n"
        yield other
        other.stdin.close()


@pytest.mark.parametrize("how", [BY_LOCKED, BY_FLOCK])
def test_a_lock_of_another_process_is_noticed_and_ends_when_the_process_is_killed(
    how: str, tmp_path: Path
) -> None:
    file = tmp_path / ".lock"
    with held_elsewhere(file, how) as other:
        assert is_locked(file)
        with pytest.raises(BusyError, match=str(file)), locked(file, wait=0):
            pass
        with pytest.raises(BusyError, match=r"^mine$"), locked(file, wait=0, busy="mine"):
            pass
        other.kill()
        other.wait()
        assert not is_locked(file)
        with locked(file, wait=0):
            pass


def test_waiting_ends_when_the_lock_is_free_or_the_time_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, now = tmp_path / ".lock", [0.0]
    with held_elsewhere(file) as other:

        def sleep(seconds: float) -> None:
            now[0] += seconds
            if now[0] > 9.0:  # of the second call: the other process releases the lock meanwhile
                other.stdin.close()  # type: ignore[union-attr]
                other.wait()

        monkeypatch.setattr(locks, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
        with pytest.raises(BusyError), locked(file, wait=3.0):
            pass
        assert now[0] == pytest.approx(3.0, abs=0.1)
        with locked(file, wait=60.0):
            assert is_locked(file)
        assert 9.0 < now[0] < 9.2
        with locked(file):
            pass


def test_one_process_does_not_hold_a_lock_twice(tmp_path: Path) -> None:
    file = tmp_path / ".lock"
    with locked(file), pytest.raises(BusyError), locked(file, wait=0):
        pass
    with locked(file, wait=0):
        pass


def test_a_lock_file_is_neither_emptied_nor_removed(tmp_path: Path) -> None:
    file = tmp_path / ".lock"
    assert not is_locked(file)
    assert not file.exists()
    file.write_text("content")
    with locked(file):
        assert is_locked(file)
    assert file.read_text() == "content"
    (tmp_path / "other").hardlink_to(file)
    with locked(tmp_path / "other"):
        pass
    assert file.read_text() == "content"


@pytest.mark.parametrize("wait", [None, 0.0])
@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_lock_files_that_are_links_or_special_are_refused(
    kind: str, wait: float | None, tmp_path: Path
) -> None:
    target, file = tmp_path / "precious", tmp_path / ".lock"
    target.write_text("mine")
    if kind == "link":
        file.symlink_to(target)
    else:
        os.mkfifo(file)
    with pytest.raises(RunError, match=str(file)), locked(file, wait):
        pass
    assert target.read_text() == "mine"


def test_a_file_is_locked_while_it_is_appended_to(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("one\n")
    with open_locked(file) as handle:
        assert handle.tell() == 4
        assert is_locked(file)
        handle.write(b"two\n")
    assert file.read_text() == "one\ntwo\n"
    assert not is_locked(file)


def test_a_file_that_is_replaced_while_waiting_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, new = tmp_path / "lines", tmp_path / "new"
    file.write_text("old\n")
    new.write_text("new\n")
    lock, calls = fcntl.flock, []

    def slow(handle: IO[bytes], operation: int) -> None:
        if not calls:
            os.replace(new, file)  # noqa: PTH105
        calls.append(handle)
        lock(handle, operation)

    monkeypatch.setattr(locks.fcntl, "flock", slow)
    with open_locked(file) as handle:
        handle.write(b"more\n")
    assert file.read_text() == "new\nmore\n"
    assert len(calls) == 2


def test_other_errors_of_a_lock_file_are_raised(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), locked(tmp_path / "missing" / ".lock"):
        pass
    assert not is_locked(tmp_path / "missing" / ".lock")
