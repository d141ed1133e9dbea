"""Downloads against a server on this machine that sends, breaks off, lies and disappears."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from loopback import Loopback, Served, left

from gsat.core.errors import DataError, DataNotFoundError
from gsat.datasets import RawFile
from gsat.datasets.fetch import download, transfer
from gsat.datasets.registry import dataset_names, find_source

CONTENT = random.Random(0).randbytes(300_000)
OTHER = random.Random(1).randbytes(300_000)
AS_SHIPPED = transfer.PAUSES
SUM = hashlib.sha256(CONTENT).hexdigest()


def raw_file(server: Loopback, **changes: Any) -> RawFile:
    details = {"sha256": SUM, "url": server.url("f.bin"), "size": len(CONTENT)}
    return RawFile("set/f.bin", source="the makers", **{**details, **changes})


def break_off(
    server: Loopback, content: bytes, sent: int, name: str = "f.bin", **details: Any
) -> None:
    """Download a file from a server that sends only a part of it."""
    server.put(name, content, breaks=[sent, 0, 0, 0])
    with pytest.raises(DataNotFoundError):
        raw_file(server, url=server.url(name), **details).require()


PARTIAL = {"set/f.bin.partial", "set/f.bin.partial.json"}


# -- a good file --------------------------------------------------------------------------------


def test_a_file_is_downloaded_once(server: Loopback, raw: Path) -> None:
    served = server.put("f.bin", CONTENT)
    file = raw_file(server)
    assert file.find() is None
    assert file.require() == raw / "set" / "f.bin" == file.find()
    assert (raw / "set" / "f.bin").read_bytes() == CONTENT
    assert left(raw) == {"set/f.bin"}
    file.require()
    assert served.sent == [len(CONTENT)]
    assert served.requests[0]["User-Agent"].startswith("gsat/")


def test_a_file_under_gsat_data_is_taken_first(
    server: Loopback, raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = server.put("f.bin", CONTENT)
    monkeypatch.setenv("GSAT_DATA", str(tmp_path / "data"))
    raw_file(server).require()
    assert served.sent == [len(CONTENT)]  # not there: into the cache
    place = tmp_path / "data" / "set" / "f.bin"
    place.parent.mkdir(parents=True)
    place.write_bytes(CONTENT)
    assert raw_file(server).require() == place


@pytest.mark.parametrize("how", [{"declare_length": False}, {"etag": ""}, {"block": 1000}])
@pytest.mark.parametrize(
    "details",
    [{}, {"size": 0}, {"sha256": ""}, {"sha256": "", "size": 0}, {"sha256": ("0" * 64, SUM)}],
)
def test_servers_and_files_that_say_little(
    server: Loopback, raw: Path, how: dict[str, Any], details: dict[str, Any]
) -> None:
    server.put("f.bin", CONTENT, **how)
    assert raw_file(server, **details).require().read_bytes() == CONTENT


def test_redirects_are_followed_to_http_only(server: Loopback, raw: Path, tmp_path: Path) -> None:
    server.put("f.bin", b"", redirect=server.url("real.bin"))
    server.put("real.bin", CONTENT)
    assert raw_file(server).require().read_bytes() == CONTENT
    secret = tmp_path / "secret"
    secret.write_bytes(CONTENT)
    for place in (secret.as_uri(), "ftp://127.0.0.1/x"):
        (raw / "set" / "f.bin").unlink(missing_ok=True)
        server.put("f.bin", b"", redirect=place)
        with pytest.raises(DataNotFoundError) as caught:
            raw_file(server).require()
        assert "can't download" in str(caught.value)
        assert left(raw) == set()


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://127.0.0.1/x", "f.bin"])
def test_only_http_addresses(server: Loopback, raw: Path, url: str) -> None:
    with pytest.raises(DataError, match="only http and https"):
        raw_file(server, url=url).require()
    assert not raw.exists()


def test_official_addresses_are_encrypted() -> None:
    """Some files have no known checksum: only encryption protects them on the way."""
    wanted = [
        file
        for name in dataset_names()
        for files in find_source(name).sources(name).values()
        for file in files
    ]
    addresses = {found.url for file in wanted if (found := file.downloads())}
    assert len(addresses) >= 10
    assert all(address.startswith("https://") for address in addresses)


def test_offline(server: Loopback, raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = server.put("f.bin", CONTENT)
    monkeypatch.setenv("GSAT_OFFLINE", "1")
    with pytest.raises(DataNotFoundError) as caught:
        raw_file(server).require()
    message = str(caught.value)
    for part in ("GSAT_OFFLINE", "f.bin: get it from", server.url("f.bin"), str(raw / "set")):
        assert part in message
    assert not served.requests
    monkeypatch.setenv("GSAT_OFFLINE", "0")
    raw_file(server).require()


def test_another_form_will_do(server: Loopback, raw: Path) -> None:
    """Whichever is here is taken and checked as what it is; only what has an address is fetched."""
    server.put("f.bin", CONTENT)
    file = RawFile("set/arrays.npz", "0" * 64, "the makers", instead=raw_file(server))
    path = file.require()
    assert path == raw / "set" / "f.bin"
    file.check(path)
    path.write_bytes(OTHER)
    with pytest.raises(DataError, match=rf"f.bin is not the .* not {SUM[:12]}"):
        file.check(path)
    (raw / "set" / "arrays.npz").write_bytes(CONTENT)
    assert file.require() == raw / "set" / "arrays.npz"
    with pytest.raises(DataError, match=r"arrays.npz is not .* not 000000000000"):
        file.check(file.require())


# -- wrong files --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [len(CONTENT), 0])
def test_wrong_checksum(server: Loopback, raw: Path, size: int) -> None:
    server.put("f.bin", OTHER)
    with pytest.raises(DataError, match="sent another file than expected") as caught:
        raw_file(server, size=size).require()
    message = str(caught.value)
    for part in (hashlib.sha256(OTHER).hexdigest()[:12], SUM[:12], server.url("f.bin"), "by hand"):
        assert part in message
    assert left(raw) == set()


@pytest.mark.parametrize("declare_length", [True, False])
@pytest.mark.parametrize("change", [-1, 1, 200_000])
def test_wrong_size(server: Loopback, raw: Path, declare_length: bool, change: int) -> None:
    content = (CONTENT + OTHER)[: len(CONTENT) + change]
    served = server.put("f.bin", content, declare_length=declare_length, block=1000)
    with pytest.raises(DataError, match=f"bytes, not {len(CONTENT)}") as caught:
        raw_file(server, sha256="").require()
    assert server.url("f.bin") in str(caught.value)
    assert left(raw) == set()
    assert len(served.requests) == 1


def test_a_damaged_file_in_the_cache_can_be_removed(server: Loopback, raw: Path) -> None:
    (raw / "set").mkdir(parents=True)
    (raw / "set" / "f.bin").write_bytes(OTHER)
    file = raw_file(server)
    with pytest.raises(DataError, match="remove it to download it again"):
        file.check(file.require())
    with pytest.raises(DataError, match="it has 300000 bytes, not 7; "):
        raw_file(server, sha256="", size=7).check(raw / "set" / "f.bin")


# -- transfers that break -----------------------------------------------------------------------


@pytest.mark.parametrize("named", [{}, {"etag": "", "modified": "Mon, 05 Oct 2020 10:00:00 GMT"}])
def test_a_broken_transfer_resumes_where_it_stopped(
    server: Loopback, raw: Path, named: dict[str, str]
) -> None:
    served = server.put("f.bin", CONTENT, breaks=[100_000, 70_000], **named)
    assert raw_file(server).require().read_bytes() == CONTENT
    assert served.sent == [100_000, 70_000, 130_000]
    assert [headers.get("Range") for headers in served.requests] == [
        None, "bytes=100000-", "bytes=170000-"
    ]  # fmt: skip
    assert served.requests[1]["If-Range"] == (named.get("modified") or '"v1"')
    assert left(raw) == {"set/f.bin"}


def test_the_next_call_resumes_too(server: Loopback, raw: Path) -> None:
    served = server.put("f.bin", CONTENT, breaks=[50_000, 10, 10, 10])
    with pytest.raises(DataNotFoundError, match="lost after 50030 of 300000 bytes") as caught:
        raw_file(server).require()
    assert "try again to resume from there" in str(caught.value)
    assert left(raw) == PARTIAL
    assert raw_file(server).find() is None  # a partial file does not count
    assert raw_file(server).require().read_bytes() == CONTENT
    assert sum(served.sent) == len(CONTENT)
    assert left(raw) == {"set/f.bin"}


def test_pauses_grow(server: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(transfer.time, "sleep", slept.append)
    monkeypatch.setattr(transfer, "PAUSES", AS_SHIPPED)
    server.put("f.bin", CONTENT, statuses=[503, 429, 500, 200])
    raw_file(server).require()
    assert len(slept) == 3
    assert 0 < slept[0] < slept[1] < slept[2]


def test_a_server_without_ranges_starts_again(server: Loopback, raw: Path) -> None:
    served = server.put("f.bin", CONTENT, ranges=False, breaks=[100_000])
    assert raw_file(server).require().read_bytes() == CONTENT
    assert served.sent == [100_000, len(CONTENT)]


@pytest.mark.parametrize("named", [{"etag": ""}, {"etag": 'W/"v1"'}])
def test_without_a_version_nothing_is_resumed(
    server: Loopback, raw: Path, named: dict[str, str]
) -> None:
    served = server.put("f.bin", CONTENT, breaks=[100_000] * 4, **named)
    with pytest.raises(DataNotFoundError, match="try again later"):
        raw_file(server).require()
    assert left(raw) == set()
    assert raw_file(server).require().read_bytes() == CONTENT
    assert not any("Range" in headers for headers in served.requests)


@pytest.mark.parametrize("heeds_if_range", [True, False])
def test_a_file_that_changed_meanwhile_is_not_joined_to_the_old_one(
    server: Loopback, raw: Path, heeds_if_range: bool
) -> None:
    """Also where nothing but the server's name for the version can tell: no checksum is known."""
    break_off(server, OTHER, 100_000, sha256="")
    assert left(raw) == PARTIAL
    served = server.put("f.bin", CONTENT, etag='"v2"', heeds_if_range=heeds_if_range)
    assert raw_file(server, sha256="").require().read_bytes() == CONTENT
    assert served.requests[0]["Range"] == "bytes=100000-"
    assert "Range" not in served.requests[-1] or heeds_if_range


def test_a_file_that_became_shorter_starts_again(server: Loopback, raw: Path) -> None:
    break_off(server, OTHER * 2, 400_000, size=0)
    server.put("f.bin", CONTENT)  # answers 416 to bytes=400000-
    assert raw_file(server, size=0).require().read_bytes() == CONTENT


def test_the_rest_of_another_address_is_not_taken(server: Loopback, raw: Path) -> None:
    break_off(server, OTHER, 100_000, name="old.bin")
    served = server.put("f.bin", CONTENT)
    assert raw_file(server, sha256="").require().read_bytes() == CONTENT
    assert "Range" not in served.requests[0]


@pytest.mark.parametrize("note", ["", "{", "[]", "null", '{"url": 3}'])
def test_a_damaged_note_starts_again(server: Loopback, raw: Path, note: str) -> None:
    break_off(server, CONTENT, 100_000)
    (raw / "set" / "f.bin.partial.json").write_text(note)
    assert raw_file(server).require().read_bytes() == CONTENT


# -- servers that refuse ------------------------------------------------------------------------


def test_no_server(server: Loopback, raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/f.bin"
    monkeypatch.setattr(transfer, "PAUSES", (60.0,))  # an answer at once all the same
    with pytest.raises(DataNotFoundError, match="Connection refused") as caught:
        raw_file(server, url=url).require()
    message = str(caught.value)
    for part in (url, "by hand", "the makers", str(raw / "set" / "f.bin")):
        assert part in message
    assert left(raw) == set()


def test_a_server_that_says_nothing(
    server: Loopback, raw: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/f.bin"
        with pytest.raises(DataNotFoundError, match="timed out"):
            raw_file(server, url=url).require()
    assert left(raw) == set()


def test_a_server_that_stalls(server: Loopback, raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "TIMEOUT", 0.2)
    served = server.put("f.bin", CONTENT, block=100_000, pause=0.6)
    with pytest.raises(DataNotFoundError, match="timed out"):
        raw_file(server, size=0).require()
    served.pause = 0
    assert raw_file(server).require().read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("statuses", "attempts"), [([403], 1), ([404], 1), ([410], 1), ([503] * 9, 4)]
)
def test_a_server_that_refuses(
    server: Loopback, raw: Path, statuses: list[int], attempts: int
) -> None:
    served = server.put("f.bin", CONTENT, statuses=list(statuses))
    with pytest.raises(DataNotFoundError, match=f"server answered {statuses[0]} ") as caught:
        raw_file(server).require()
    assert server.url("f.bin") in str(caught.value)
    assert left(raw) == set()
    assert len(served.requests) == attempts


# -- this side ----------------------------------------------------------------------------------


def test_full_disk(server: Loopback, raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    server.put("f.bin", CONTENT)
    monkeypatch.setattr(download, "os", SimpleNamespace(fsync=full))
    with pytest.raises(DataError, match="No space left on device; make room") as caught:
        raw_file(server).require()
    assert str(raw) in str(caught.value)
    assert left(raw) == set()


def test_unwritable_cache(server: Loopback, raw: Path) -> None:
    server.put("f.bin", CONTENT)
    raw.parent.mkdir(parents=True)
    raw.write_text("in the way")
    with pytest.raises(DataError, match=r"can't write .*set GSAT_CACHE") as caught:
        raw_file(server).require()
    assert server.url("f.bin") in str(caught.value)


# -- processes ----------------------------------------------------------------------------------

SCRIPT = """
import sys
from gsat.datasets import RawFile
print(RawFile("set/f.bin", sys.argv[2], "the makers", url=sys.argv[1]).require(), flush=True)
"""


def start(server: Loopback, **how: Any) -> subprocess.Popen[str]:
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", SCRIPT, server.url("f.bin"), SUM]
    return subprocess.Popen(command, **{**pipes, **how})


def wait_for_half(served: Served, raw: Path) -> None:
    """Until some, but not all, of the file is on the disk."""
    until = time.monotonic() + 60
    partial = raw / "set" / "f.bin.partial"
    while not (partial.is_file() and partial.stat().st_size > 50_000):
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.medium
@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_download_is_resumed(server: Loopback, raw: Path, kill: signal.Signals) -> None:
    served = server.put("f.bin", CONTENT, block=5000, pause=0.02)
    process = start(server)
    wait_for_half(served, raw)
    process.send_signal(kill)
    out, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    assert out == ""
    assert left(raw) == PARTIAL
    had = (raw / "set" / "f.bin.partial").stat().st_size
    served.pause = 0
    assert raw_file(server).require().read_bytes() == CONTENT
    assert 0 < had < len(CONTENT)
    assert served.requests[-1]["Range"] == f"bytes={had}-"
    assert served.sent[-1] == len(CONTENT) - had
    assert left(raw) == {"set/f.bin"}


def test_a_process_killed_with_all_bytes_there_asks_for_none(server: Loopback, raw: Path) -> None:
    break_off(server, CONTENT, 299_999)
    with (raw / "set" / "f.bin.partial").open("ab") as partial:
        partial.write(CONTENT[-1:])
    served = server.files["f.bin"]
    served.requests.clear()
    assert raw_file(server).require().read_bytes() == CONTENT
    assert not served.requests


@pytest.mark.medium
def test_processes_at_once_share_one_download(server: Loopback, raw: Path) -> None:
    served = server.put("f.bin", CONTENT, block=5000, pause=0.02)
    processes = [start(server) for _ in range(3)]
    for process in processes:
        out, err = process.communicate(timeout=60)
        assert (out, err) == (f"{raw / 'set' / 'f.bin'}\n", "")
    assert served.sent == [len(CONTENT)]
    assert (raw / "set" / "f.bin").read_bytes() == CONTENT
    assert left(raw) == {"set/f.bin"}


def test_when_the_first_gets_a_wrong_file_the_waiting_one_starts_again(
    server: Loopback, raw: Path
) -> None:
    slow = server.put("f.bin", OTHER, block=10_000, pause=0.03)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(raw_file(server).require)
        wait_for_half(slow, raw)
        served = server.put("f.bin", CONTENT)
        second = threads.submit(raw_file(server).require)
        with pytest.raises(DataError, match="sent another file"):
            first.result(timeout=60)
        assert second.result(timeout=60).read_bytes() == CONTENT
    assert served.sent == [len(CONTENT)]
    assert left(raw) == {"set/f.bin"}
