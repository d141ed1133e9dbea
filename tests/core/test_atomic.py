"""A file is replaced in one step or not at all, whoever is killed and however full the disk is."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gsat.core import writing


def failing_sync(handle: int) -> None:
    raise OSError(errno.EIO, "broken")


def write_in_blocks(path: Path, content: bytes) -> None:
    writing.write_blocks(path, [content[:2], memoryview(content)[2:]])


WRITERS = [writing.write_bytes, write_in_blocks]


@pytest.mark.parametrize("write", WRITERS)
def test_a_file_is_created_and_replaced(write: Any, tmp_path: Path) -> None:
    file = tmp_path / "file"
    for content in (b"old", b"new and longer", b""):
        write(file, content)
        assert file.read_bytes() == content
        assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("write", WRITERS)
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    write(file, b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing_sync)
        with pytest.raises(OSError, match="broken"):
            write(file, b"new")
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_an_error_between_blocks_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")

    def interrupted() -> Iterator[bytes]:
        yield b"half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        writing.write_blocks(file, interrupted())
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="names of open files: Linux")
def test_the_content_is_synced_before_the_name_and_the_name_after(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    replace = Path.replace

    def sync(handle: int) -> None:
        name = Path(f"/proc/self/fd/{handle}").readlink().name
        events.append("content" if name.endswith(".partial") else name)

    def rename(self: Path, target: Path) -> Path:
        events.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "replace", rename)
    write(tmp_path / "file", b"new")
    assert events == ["content", "rename", tmp_path.name]


def test_what_a_kill_leaves_behind_is_recognised_and_cleared(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path; from gsat.core.writing import *\n"
        "def blocks(): yield b'half'; os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_blocks(Path(sys.argv[1]), blocks())"
    )
    file = tmp_path / "below" / "file"
    file.parent.mkdir()
    file.write_text("old")
    killed = subprocess.run([sys.executable, "-c", script, str(file)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert file.read_text() == "old"
    (left,) = [path for path in file.parent.iterdir() if path != file]
    assert writing.is_partial(left)
    assert not writing.is_partial(file)
    # What earlier versions left is recognised, too; a download that can be resumed is kept.
    (tmp_path / ".LAST.12345.partial").write_text("")
    (tmp_path / ".tmpa1B2c3").write_text("")  # of safetensors
    (tmp_path / "data.bin.partial").write_text("")
    writing.clear_partial_files(tmp_path)
    files = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {"file", "data.bin.partial"}


def test_threads_that_write_one_file_do_not_mix(tmp_path: Path) -> None:
    file, start = tmp_path / "file", threading.Barrier(4)
    contents = [bytes([letter]) * 100_000 for letter in b"abcd"]

    def write(content: bytes) -> None:
        start.wait()
        for _ in range(5):
            writing.write_bytes(file, content)

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert file.read_bytes() in contents
    assert list(tmp_path.iterdir()) == [file]


def test_json_is_readable_and_strict(tmp_path: Path) -> None:
    file = tmp_path / "values.json"
    writing.write_json(file, {"name": "é", "values": [1, None]})
    text = '{\n  "name": "é",\n  "values": [\n    1,\n    null\n  ]\n}\n'
    assert file.read_bytes() == text.encode()
    with pytest.raises(ValueError, match="JSON compliant"):
        writing.write_json(file, {"loss": float("nan")})
    assert file.read_bytes() == text.encode()
