"""The table of limits, and gzipped files whose members are counted."""

from __future__ import annotations

import gzip
import io
import random
import re
import zlib
from pathlib import Path

import pytest

from gsat.core.errors import DataError, GSATError
from gsat.core.gzipped import GzipReader
from gsat.core.limits import Limits, check_count, in_words, limits, memory_limit, raise_limits


def test_limits_are_raised_by_one_variable_and_by_options(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits() == Limits()
    monkeypatch.setenv("GSAT_LIMITS", "atoms=7, memory=2G")
    assert limits().atoms == 7
    assert limits() == Limits(atoms=7, memory=2 << 30)
    raise_limits(["atoms=9", "rows=3"])
    assert (limits().atoms, limits().rows, memory_limit()) == (9, 3, 2 << 30)
    with pytest.raises(DataError, match="rows=N"):
        check_count(4, "rows", "it", DataError)


def test_the_former_variable_is_the_limit_on_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSAT_MEMORY_LIMIT", "1M")
    assert limits().memory == 1 << 20
    monkeypatch.setenv("GSAT_LIMITS", "memory=3M")
    assert limits().memory == 3 << 20


@pytest.mark.parametrize("wrong", ["atom=3", "atoms", "atoms=many", "atoms=0", "memory=1.5G"])
def test_wrong_limits_are_refused(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GSATError, match=wrong.split("=")[0]):
        raise_limits([wrong])
    assert limits() == Limits()
    monkeypatch.setenv("GSAT_LIMITS", wrong)
    with pytest.raises(GSATError, match=wrong.split("=")[0]):
        limits()


def _unpacked(packed: bytes) -> bytes:
    return io.BufferedReader(GzipReader(io.BytesIO(packed), "it", DataError)).read()


def test_gzip_members_are_unpacked_as_by_the_standard_library() -> None:
    rng = random.Random(0)
    parts = [rng.randbytes(size) for size in (0, 1, 70_000, 0, 0, 200_000, 3)]
    packed = b"".join(gzip.compress(part) for part in parts)
    for content in (b"", packed, packed + bytes(100_000), packed + bytes(9) + packed):
        assert _unpacked(content) == gzip.decompress(content)
    for damaged in (packed[:-1], packed[:70_100], packed + b"x", b"abc"):
        with pytest.raises((EOFError, zlib.error)):
            _unpacked(damaged)


def test_empty_gzip_members_are_counted() -> None:
    empty = gzip.compress(b"")
    assert _unpacked(empty * 10_000) == b""
    with pytest.raises(DataError, match="10001 members"):
        _unpacked(empty * 10_001)


def test_the_documented_table_is_the_declaration() -> None:
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|$", page, re.MULTILINE)
    declared = [
        (name, field.default, str(field.description)) for name, field in Limits.model_fields.items()
    ]
    sizes = ("memory", "unpacked")
    assert rows == [
        (name, in_words(default) if name in sizes else f"{default:,}", text)
        for name, default, text in declared
    ]
