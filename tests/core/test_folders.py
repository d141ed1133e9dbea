"""Folders and settings from environment variables."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gsat.core.folders import cache_folder, data_folder, kernel_folder, offline


@pytest.mark.skipif(sys.platform != "linux", reason="the folders of Linux")
@pytest.mark.parametrize("empty", [True, False])
def test_the_cache_is_in_the_cache_folder_of_the_platform(
    empty: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GSAT_CACHE", "GSAT_KERNELS"):
        monkeypatch.setenv(name, "")
        if not empty:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == tmp_path / ".cache" / "gsat"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    assert cache_folder() == tmp_path / "elsewhere" / "gsat"
    monkeypatch.setenv("GSAT_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    assert kernel_folder() == tmp_path / "elsewhere" / "gsat" / "kernels"
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
