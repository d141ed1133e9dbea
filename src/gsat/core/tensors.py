"""Safetensors files as NumPy arrays: atomic writes, validated headers, memory-mapped reads.

The safetensors package writes to its own temporary file, which a killed process leaves behind, and
its reader opens links and devices. The format is simple: eight bytes with the length of a JSON
header, the header, and the bytes of the arrays.
"""

from __future__ import annotations

import json
import math
import mmap
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from gsat.core.errors import GSATError
from gsat.core.files import open_file
from gsat.core.limits import SMALL_FILE, check_size, json_bytes, memory_limit
from gsat.core.parsing import ParseError, parse_json
from gsat.core.writing import write_blocks

_TYPES: Final = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
    "I8": "|i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|b1",
}  # fmt: skip
_NAMES: Final = {np.dtype(text): name for name, text in _TYPES.items()}
# Bytes per number of the types that torch has and NumPy does not.
_OTHER_SIZES: Final = {"BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "C64": 8}
_BLOCK: Final = 1 << 24


@dataclass(frozen=True)
class TensorInfo:
    """One array in the header of a file."""

    type: str  # as in the format, such as "F32"
    shape: tuple[int, ...]
    start: int  # first byte in the file
    size: int  # in bytes


@dataclass(frozen=True)
class Header:
    """A validated header: every array lies within the file."""

    metadata: dict[str, str]
    tensors: dict[str, TensorInfo]


def write_tensors(
    path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str] | None = None
) -> None:
    """Write arrays to a safetensors file atomically, without copying them."""
    # The order of the safetensors package, in which every array is aligned.
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name in order:
        values = arrays[name]
        start, end = end, end + values.nbytes
        kind = _NAMES[values.dtype.newbyteorder("<")]
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [start, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    write_blocks(path, _blocks(text, [arrays[name] for name in order]))


def _blocks(header: bytes, arrays: list[NDArray[Any]]) -> Iterator[bytes | memoryview]:
    yield len(header).to_bytes(8, "little") + header
    for values in arrays:
        rows = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
        flat = rows.reshape(-1).view(np.uint8)
        for start in range(0, len(flat), _BLOCK):
            yield flat[start : start + _BLOCK].data


def read_header(handle: IO[bytes], size: int) -> Header:
    """Read the header of a safetensors file and validate every size and offset."""
    length = int.from_bytes(handle.read(8), "little")
    if size < 8 or length > min(size - 8, SMALL_FILE):
        raise ParseError("it is not a safetensors file: its header is too long")
    text = handle.read(length)
    check_size(json_bytes(text), "its header", GSATError)
    entries = parse_json(text)
    if not isinstance(entries, dict):
        raise ParseError("its header is not a table")
    metadata = entries.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise ParseError("the metadata in its header are not texts")
    tensors = {name: _info(name, entry, 8 + length) for name, entry in entries.items()}
    # The format requires arrays to fill the file without gaps and overlaps.
    end = 8 + length
    for info in sorted(tensors.values(), key=lambda info: (info.start, info.size)):
        if info.start != end:
            raise ParseError("its arrays overlap or have gaps")
        end += info.size
    if end != size:
        raise ParseError(f"it has {size} bytes, its header asks for {end}")
    return Header(metadata, tensors)


def _info(name: str, entry: Any, first: int) -> TensorInfo:
    match entry:
        case {"dtype": str(kind), "shape": list(shape), "data_offsets": [int(start), int(end)]}:
            itemsize = _OTHER_SIZES.get(kind) or (
                np.dtype(_TYPES[kind]).itemsize if kind in _TYPES else 0
            )
            valid = all(type(n) is int and 0 <= n < 2**48 for n in shape) and len(shape) <= 8
            valid = valid and itemsize > 0 and 0 <= start <= end
            if valid and math.prod(shape) * itemsize == end - start:
                return TensorInfo(kind, tuple(shape), first + start, end - start)
    raise ParseError(f"its header is invalid for the array '{name[:40]}'")


def map_tensors(
    path: Path, *, error: type[GSATError], links: bool = False
) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Memory-map the arrays of a safetensors file; only its header is read."""
    with open_file(path, error=error, links=links) as handle:
        status = os.fstat(handle.fileno())
        try:
            header = read_header(handle, status.st_size)
            if wrong := [i.type for i in header.tensors.values() if i.type not in _TYPES]:
                raise ParseError(f"it holds arrays of {wrong[0]}")
            # Almost none of it is on the disk; reading the holes would only waste time.
            on_disk = status.st_blocks * 512
            if status.st_size > memory_limit() and on_disk * 100 < status.st_size:
                raise ParseError("it is a sparse file")
            mapped = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_COPY)
        except (ParseError, OSError, GSATError) as problem:
            raise error(f"{path} is damaged: {problem}") from None
    return {name: _view(mapped, info) for name, info in header.tensors.items()}, header.metadata


def _view(mapped: mmap.mmap, info: TensorInfo) -> NDArray[Any]:
    dtype = np.dtype(_TYPES[info.type])
    count = math.prod(info.shape)
    flat: NDArray[Any] = (
        np.frombuffer(mapped, dtype, count, info.start) if count else np.zeros(0, dtype)
    )
    # Kernels rely on alignment; files written here have it.
    return np.require(flat.reshape(info.shape), requirements="A")
