"""Folders that the environment sets, the disk's errors, and checksums."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sys
from pathlib import Path

import pytest

from gsat.core.errors import DiskError
from gsat.core.files import checksum, file_sha256, sha256
from gsat.core.folders import cache_folder, data_folder, offline
from gsat.core.writing import check_writable, disk_errors


def test_the_cache_is_where_it_was_chosen_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSAT_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path


@pytest.mark.skipif(sys.platform != "linux", reason="the folders of Linux")
@pytest.mark.parametrize("chosen", [None, ""])
def test_else_it_is_in_the_cache_folder_of_the_platform(
    chosen: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GSAT_CACHE", raising=False)
    if chosen is not None:
        monkeypatch.setenv("GSAT_CACHE", chosen)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == tmp_path / ".cache" / "gsat"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    assert cache_folder() == tmp_path / "elsewhere" / "gsat"
    assert list(tmp_path.iterdir()) == []


def test_raw_data_and_downloads(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, folder in (("", None), ("/data", Path("/data"))):
        monkeypatch.setenv("GSAT_DATA", value)
        assert data_folder() == folder
    monkeypatch.delenv("GSAT_DATA")
    assert data_folder() is None
    for value, forbidden in (("", False), ("0", False), ("1", True), ("yes", True)):
        monkeypatch.setenv("GSAT_OFFLINE", value)
        assert offline() == forbidden
    monkeypatch.delenv("GSAT_OFFLINE")
    assert not offline()


def test_a_disk_error_is_one_line_and_says_whether_the_disk_is_full(tmp_path: Path) -> None:
    for code, full in ((errno.ENOSPC, True), (errno.EROFS, True), (errno.EACCES, False)):
        with pytest.raises(DiskError) as caught, disk_errors(tmp_path):
            raise OSError(code, os.strerror(code))
        assert str(caught.value) == (
            f"can't write to {tmp_path}: {os.strerror(code)}; make room or choose another folder"
        )
        assert caught.value.full == full
    with pytest.raises(ValueError, match="other"), disk_errors(tmp_path):
        raise ValueError("other")


def test_a_folder_that_can_be_written_to_is_created_and_left_empty(tmp_path: Path) -> None:
    check_writable(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskError, match="can't write to"):
        check_writable(tmp_path / "file" / "below")


def test_checksums_are_of_the_bytes_or_of_the_values(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"abc" * 100_000)
    assert file_sha256(file) == sha256(b"abc" * 100_000)
    assert sha256(b"abc") == hashlib.sha256(b"abc").hexdigest()
    values = {"b": [1, 2.5, None], "a": "é"}
    text = '{"a": "\\u00e9", "b": [1, 2.5, null]}'
    assert checksum(values) == sha256(text.encode())
    assert checksum(values) == checksum(json.loads(json.dumps(values, indent=4)))
    assert checksum(values) != checksum({"a": "é", "b": [1, 2.5, 0]})
