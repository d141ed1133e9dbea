"""Files are replaced atomically and lines appended whole, despite kills and full disks."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gsat.core import system, writing
from gsat.core.errors import DiskError


def failing_sync(handle: int) -> None:
    raise OSError(errno.EIO, "broken")


def write(path: Path, content: bytes) -> None:
    writing.write_blocks(path, [content[:2], memoryview(content)[2:]])


def test_a_file_is_created_and_replaced(tmp_path: Path) -> None:
    file = tmp_path / "file"
    for content in (b"old", b"new and longer", b""):
        write(file, content)
        assert file.read_bytes() == content
        assert list(tmp_path.iterdir()) == [file]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="names of open files: Linux")
def test_the_content_is_synced_before_the_rename_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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


def test_a_killed_process_leaves_a_temporary_file_that_is_cleared(tmp_path: Path) -> None:
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


def test_concurrent_writers_of_a_file_do_not_mix_their_content(tmp_path: Path) -> None:
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


def test_writing_never_follows_a_link(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / "link").symlink_to(precious)
    for opened in (system.create, system.open_to_append, system.open_to_lock):
        with pytest.raises(OSError):
            opened(tmp_path / "link")
    writing.write_bytes(tmp_path / "link", b"new")  # replaces the link itself
    assert precious.read_text() == "mine"
    assert (tmp_path / "link").read_bytes() == b"new"
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder-link").symlink_to("folder")
    system.remove_tree(tmp_path / "folder-link")
    assert (tmp_path / "folder").exists()


def test_temporary_names_are_unpredictable() -> None:
    names = {writing.partial_name(Path("x")).name for _ in range(100)}
    assert len(names) == 100
    assert all(len(name) >= 32 for name in names)


def test_only_old_temporary_files_are_removed_where_others_may_be_writing(tmp_path: Path) -> None:
    kept = [tmp_path / name for name in ("data.partial", "x.safetensors", ".tmp", ".tmpabcdefg")]
    young, old = tmp_path / ".tmpAbC123", tmp_path / ".tmpQQQQQQ"
    ours = tmp_path / ".graphs.safetensors.0123.partial"
    for file in (*kept, young, old, ours):
        file.write_bytes(b"x")
    for file in (*kept, old, ours):
        os.utime(file, (0, 0))
    writing.clear_abandoned_files(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {young.name, *(k.name for k in kept)}


# -- appending ------------------------------------------------------------------------------------


def test_a_line_is_appended_unless_the_condition_holds(tmp_path: Path) -> None:
    file = tmp_path / "new" / "lines.jsonl"
    assert writing.append_line(file, {"a": "é\u2028"}, unless=lambda: False)
    assert not writing.append_line(file, {"b": 2}, unless=lambda: True)
    assert writing.append_line(file, {"c": None}, unless=lambda: False)
    assert file.read_bytes() == '{"a": "é\u2028"}\n{"c": null}\n'.encode()
    assert [path.name for path in file.parent.iterdir()] == ["lines.jsonl"]
    with pytest.raises(ValueError, match="JSON compliant"):
        writing.append_line(file, {"loss": float("nan")}, unless=lambda: False)


def test_concurrent_processes_append_every_line_once(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from gsat.core.writing import append_line\n"
        "file = Path(sys.argv[1])\n"
        "for n in range(25):\n"
        "    line = {'n': n, 'text': 'x' * 5000}\n"
        "    append_line(file, line, unless=lambda: f'\"n\": {n},' in file.read_text())"
    )
    file = tmp_path / "lines.jsonl"
    command = [sys.executable, "-c", script, str(file)]
    processes = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["n"] for line in lines] == list(range(25))


def test_a_full_disk_leaves_no_partial_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "lines.jsonl"
    writing.append_line(file, {"a": 1}, unless=lambda: False)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(DiskError, match=r"lines.jsonl: No space left") as error:
            writing.append_line(file, {"a": 2}, unless=lambda: False)
    assert error.value.full
    assert file.read_text() == '{"a": 1}\n'


def test_appendability_is_checked_without_creating_the_file(tmp_path: Path) -> None:
    file = tmp_path / "new" / "lines.jsonl"
    writing.check_appendable(file)
    assert list(file.parent.iterdir()) == []
    cases: list[Any] = [(file.parent, "Is a directory"), (file / "below", "File exists")]
    file.write_text("")
    for path, reason in cases:
        with pytest.raises(DiskError, match=reason):
            writing.check_appendable(path)


# -- disk errors ----------------------------------------------------------------------------------


def test_disk_errors_are_one_line_and_tell_whether_the_disk_is_full(tmp_path: Path) -> None:
    for code, full in ((errno.ENOSPC, True), (errno.EROFS, True), (errno.EACCES, False)):
        with pytest.raises(DiskError, match=str(tmp_path)) as caught, writing.disk_errors(tmp_path):
            raise OSError(code, os.strerror(code))
        assert os.strerror(code) in str(caught.value)
        assert "\n" not in str(caught.value)
        assert caught.value.full == full
    with pytest.raises(ValueError, match="other"), writing.disk_errors(tmp_path):
        raise ValueError("other")


def test_the_check_of_a_folder_creates_it_and_leaves_it_empty(tmp_path: Path) -> None:
    writing.check_writable(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskError, match=str(tmp_path)):
        writing.check_writable(tmp_path / "file" / "below")
