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


def test_invalid_headers_are_refused(tmp_path: Path) -> None:
    for text in (
        '{"x":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}}',
        '{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"y":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
        '{"x":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}',
        '{"x":{"dtype":"Q7","shape":[1],"data_offsets":[0,4]}}',
        "[1]",
    ):
        header = text.encode()
        (tmp_path / "x").write_bytes(len(header).to_bytes(8, "little") + header + b"1234")
        with pytest.raises(DataError, match=str(tmp_path)):
            map_tensors(tmp_path / "x", error=DataError)
    (tmp_path / "x").write_bytes(b"\xff" * 100)
    with pytest.raises(DataError, match=str(tmp_path)):
        map_tensors(tmp_path / "x", error=DataError)
