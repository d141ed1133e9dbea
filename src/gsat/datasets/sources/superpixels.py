"""Superpixels of small grey images: SLIC, in worker processes, chunk by chunk.

What a chunk gives is kept in a file, so that work that was cut short goes on where it stopped.
This module imports no torch: it is also what a worker runs (``python -m``). Workers are processes
of their own and not ``multiprocessing``'s, which would run a caller's unguarded script again.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import queue
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from gsat.errors import DataError, GSATError
from gsat.io.atomic import atomic_write

ASKED: Final = 95  # segments asked for at first; lowered by one until at most MOST are returned
MOST: Final = 75
COMPACTNESS: Final = 0.25


class Superpixels(NamedTuple):
    """The superpixels of G images, image after image, N in all.

    Attributes:
        counts: [G] int64, superpixels of each image.
        intensity: [N] float32, the mean of each over its pixels, 0 to 1.
        centre: [N, 2] float32, its centre of mass, row and column in pixels.
    """

    counts: NDArray[np.int64]
    intensity: NDArray[np.float32]
    centre: NDArray[np.float32]


def segment(image: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The superpixel of each pixel, numbered from 0 [H, W]: SLIC, asked for fewer segments until
    it returns at most 75."""
    from skimage.segmentation import slic

    grey = (image / 255).astype(np.float32)
    for asked in _worth_asking(image.shape):
        found = slic(
            grey, n_segments=asked, compactness=COMPACTNESS, channel_axis=None, start_label=0
        )
        if found.max() < MOST:
            break
    return found


@cache
def _worth_asking(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Numbers of segments whose outcome differs from that of the number before.

    SLIC uses the number for its grid of seeds alone: on 28 × 28 pixels 95 and 65 are the same.
    """
    from skimage.util import regular_grid

    grids: dict[str, int] = {}
    for asked in range(ASKED, 0, -1):
        grids.setdefault(str(regular_grid((1, *shape), asked)), asked)
    return tuple(grids.values())


def measure(images: NDArray[np.uint8], labels: NDArray[np.int64]) -> Superpixels:
    """Mean intensity and centre of mass of every superpixel.

    Args:
        images: [G, H, W]. labels: [G, H, W], numbered from 0 without gaps in each image.
    """
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
    """A gzipped idx file of unsigned bytes, the format of MNIST."""
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
    """Some images of an idx file (``first`` to ``last``, which is left out) and the file for what
    comes of them."""

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
            with atomic_write(out) as partial:
                save_file(found._asdict(), partial)
        except (OSError, SafetensorError) as error:
            raise DataError(
                f"superpixels are kept in {out.parent}, where nothing can be written ({error}): "
                f"make room, or set GSAT_CACHE to another folder"
            ) from error

    def load(self) -> Superpixels | None:
        """What was computed before; None where nothing was, or where the file is damaged."""
        try:
            return Superpixels(**load_file(self.out))
        except (OSError, SafetensorError):
            return None


def compute(chunks: Sequence[Chunk]) -> Iterator[Superpixels]:
    """The superpixels of every chunk, in order; only what is missing is computed.

    A terminal shows the time left.
    """
    from rich.console import Console
    from rich.progress import track

    missing = [chunk for chunk in chunks if chunk.load() is None]
    if missing:
        # A worker takes a second to start: it has to be worth it.
        team = max(1, min(jobs(), len(missing) // 2))
        steps = _in_processes(missing, team) if team > 1 else map(Chunk.make, missing)
        for _ in track(
            steps,
            "superpixels",
            total=len(missing),
            console=Console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
        ):
            pass
        _images.cache_clear()
    for chunk in chunks:
        found = chunk.load()
        if found is None:
            raise DataError(f"{chunk.out} has gone while it was needed; run the same again")
        yield found


def jobs() -> int:
    """How many worker processes: ``GSAT_JOBS``, or one for each core this process may use."""
    given = os.environ.get("GSAT_JOBS", "")
    if not given:
        usable = getattr(os, "sched_getaffinity", None)
        return len(usable(0)) if usable else os.cpu_count() or 1
    if not given.isdecimal() or int(given) < 1:
        raise DataError(f"GSAT_JOBS is how many worker processes to use, 1 or more, not {given!r}")
    return int(given)


class _Worker:
    """A process that makes one chunk after another, as they come through a pipe."""

    def __init__(self) -> None:
        own = {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "gsat.datasets.sources.superpixels"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **own},
            text=True,
        )

    def make(self, chunk: Chunk) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(asdict(chunk)) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except (BrokenPipeError, ConnectionResetError):
            answer = ""
        if not answer:
            raise DataError(
                "a process that computes superpixels ended before its time; the same command goes "
                "on where it stopped (GSAT_JOBS=1 needs the least memory)"
            )
        if said := json.loads(answer):
            raise DataError(said)

    def dismiss(self) -> None:
        """Wait for the chunk in its hands, which is kept."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def _in_processes(chunks: Sequence[Chunk], team: int) -> Iterator[None]:
    """Make the chunks in ``team`` worker processes; yields after each."""
    workers = [_Worker() for _ in range(team)]
    free: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
    for worker in workers:
        free.put(worker)

    def make(chunk: Chunk) -> None:
        worker = free.get()
        try:
            worker.make(chunk)
        finally:
            free.put(worker)

    pool = ThreadPoolExecutor(team)
    try:
        for done in as_completed([pool.submit(make, chunk) for chunk in chunks]):
            done.result()
            yield
    finally:
        pool.shutdown(cancel_futures=True)
        for worker in workers:
            worker.dismiss()


def _serve() -> None:
    """The life of a worker: it ends when its pipe does, that is, with the caller."""
    # Ctrl-C is the caller's; what is in hand is finished and kept.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        said = ""
        try:
            Chunk(**json.loads(line)).make()
        except GSATError as error:
            said = str(error)
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
