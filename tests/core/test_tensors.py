"""Safetensors files: compatible with the safetensors package, and safe for damaged files."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from gsat.core.errors import DataError
from gsat.core.tensors import map_tensors, write_tensors

ARRAYS = {
    "b": np.array([True, False, True]),
    "x": np.arange(6, dtype=np.float32).reshape(2, 3),
    "half": np.array([0.5], np.float16),
    "n": np.arange(3),
    "none": np.zeros((0, 4), np.int32),
}


def test_files_are_exchanged_with_the_safetensors_package(tmp_path: Path) -> None:
    write_tensors(tmp_path / "ours", ARRAYS, {"format": "x"})
    save_file(ARRAYS, tmp_path / "theirs", metadata={"format": "x"})
    assert (tmp_path / "ours").stat().st_size == (tmp_path / "theirs").stat().st_size
    theirs = load_file(tmp_path / "ours")
    ours, metadata = map_tensors(tmp_path / "theirs", error=DataError)
    assert metadata == {"format": "x"}
    assert theirs.keys() == ours.keys() == ARRAYS.keys()
    for name, values in ARRAYS.items():
        for found in (theirs[name], ours[name]):
            assert found.dtype == values.dtype
            np.testing.assert_array_equal(found, values)
            assert found.flags.aligned


def test_arrays_of_a_damaged_file_never_exceed_it(tmp_path: Path) -> None:
    write_tensors(tmp_path / "x", ARRAYS)
    whole, rng = (tmp_path / "x").read_bytes(), np.random.default_rng(0)
    for _ in range(200):
        content = bytearray(whole)
        for place in rng.integers(0, len(content), size=rng.integers(1, 4)):
            content[place] = rng.integers(256)
        (tmp_path / "x").write_bytes(content)
        arrays = {}
        with contextlib.suppress(DataError):  # and nothing else
            arrays, _ = map_tensors(tmp_path / "x", error=DataError)
        assert sum(int(values.nbytes) for values in arrays.values()) < len(content)


def write(path: Path, header: str, data: bytes = b"1234") -> Path:
    text = header.encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def entry(name: str = "x", kind: str = "F32", shape: str = "[1]", offsets: str = "[0,4]") -> str:
    return f'"{name}":{{"dtype":"{kind}","shape":{shape},"data_offsets":{offsets}}}'


@pytest.mark.parametrize(
    "header",
    [
        f"{{{entry(shape='[1000000000000]', offsets='[0,4000000000000]')}}}",
        f"{{{entry()},{entry('y')}}}",  # overlap
        f"{{{entry(offsets='[4,8]')}}}",  # gap
        f"{{{entry(shape='[-1]')}}}",
        f"{{{entry(shape='[2]')}}}",
        f"{{{entry(shape='[1,1,1,1,1,1,1,1,1]')}}}",
        f"{{{entry(shape=f'[{2**48},0]', offsets='[0,0]')}}}",
        f"{{{entry(kind='Q7')}}}",
        f"{{{entry(kind='Q7', shape='[0]', offsets='[0,0]')}}}",
        f"{{{entry(kind='BF16', shape='[2]')}}}",  # valid, but NumPy has no such type
        f'{{"__metadata__":{{"a":1}},{entry()}}}',
        "[1]",
    ],
)
def test_invalid_headers_are_refused(header: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=str(tmp_path)):
        map_tensors(write(tmp_path / "x", header), error=DataError)


@pytest.mark.parametrize(
    "content", [b"", b"1234567", b"\xff" * 100, (3).to_bytes(8, "little") + b"{}"]
)
def test_files_without_a_complete_header_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(DataError, match=str(tmp_path)):
        map_tensors(tmp_path / "x", error=DataError)


def test_a_header_may_fill_the_file(tmp_path: Path) -> None:
    arrays, metadata = map_tensors(
        write(tmp_path / "x", f"{{{entry(shape='[0]', offsets='[0,0]')}}}", b""), error=DataError
    )
    assert arrays["x"].shape == (0,)
    assert metadata == {}


def test_sparse_files_beyond_the_memory_limit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 1 << 20
    path = write(
        tmp_path / "x", f"{{{entry(shape=f'[{count}]', offsets=f'[0,{4 * count}]')}}}", b""
    )
    with path.open("r+b") as handle:
        handle.truncate(path.stat().st_size + 4 * count)
    assert map_tensors(path, error=DataError)[0]["x"].shape == (count,)
    monkeypatch.setenv("GSAT_MEMORY_LIMIT", "1M")
    with pytest.raises(DataError, match="sparse"):
        map_tensors(path, error=DataError)


def test_links_are_followed_only_if_allowed(tmp_path: Path) -> None:
    write_tensors(tmp_path / "x", ARRAYS)
    (tmp_path / "link").symlink_to("x")
    with pytest.raises(DataError, match="link"):
        map_tensors(tmp_path / "link", error=DataError)
    assert map_tensors(tmp_path / "link", error=DataError, links=True)[0].keys() == ARRAYS.keys()
