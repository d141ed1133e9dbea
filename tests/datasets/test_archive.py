"""Members of zip files, and malicious zip files."""

from __future__ import annotations

import hashlib
import io
import random
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest
from loopback import Loopback, left

from gsat.core.errors import DataError, DataNotFoundError
from gsat.datasets import RawFile
from gsat.datasets.fetch.archive import open_zip, read_member, unpack
from gsat.datasets.fetch.raw_files import require_all

EDGES = random.Random(0).randbytes(40_000)
LABELS = b"0\n1\n" * 9000


def zipped(members: dict[str, bytes], kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", kind) as writing:
        for name, content in members.items():
            writing.writestr(name, content)
    return held.getvalue()


GOOD = {"hiv/raw/edge.csv": EDGES, "hiv/raw/label.csv": LABELS, "hiv/README": b"another member"}


def files(server: Loopback, **changes: Any) -> list[RawFile]:
    """Two members of one zip, under names of their own."""
    return [
        RawFile(
            f"ogbg/{name}",
            changes.get("sha256", hashlib.sha256(GOOD[f"hiv/raw/{name}"]).hexdigest()),
            "the makers",
            url=server.url("hiv.zip"),
            size=changes.get("size", 0),
            member=f"hiv/raw/{name}",
        )
        for name in ("edge.csv", "label.csv")
    ]


def refused(server: Loopback, tmp_path: Path, **changes: Any) -> str:
    """The error message; no file is left behind."""
    with pytest.raises(DataError) as caught:
        require_all(files(server, **changes))
    message = str(caught.value)
    assert server.url("hiv.zip") in message
    assert left(tmp_path) == set()
    return message


def test_one_download_gives_all_members(server: Loopback, raw: Path) -> None:
    content = zipped(GOOD)
    served = server.put("hiv.zip", content, breaks=[1000])
    edges, labels = require_all(files(server, size=len(content)))
    assert edges.read_bytes() == EDGES
    assert labels.read_bytes() == LABELS
    assert served.sent == [1000, len(content) - 1000]
    assert left(raw) == {"ogbg/edge.csv", "ogbg/label.csv"}
    labels.unlink()  # only what is missing is unpacked again
    edges.write_bytes(b"untouched")
    assert files(server)[1].require().read_bytes() == LABELS
    assert edges.read_bytes() == b"untouched"


def test_instruction_names_member_and_zip(server: Loopback, monkeypatch: Any) -> None:
    monkeypatch.setenv("GSAT_OFFLINE", "1")
    with pytest.raises(DataNotFoundError, match=r"edge.csv: get it from hiv/raw/edge.csv in http"):
        require_all(files(server))


def test_wrong_zips(server: Loopback, tmp_path: Path) -> None:
    content = zipped(GOOD)
    for broken, why in (
        (b"", "damaged zip"),
        (b"no zip at all", "damaged zip"),
        (content[:-3], "damaged zip"),
        (content.replace(EDGES[500:600], bytes(100)), "damaged zip"),
        (zipped({"hiv/raw/edge.csv": EDGES}), "does not contain 'hiv/raw/label.csv'"),
        (zipped({**GOOD, "hiv/raw/label.csv": b"2"}), "sent another hiv/raw/label.csv"),
        (zipped(GOOD, zipfile.ZIP_BZIP2), "in an unsupported compression"),
    ):
        assert broken != content
        server.put("hiv.zip", broken)
        assert why in refused(server, tmp_path)
    server.put("hiv.zip", content)
    assert "bytes, not 17" in refused(server, tmp_path, size=17)


@pytest.mark.parametrize(
    "name",
    ["../evil", "hiv/../../evil", "/tmp/evil", "..\\evil", "C:\\evil", "c:evil", "\\\\host\\evil"],
)
def test_names_that_lead_out_are_refused(server: Loopback, tmp_path: Path, name: str) -> None:
    server.put("hiv.zip", zipped({**GOOD, name: b"evil"}))
    assert "leads out of its folder" in refused(server, tmp_path)
    assert not (tmp_path.parent / "evil").exists()


@pytest.mark.parametrize("name", ["hiv/link", "hiv/raw/edge.csv"])
def test_links_are_refused(server: Loopback, tmp_path: Path, name: str) -> None:
    link = zipfile.ZipInfo(name)
    link.create_system = 3
    link.external_attr = 0o120777 << 16
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as writing:
        for member in GOOD.keys() - {name}:
            writing.writestr(member, GOOD[member])
        writing.writestr(link, "/etc/passwd")
    server.put("hiv.zip", held.getvalue())
    assert "which is a link" in refused(server, tmp_path)


def test_bombs_are_refused_before_unpacking(
    server: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = zipped({**GOOD, "hiv/raw/label.csv": bytes(3_000_000)})
    assert len(bomb) < 100_000
    server.put("hiv.zip", bomb)
    monkeypatch.setenv("GSAT_LIMITS", "unpacked=1000000")
    assert "unpacks to 3040000 bytes, more than" in refused(server, tmp_path, sha256="")
    monkeypatch.setenv("GSAT_LIMITS", "unpacked=3040000")
    require_all(files(server, sha256=""))


def test_bombs_that_lie_about_their_size(tmp_path: Path) -> None:
    """At most the declared size is written."""
    bomb = zipped({"x": bytes(3_000_000)})
    lying = bomb.replace(struct.pack("<I", 3_000_000), struct.pack("<I", 10))
    assert lying != bomb
    (tmp_path / "bomb.zip").write_bytes(lying)
    with pytest.raises(DataError, match=r"bomb.zip is a damaged zip"):
        unpack(tmp_path / "bomb.zip", {"x": tmp_path / "x"})
    assert (tmp_path / "x").stat().st_size <= 10


def test_more_than_four_gigabytes_are_refused(tmp_path: Path) -> None:
    lying = zipped({"x": bytes(3_000_000), "y": bytes(3_000_000)})
    lying = lying.replace(struct.pack("<I", 3_000_000), struct.pack("<I", 9 << 28))
    (tmp_path / "bomb.zip").write_bytes(lying)
    with pytest.raises(DataError, match=str(9 << 29)):
        unpack(tmp_path / "bomb.zip", {name: tmp_path / name for name in "xy"})
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("comment", [b"", b"c" * 65535])
def test_the_memory_for_the_list_of_members_is_limited(
    comment: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "many.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("large", EDGES * 2)
        for number in range(50):
            made.writestr(f"{number}", b"")
        made.comment = comment
    with zipfile.ZipFile(path) as held:
        listed = path.stat().st_size - held.start_dir - 22 - len(comment)
    monkeypatch.setenv("GSAT_MEMORY_LIMIT", str(16 * listed))
    with open_zip(path) as held:
        assert read_member(held, "0", "it") == b""
        with pytest.raises(DataError, match=r"'large'.*GSAT_MEMORY_LIMIT"):
            read_member(held, "large", "it")
    (tmp_path / "large").write_bytes(b"left by a process that was killed")
    (tmp_path / "link.zip").symlink_to(path)
    unpack(tmp_path / "link.zip", {"large": tmp_path / "large"})
    assert (tmp_path / "large").read_bytes() == EDGES * 2
    with pytest.raises(FileNotFoundError), open_zip(path):  # the caller's error, not the zip's
        (tmp_path / "none").read_bytes()
    monkeypatch.setenv("GSAT_MEMORY_LIMIT", str(16 * listed - 1))
    with pytest.raises(DataError, match="GSAT_MEMORY_LIMIT"), open_zip(path):
        pass


def test_encrypted_members_are_refused(tmp_path: Path) -> None:
    plain = bytearray(zipped({"x": b"secret"}))
    directory = plain.index(b"PK\x01\x02")
    plain[directory + 8] |= 1
    (tmp_path / "e.zip").write_bytes(plain)
    with pytest.raises(DataError, match="contains 'x' encrypted"):
        unpack(tmp_path / "e.zip", {"x": tmp_path / "x"})
