"""`ShardedArray`: rows in several files, read as one array."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]
# Requested rows grouped by part, and the permutation back to the requested order.
Places = tuple[list[tuple[int, NDArray[np.int64]]], NDArray[np.int64]]

_CHUNK: Final = 1 << 24  # bytes


class ShardedArray:
    """Memory-mapped arrays stacked along their first axis.

    ``array[rows]`` reads only these rows; ``np.asarray(array)`` reads all.
    """

    def __init__(self, parts: Sequence[Array]) -> None:
        self.parts = list(parts)
        self.ends = np.cumsum([len(part) for part in parts])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of all parts."""
        return self.parts[0].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the stacked array."""
        return (len(self), *self.parts[0].shape[1:])

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, rows: ArrayLike | slice) -> Array:
        """Read rows by number, mask or slice, like NumPy."""
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        index = np.asarray(rows)
        if index.dtype == bool:
            index = np.flatnonzero(index)
        index = np.where(index < 0, index + len(self), index)
        if index.size and (index.min() < 0 or index.max() >= len(self)):
            raise IndexError(f"there are {len(self)} rows")
        return self._take(self._find(index.ravel())).reshape(index.shape + self.shape[1:])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.concatenate(self.parts).astype(dtype or self.dtype, copy=False)

    def _find(self, rows: Array) -> Places:
        part = np.searchsorted(self.ends, rows, side="right")
        # NumPy sorts 16-bit integers in linear time; a store has at most 2**16 files.
        order = np.argsort(part.astype(np.uint16), kind="stable")
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        rows = rows[order]
        stops = np.cumsum(np.bincount(part, minlength=len(self.parts)))
        places, start = [], 0
        for number in np.flatnonzero(np.diff(stops, prepend=0)):
            first = self.ends[number - 1] if number else 0
            places.append((int(number), rows[start : stops[number]] - first))
            start = stops[number]
        return places, back

    def _take(self, places: Places) -> Array:
        groups, back = places
        out = np.empty((len(back), *self.shape[1:]), dtype=self.dtype)
        start = 0
        for number, rows in groups:
            # All rows exist; mode "clip" makes NumPy write to `out` without a buffer.
            some = out[start : start + len(rows)]
            self.parts[number].take(rows, axis=0, out=some, mode="clip")
            start += len(rows)
        return out.take(back, axis=0)


# An array of a store.
Column = Array | ShardedArray


def row_reader(rows: NDArray[np.int64]) -> Callable[[Column], Array]:
    """Make a function that reads the same rows of several arrays.

    Rows are assigned to parts once for all arrays that are divided in the same way.
    """
    cache: dict[bytes, Places] = {}

    def read(values: Column) -> Array:
        if not isinstance(values, ShardedArray):
            return values[rows]
        key = values.ends.tobytes()
        if key not in cache:
            cache[key] = values._find(rows)
        return values._take(cache[key])

    return read


def chunks(values: Column) -> Iterator[Array]:
    """Iterate over all rows in contiguous blocks of at most 16 MiB."""
    for part in values.parts if isinstance(values, ShardedArray) else [values]:
        step = max(1, _CHUNK // max(1, part[:1].nbytes))
        for start in range(0, len(part), step):
            yield np.ascontiguousarray(part[start : start + step])


def content_digest(arrays: Mapping[str, Column]) -> str:
    """Hash names, dtypes, shapes and bytes of arrays."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape}".encode())
        for chunk in chunks(arrays[name]):
            digest.update(chunk.data)
    return digest.hexdigest()[:16]
