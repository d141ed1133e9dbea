"""`gsat datasets --download`: raw files before they are needed."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from cli_harness import refuse, succeed

from gsat.datasets import RawFile
from gsat.datasets.sources.mutag import Mutag

CONTENT = b"raw" * 1000


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """The address of a folder with two files, served by Python's own server."""
    for name in ("a.bin", "b.bin"):
        (tmp_path / name).write_bytes(CONTENT)
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def raw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("GSAT_DATA", raising=False)
    monkeypatch.delenv("GSAT_OFFLINE")
    monkeypatch.setenv("GSAT_CACHE", str(tmp_path / "cache"))
    # The server's log would be on standard error.
    monkeypatch.setattr(http.server.SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    return tmp_path / "cache" / "raw"


@pytest.fixture
def needs(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[RawFile, ...]]:
    """The files of mutag by source; filled by the test."""
    files: dict[str, tuple[RawFile, ...]] = {}
    monkeypatch.setattr(Mutag, "sources", lambda *args: files)
    return files


def at(served: str, name: str) -> RawFile:
    return RawFile(f"m/{name}", "", "the makers", url=f"{served}/{name}", size=len(CONTENT))


BY_HAND = RawFile("m/by-hand.bin", "", "the library")


def test_files_are_downloaded_and_listed(
    needs: dict[str, tuple[RawFile, ...]], served: str, raw: Path
) -> None:
    needs["published"] = (at(served, "a.bin"), at(served, "b.bin"))
    listed = next(line for line in succeed("datasets", "mutag").lines if "a.bin" in line)
    assert f"{served}/a.bin" in listed
    paths = [str(raw / "m" / "a.bin"), str(raw / "m" / "b.bin")]
    assert succeed("datasets", "--download", "mutag").lines == paths
    assert all(Path(path).read_bytes() == CONTENT for path in paths)
    output = json.loads(succeed("datasets", "--download", "mutag", "--json").out)
    assert output == {"name": "mutag", "files": paths, "missing": []}
    rows = json.loads(succeed("datasets", "--json").out)
    assert next(row for row in rows if row["name"] == "mutag")["here"]


def test_a_source_that_has_no_address_does_not_stop_the_others(
    needs: dict[str, tuple[RawFile, ...]], served: str, raw: Path
) -> None:
    needs |= {"published": (at(served, "a.bin"),), "parsed": (BY_HAND,)}
    output = succeed("datasets", "--download", "mutag").lines
    assert output[0] == str(raw / "m" / "a.bin")
    assert "by-hand.bin" in output[1]
    needs["published"] = (at(served, "b.bin"), BY_HAND)
    assert "by-hand.bin" in refuse("datasets", "--download", "mutag")


def test_missing_files_are_errors(
    needs: dict[str, tuple[RawFile, ...]], served: str, raw: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs["published"] = (at(served, "nowhere.bin"),)
    assert "404" in refuse("datasets", "--download", "mutag")
    monkeypatch.setenv("GSAT_OFFLINE", "1")
    assert "GSAT_OFFLINE" in refuse("datasets", "--download", "mutag")


def test_nothing_to_download() -> None:
    assert "houses" in succeed("datasets", "--download", "houses").out
