"""Untrusted files are read without harm, and paths and checksums."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from pathlib import Path

import pytest

from gsat.core.errors import DataError, GSATError, RunError
from gsat.core.files import (
    bare_name,
    check_no_links,
    checksum,
    exists,
    file_sha256,
    full_path,
    open_file,
    read_file,
    read_json,
    read_toml,
    sha256,
)
from gsat.core.limits import check_size, in_words, memory_limit
from gsat.core.parsing import FileModel
from gsat.core.registry import load_file
from gsat.core.tensors import map_tensors
from gsat.datasets.registry import full_name, is_path

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links and FIFOs of Unix")
LONG = "a" * 3000


def special(path: Path, kind: str) -> Path:
    """Create something other than a regular file."""
    if kind == "link":
        (path.parent / "target").write_text("{}")
        path.symlink_to("target")
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
    for read in (
        lambda: read_file(path, error=DataError),
        lambda: read_json(path, FileModel, error=DataError),
        lambda: read_toml(path, error=DataError),
        lambda: map_tensors(path, error=DataError),
    ):
        with pytest.raises(DataError, match=str(path)) as caught:
            read()
        assert "\n" not in str(caught.value)
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


@pytest.mark.parametrize("kind", ["link", "device", "fifo", "socket"])
def test_links_and_special_files_in_a_run_are_refused(kind: str, tmp_path: Path) -> None:
    (tmp_path / "run" / "deep").mkdir(parents=True)
    (tmp_path / "run" / "file").write_text("")
    (tmp_path / "link-to-run").symlink_to("run")
    check_no_links(tmp_path / "link-to-run")
    special(tmp_path / "run" / "deep" / "x", kind)
    with pytest.raises(RunError, match=r"deep/x"):
        check_no_links(tmp_path / "link-to-run")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "/dev/zero", "a/b", "a\\b", ".hidden", "a\0", "x" * 300, "a b"]
)
def test_bare_names_contain_no_path(name: str) -> None:
    assert not bare_name(name)
    assert bare_name("model-0123.safetensors")


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
