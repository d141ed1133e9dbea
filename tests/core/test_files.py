"""Untrusted files are read without harm, and paths and checksums."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from pathlib import Path

import pytest

from gsat.core import files
from gsat.core.errors import DataError, GSATError, RunError
from gsat.core.files import (
    bare_name,
    check_no_links,
    checksum,
    exists,
    file_sha256,
    full_path,
    is_regular,
    open_file,
    read_file,
    read_json,
    read_lines,
    read_toml,
    sha256,
)
from gsat.core.limits import check_size, in_words, memory_limit
from gsat.core.parsing import FileModel
from gsat.core.registry import load_file
from gsat.core.tensors import map_tensors
from gsat.datasets.registry import full_name, is_path

LONG = "a" * 3000


def special(path: Path, kind: str) -> Path:
    """Create something other than a regular file."""
    if kind == "link":
        (path.parent / "target").write_text("{}")
        path.symlink_to("target")
    elif kind == "link to folder":
        path.symlink_to(path.parent)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(os.fspath(path))
    return path


@pytest.mark.parametrize("kind", ["link", "device", "fifo", "folder", "socket"])
def test_only_regular_files_are_read(kind: str, tmp_path: Path) -> None:
    path = special(tmp_path / "x", kind)
    reasons = {"link": "symbolic link", "device": "symbolic link", "socket": ""}
    reason = reasons.get(kind, "not a regular file")
    for read in (
        lambda: open_file(path, error=DataError),
        lambda: read_file(path, error=DataError),
        lambda: read_json(path, FileModel, error=DataError),
        lambda: read_toml(path, error=DataError),
        lambda: map_tensors(path, error=DataError),
    ):
        with pytest.raises(DataError, match=f"{path}.*{reason}") as caught:
            read()
        assert "\n" not in str(caught.value)
    assert not is_regular(path)
    if kind in ("device", "fifo", "folder"):
        with pytest.raises(DataError):
            open_file(path, error=DataError, links=True)
    elif kind == "link":
        assert read_file(path, error=DataError, links=True) == b"{}"


def test_the_size_of_a_file_is_limited(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with path.open("wb") as handle:
        handle.truncate(1 << 40)
    with pytest.raises(DataError, match="16 MiB"):
        read_file(path, error=DataError)
    path.write_bytes(b"12345")
    assert read_file(path, error=DataError, limit=5) == b"12345"
    with pytest.raises(DataError, match="4 bytes"):
        read_file(path, error=DataError, limit=4)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc")
def test_an_error_of_the_disk_names_the_file() -> None:
    with pytest.raises(DataError, match="/proc/self/mem"):
        read_file(Path("/proc/self/mem"), error=DataError)  # its first page can't be read


class Numbered(FileModel):
    number: int


def test_the_content_of_a_file_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_text('{"number": 3}')
    assert is_regular(path)
    assert read_json(path, Numbered, error=DataError) == {"number": 3}
    path.write_text('{"number": 3, "loss": Infinity}')
    assert read_json(path, Numbered, error=DataError, infinite=True)["number"] == 3
    with pytest.raises(DataError, match=f"{path}.*inf"):
        read_json(path, Numbered, error=DataError)
    path.write_text('{"number": "x"}')
    with pytest.raises(DataError, match=f"{path}.*'number'"):
        read_json(path, Numbered, error=DataError)
    with pytest.raises(DataError, match=str(path)):
        read_toml(path, error=DataError)
    path.write_text(f'{{"number": 3, "more": [{"[]," * 99}[]]}}')
    read_json(path, Numbered, error=DataError)
    monkeypatch.setenv("GSAT_MEMORY_LIMIT", "4K")  # the file itself has 325 bytes
    with pytest.raises(DataError, match="GSAT_MEMORY_LIMIT"):
        read_json(path, Numbered, error=DataError)


def test_lines_are_read_in_order_and_wrong_ones_numbered(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert read_lines(path, Numbered) == []
    path.write_text('{"number": 3}\n{"number": 1}\n')
    assert read_lines(path, Numbered) == [{"number": 3}, {"number": 1}]
    path.write_text('{"number": 3}\n{"number": null}\n')
    with pytest.raises(GSATError, match=f"{path}.* line 2: 'number'"):
        read_lines(path, Numbered)


def test_folders_that_can_not_be_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_no_links(tmp_path / "none")
    with pytest.raises(RunError, match=LONG):
        check_no_links(tmp_path / LONG)
    monkeypatch.setattr(files, "MOST_ENTRIES", 3)
    for name in ("run", "run/a", "run/b"):
        (tmp_path / name).mkdir()
    (tmp_path / "run" / "b" / "x").write_text("")
    check_no_links(tmp_path / "run")
    (tmp_path / "run" / "b" / "y").write_text("")
    with pytest.raises(RunError, match="3 files"):
        check_no_links(tmp_path / "run")


@pytest.mark.parametrize("kind", ["link", "link to folder", "device", "fifo", "socket"])
def test_links_and_special_files_in_a_run_are_refused(kind: str, tmp_path: Path) -> None:
    (tmp_path / "run" / "deep").mkdir(parents=True)
    (tmp_path / "run" / "file").write_text("")
    (tmp_path / "link-to-run").symlink_to("run")
    check_no_links(tmp_path / "link-to-run")
    special(tmp_path / "run" / "deep" / "x", kind)
    with pytest.raises(RunError, match=r"deep/x is"):
        check_no_links(tmp_path / "link-to-run")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "/dev/zero", "a/b", "a\\b", ".hidden", "a\0", "x" * 256, "a b"]
)
def test_bare_names_contain_no_path(name: str) -> None:
    assert not bare_name(name)
    assert bare_name("model-0123.safetensors")
    assert bare_name("x" * 255)


def test_the_memory_limit_can_be_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    assert memory_limit() == 512 << 20
    with pytest.raises(DataError, match=r"1 GiB .*512 MiB .*GSAT_MEMORY_LIMIT"):
        check_size(1 << 30, "it", DataError)
    monkeypatch.setenv("GSAT_MEMORY_LIMIT", "2g")
    check_size(1 << 30, "it", DataError)
    for wrong in ("much", "-1", "1.5G", "9" * 30):
        monkeypatch.setenv("GSAT_MEMORY_LIMIT", wrong)
        with pytest.raises(GSATError, match=wrong):
            memory_limit()
    assert in_words(3) == "3 bytes"


def test_paths_are_absolute_and_begin_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert full_path("~/x.jsonl") == full_path("x.jsonl") == tmp_path / "x.jsonl"
    assert full_path("~no-such-user/x") == tmp_path / "~no-such-user" / "x"


def test_names_that_are_too_long_do_not_exist(tmp_path: Path) -> None:
    assert exists(tmp_path)
    assert not exists(tmp_path / LONG)
    assert not is_regular(tmp_path / LONG)
    with pytest.raises(DataError, match="No such file"):
        read_file(tmp_path / "none", error=DataError)
    assert not is_path(LONG)
    assert full_name(LONG) == LONG


@pytest.mark.parametrize("file", [f"{LONG}.py", "~no-such-user/m.py", "gone.py"])
def test_a_class_in_a_missing_file_is_a_short_error(file: str) -> None:
    with pytest.raises(GSATError) as caught:
        load_file(f"{file}:Class")
    assert len(str(caught.value)) < 300


def test_checksums_of_bytes_files_and_values(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"abc" * 100_000)
    assert file_sha256(file) == sha256(b"abc" * 100_000)
    assert sha256(b"abc") == hashlib.sha256(b"abc").hexdigest()
    values = {"b": [1, 2.5, None], "a": "é"}
    text = '{"a": "\\u00e9", "b": [1, 2.5, null]}'
    assert checksum(values) == sha256(text.encode())
    assert checksum(values) == checksum(json.loads(json.dumps(values, indent=4)))
    assert checksum(values) != checksum({"a": "é", "b": [1, 2.5, 0]})
