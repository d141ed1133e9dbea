"""Superpixels of small grey images: SLIC, in worker processes, chunk by chunk.

The superpixels of a chunk are saved in a file, so that interrupted work resumes where it stopped.
This module does not import torch, so that worker processes start quickly.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsat.core.errors import DataError
from gsat.core.tensors import map_tensors, write_tensors
from gsat.launch.jobs import Job, Outcome
from gsat.launch.pool import WorkerPool, worker_count
from gsat.launch.progress import Progress

REQUESTED: Final = 95  # segments requested first; lowered until SLIC returns at most MOST
MOST: Final = 75
COMPACTNESS: Final = 0.25


class Superpixels(NamedTuple):
    """The superpixels of G images, image after image, N in all."""

    counts: NDArray[np.int64]  # superpixels of each image, [G]
    intensity: NDArray[np.float32]  # mean over the pixels of each, from 0 to 1, [N]
    centre: NDArray[np.float32]  # centre of mass of each, row and column in pixels, [N, 2]


def segment(image: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Cut an image into at most 75 superpixels by SLIC, requesting fewer until there are."""
    from skimage.segmentation import slic

    grey = (image / 255).astype(np.float32)
    for number in _requests(image.shape):
        found = slic(
            grey, n_segments=number, compactness=COMPACTNESS, channel_axis=None, start_label=0
        )
        if found.max() < MOST:
            break
    return found


@cache
def _requests(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Numbers of segments that give different results.

    SLIC uses the number for its grid of seeds alone: on 28 × 28 pixels 95 and 65 are the same.
    """
    from skimage.util import regular_grid

    grids: dict[str, int] = {}
    for number in range(REQUESTED, 0, -1):
        grids.setdefault(str(regular_grid((1, *shape), number)), number)
    return tuple(grids.values())


def measure(images: NDArray[np.uint8], labels: NDArray[np.int64]) -> Superpixels:
    """Compute the mean intensity and the centre of mass of every superpixel."""
    counts = labels.max(axis=(1, 2)).astype(np.int64) + 1
    owner = (labels + (np.cumsum(counts) - counts)[:, None, None]).ravel()
    size = np.bincount(owner)
    row, column = (np.broadcast_to(grid, images.shape) for grid in np.indices(images.shape[1:]))
    pixels, rows, columns = (
        np.bincount(owner, values.ravel()) / size for values in (images, row, column)
    )
    centre = np.stack([rows, columns], axis=1).astype(np.float32)
    return Superpixels(counts, (pixels / 255).astype(np.float32), centre)


def read_idx(path: str | Path) -> NDArray[np.uint8]:
    """Read a gzipped idx file of unsigned bytes, the format of MNIST."""
    try:
        data = gzip.decompress(Path(path).read_bytes())
        rank = data[3]
        shape = np.frombuffer(data, ">u4", rank, offset=4)
        if data[:3] != b"\0\0\x08":
            raise ValueError("it does not hold unsigned bytes")
        return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape)
    except (OSError, EOFError, ValueError, IndexError, zlib.error) as error:
        raise DataError(f"{path} is not a whole gzipped idx file: {error}; get it again") from error


@lru_cache(maxsize=1)
def _images(path: str) -> NDArray[np.uint8]:
    return read_idx(path)


@dataclass(frozen=True)
class Chunk:
    """Images ``first`` to ``last`` of an idx file, and the file for their superpixels."""

    images: str
    first: int
    last: int
    out: str

    def make(self) -> None:
        """Compute the superpixels and write them: whole, or not at all."""
        images = _images(self.images)[self.first : self.last]
        found = measure(images, np.stack([segment(image) for image in images]))
        out = Path(self.out)
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            write_tensors(out, found._asdict())
        except OSError as error:
            raise DataError(
                f"superpixels are kept in {out.parent}, where nothing can be written ({error}): "
                f"make room, or set GSAT_CACHE to another folder"
            ) from error

    def load(self) -> Superpixels | None:
        """The saved superpixels; None if there are none, or the file is damaged."""
        try:
            return Superpixels(**map_tensors(Path(self.out), error=DataError)[0])
        except (DataError, TypeError):  # TypeError: other arrays
            return None


def make_chunk(chunk: dict[str, Any]) -> None:
    """Make a chunk in a worker."""
    Chunk(**chunk).make()


def compute(chunks: Sequence[Chunk]) -> Iterator[Superpixels]:
    """Compute the superpixels of every chunk, or read them if they are saved.

    Several worker processes share the work (``GSAT_JOBS``). A terminal shows the time left.
    """
    missing = [chunk for chunk in chunks if chunk.load() is None]
    if missing:
        with Progress("superpixels", counted=False).start(len(missing)) as bar:
            _make_all(missing, bar)
        _images.cache_clear()
    for chunk in chunks:
        found = chunk.load()
        if found is None:
            raise DataError(f"{chunk.out} disappeared while it was needed; run the same again")
        yield found


def _make_all(chunks: Sequence[Chunk], bar: Progress) -> None:
    """Make chunks here or, where it is worth it, in worker processes."""
    workers = min(worker_count(), len(chunks) // 2)  # a worker takes a second to start
    if workers <= 1:
        for chunk in chunks:
            chunk.make()
            bar.advance()
        return

    def on_done(name: str, outcome: Outcome) -> None:
        if outcome.status == "died":
            raise DataError(
                "a process that computes superpixels ended early; run the same again to continue "
                "where it stopped (GSAT_JOBS=1 needs the least memory)"
            )
        if outcome.status != "done":
            raise DataError(outcome.value)
        bar.advance()

    function = f"gsat.datasets.sources.superpixels.{make_chunk.__name__}"
    with WorkerPool(workers) as pool:
        pool.run({chunk.out: Job(function, asdict(chunk)) for chunk in chunks}, on_done=on_done)
