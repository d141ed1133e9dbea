"""Superpixels: the published loop, scipy's measures, and workers that can be killed at any time."""

from __future__ import annotations

import gzip
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import ndimage
from sklearn.datasets import load_digits

from gsat.core.errors import DataError
from gsat.datasets.sources import superpixels
from gsat.datasets.sources.superpixels import Chunk, compute, measure, read_idx, segment
from gsat.launch import local
from gsat.launch.pool import worker_count

slic = pytest.importorskip("skimage.segmentation").slic


def idx(array: NDArray[np.uint8]) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
    return gzip.compress(header + array.tobytes())


@pytest.fixture(scope="module")
def digits() -> NDArray[np.uint8]:
    """Handwritten digits of another collection, enlarged to 28 × 28."""
    small = load_digits().images[:60]
    large = np.kron(small, np.ones((3, 3)))
    blurred = ndimage.gaussian_filter(np.pad(large, ((0, 0), (2, 2), (2, 2))), (0, 1, 1))
    return (blurred / blurred.max() * 255).astype(np.uint8)


def published_loop(image: NDArray[np.uint8]) -> tuple[NDArray[np.int64], int]:
    """Segments by the published loop, and the number of attempts."""
    grey = (image / 255.0).astype(np.float32)
    requested, found, attempts = 95, 76, 0
    while found > 75:
        labels = slic(
            grey, n_segments=requested, compactness=0.25, channel_axis=None, start_label=0
        )
        found = len(np.unique(labels))
        requested, attempts = requested - 1, attempts + 1
    return labels, attempts


def same_as_the_loop(images: NDArray[np.uint8]) -> set[int]:
    numbers = set()
    for image in images:
        expected, attempts = published_loop(image)
        assert (segment(image) == expected).all()
        assert (np.unique(expected) == np.arange(expected.max() + 1)).all()
        numbers.add(attempts)
    return numbers


def test_segments_are_those_of_the_published_loop(digits: NDArray[np.uint8]) -> None:
    assert max(same_as_the_loop(digits[:6])) > 1  # or the short cut was not tried


def test_segments_of_real_images(raw_file: Callable[[str], Path]) -> None:
    images = read_idx(raw_file("mnist/t10k-images-idx3-ubyte.gz"))
    assert len(same_as_the_loop(images[::400])) > 1


def test_segments_of_odd_images() -> None:
    noise = np.random.RandomState(0).randint(0, 256, (3, 28, 28)).astype(np.uint8)
    odd = [np.zeros((28, 28)), np.full((28, 28), 255), np.indices((28, 28)).sum(0) % 2 * 255]
    same_as_the_loop(np.concatenate([noise, np.stack(odd).astype(np.uint8)]))


def test_measures_are_those_of_scipy(digits: NDArray[np.uint8]) -> None:
    labels = np.stack([segment(image) for image in digits[:10]])
    counts, intensity, centre = measure(digits[:10], labels)
    assert counts.dtype == np.int64
    assert intensity.dtype == centre.dtype == np.float32
    first = 0
    for image, label, count in zip(digits, labels, counts, strict=False):
        assert count == len(np.unique(label))
        for node in range(count):
            mask = label == node
            assert intensity[first + node] == pytest.approx((image / 255)[mask].mean(), abs=1e-6)
            expected = ndimage.center_of_mass(mask)
            assert centre[first + node] == pytest.approx(expected, abs=1e-5)
        first += count
    assert first == len(intensity) == len(centre)


# -- idx files --------------------------------------------------------------------------------


def test_real_labels_have_the_published_counts(raw_file: Callable[[str], Path]) -> None:
    label = read_idx(raw_file("mnist/train-labels-idx1-ubyte.gz"))
    published = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(label).tolist() == published


@pytest.mark.parametrize("kind", ["empty", "not gzip", "cut", "short", "floats"])
def test_a_damaged_idx_file_is_one_line(tmp_path: Path, kind: str) -> None:
    whole = idx(np.zeros((4, 28, 28), dtype=np.uint8))
    raw = gzip.decompress(whole)
    content = {
        "empty": b"",
        "not gzip": raw,
        "cut": whole[:-5],
        "short": gzip.compress(raw[:-1]),
        "floats": gzip.compress(raw[:2] + b"\x0d" + raw[3:]),
    }[kind]
    path = tmp_path / "images.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match="is not a whole gzipped idx file") as caught:
        read_idx(path)
    assert str(path) in str(caught.value)


# -- chunks and workers -----------------------------------------------------------------------


@pytest.fixture
def chunks(tmp_path: Path, digits: NDArray[np.uint8]) -> list[Chunk]:
    """Six chunks of ten images."""
    path = tmp_path / "images.gz"
    path.write_bytes(idx(digits))
    return [Chunk(str(path), i, i + 10, str(tmp_path / "out" / f"{i}")) for i in range(0, 60, 10)]


@pytest.fixture
def expected(digits: NDArray[np.uint8]) -> list[NDArray[np.float32]]:
    """Intensities of each chunk."""
    made = [measure(some, np.stack(list(map(segment, some)))) for some in np.split(digits, 6)]
    return [piece.intensity for piece in made]


def same(found: list[superpixels.Superpixels], expected: list[NDArray[np.float32]]) -> bool:
    return all((a.intensity == b).all() for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("workers", [1, pytest.param(3, marks=pytest.mark.medium)])
def test_any_number_of_workers_gives_the_same(
    chunks: list[Chunk],
    expected: list[NDArray[np.float32]],
    workers: int,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GSAT_JOBS", str(workers))
    started: list[object] = []

    class Counted(local.Worker):
        def __init__(self) -> None:
            started.append(self)
            super().__init__()

    monkeypatch.setattr(local, "Worker", Counted)
    assert same(list(compute(chunks)), expected)
    assert len(started) == (0 if workers == 1 else workers)
    assert capfd.readouterr() == ("", "")


def test_what_is_there_is_not_computed_again(
    chunks: list[Chunk], expected: list[NDArray[np.float32]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSAT_JOBS", "1")
    list(compute(chunks))
    damaged = Path(chunks[2].out)
    damaged.write_bytes(damaged.read_bytes()[:-7])
    Path(chunks[4].out).unlink()
    made: list[int] = []
    make = Chunk.make
    monkeypatch.setattr(Chunk, "make", lambda self: (made.append(self.first), make(self)))
    assert same(list(compute(chunks)), expected)
    assert made == [20, 40]
    assert not list(damaged.parent.glob("*.partial"))


@pytest.mark.parametrize("given", ["0", "-1", "two", "1.5"])
def test_a_wrong_number_of_jobs_is_one_line(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSAT_JOBS", given)
    with pytest.raises(DataError, match=f"1 or more, not '{re.escape(given)}'$"):
        worker_count()


def test_a_worker_that_dies_is_one_line(
    chunks: list[Chunk], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSAT_JOBS", "2")
    monkeypatch.setattr(sys, "executable", shutil.which("true"))
    with pytest.raises(DataError, match="ended early; run the same again to continue"):
        list(compute(chunks))


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.medium)])
def test_a_cache_that_cannot_be_written_is_one_line(
    chunks: list[Chunk], workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSAT_JOBS", str(workers))
    (tmp_path / "out").write_text("a file where a folder has to be")
    with pytest.raises(DataError, match="set GSAT_CACHE to another folder") as caught:
        list(compute(chunks))
    assert str(tmp_path / "out") in str(caught.value)
