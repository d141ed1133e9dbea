"""MNIST-75sp: handwritten digits as graphs of up to 75 superpixels (Knyazev et al., 2019).

A node is a superpixel: its mean intensity, three times (room for colours), and its centre, row and
column as shares of the image. Near superpixels are joined, both ways; the edge attribute falls with
their distance. The truth is the digit itself: superpixels brighter than 0, and edges between such.

``source="images"`` (the default) computes the superpixels from MNIST; ``source="published"`` reads
those the paper used. The order of a graph's nodes means nothing, so it is shuffled, as published:
by one stream of permutations with seed 111 over the training images and the same over the test
images. The first images are thus the same graphs whatever comes after them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsat.datasets.registry import MNIST75SP
from gsat.datasets.sources.superpixels import Chunk, Superpixels, compute, read_idx
from gsat.errors import DataError, MissingExtraError
from gsat.graphs import GraphStore
from gsat.io.folders import cache_folder
from gsat.io.hashes import sha256
from gsat.tasks import Task

VERSION: Final = 1
TASK: Final = Task("multiclass", classes=10)
SPLIT_OPTIONS: Final[frozenset[str]] = frozenset()

SIDE: Final = 28  # pixels
SCALE: Final = (0.1 * np.pi) ** 2  # of distances, the image being 1 wide
FAINTEST: Final = 0.1  # edges with less weight are left out
NODE_SEED: Final = 111
CHUNK: Final = 1000  # images; about two seconds of work
FEWEST: Final = 12  # training images; below that a split is empty

Piece = tuple[Superpixels, NDArray[np.int64]]


def build(name: str, options: Mapping[str, Any]) -> GraphStore:
    """The training graphs, then the test graphs, in the order of their files."""
    wanted = options["images"]
    if wanted and wanted < FEWEST:
        raise DataError(f"data option 'images' is 0 (all) or at least {FEWEST}, not {wanted}")
    files = [file.require() for file in MNIST75SP.raw_files(options)]
    if options["source"] == "published":
        train, test = _published(files[0], wanted), _published(files[1], wanted // 6)
    else:
        _check_installed()
        train = _computed(files[0], files[1], wanted)
        test = _computed(files[2], files[3], wanted // 6)
    arrays: dict[str, NDArray[Any]] = {}
    for piece in train:
        _append(arrays, digit_graphs(*piece))
    meta = {"classes": [str(digit) for digit in range(10)], "training": len(arrays["y"])}
    for piece in test:
        _append(arrays, digit_graphs(*piece))
    return GraphStore(arrays, meta)


def split(store: GraphStore, seed: int, options: Mapping[str, Any]) -> dict[str, NDArray[np.int64]]:
    """A shuffle of the 60 000 training graphs, the published one: its first 20 000 train, its last
    5000 validate. All 10 000 test graphs. Fewer ``images``: in the same proportions."""
    count = store.meta["training"]
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed)).numpy()
    return {
        "train": order[: count // 3],
        "valid": order[count - count // 12 :],
        "test": np.arange(count, len(store)),
    }


def matches_paper(name: str, options: Mapping[str, Any]) -> str:
    """``yes`` for the published superpixels, ``rebuilt`` for computed ones."""
    if options["images"]:
        return "different"
    return "yes" if options["source"] == "published" else "rebuilt"


def places(x: Tensor) -> tuple[Tensor, Tensor]:
    """Where superpixels are in the image, and how bright.

    Args:
        x: [N, 5], features of nodes.

    Returns:
        ``pos`` [N, 2], to the right and up, and ``shade`` [N] in [0, 1].
    """
    return torch.stack([x[:, 4], 1 - x[:, 3]], dim=1), x[:, 0]


def digit_graphs(superpixels: Superpixels, label: NDArray[np.int64]) -> GraphStore:
    """Graphs of superpixels; edges row by row, both directions.

    Args:
        superpixels: of G images. label: [G], the digits.
    """
    counts, intensity, centre = superpixels
    graphs, most = len(counts), int(counts.max())
    place = np.arange(most) < counts[:, None]
    centre = centre / np.float32(SIDE)
    row, column = np.zeros((2, graphs, most))
    row[place], column[place] = centre.T
    apart = np.hypot(row[:, :, None] - row[:, None], column[:, :, None] - column[:, None])
    weight = np.exp(-apart / SCALE)
    near = (weight > FAINTEST) & place[:, :, None] & place[:, None]
    near[:, np.arange(most), np.arange(most)] = False
    graph, src, dst = np.nonzero(near)

    bright = np.zeros(place.shape, dtype=bool)
    bright[place] = intensity > 0
    edges = np.bincount(graph, minlength=graphs)
    return GraphStore.from_arrays(
        node_ptr=np.concatenate([[0], np.cumsum(counts)]),
        edge_ptr=np.concatenate([[0], np.cumsum(edges)]),
        edge_index=np.stack([src, dst]),
        x=np.concatenate([np.stack([intensity] * 3, axis=1), centre], axis=1),
        edge_attr=weight[near],
        y=label,
        node_truth=intensity > 0,
        edge_truth=bright[graph, src] & bright[graph, dst],
    )


def _computed(images: Path, labels: Path, wanted: int) -> Iterator[Piece]:
    """Superpixels of the first images (all: 0), and their labels."""
    pixels, label = read_idx(images), read_idx(labels).astype(np.int64)
    total = _enough(len(pixels), wanted, images)
    if pixels.shape[1:] != (SIDE, SIDE) or len(label) != len(pixels):
        raise DataError(
            f"{images} and {labels.name} hold {pixels.shape} pixels and {len(label)} labels, "
            f"not as many images of {SIDE} × {SIDE} as labels; get them again"
        )
    # Superpixels belong to the pixels and to the program that made them, not to a file's packing.
    content = sha256(pixels.tobytes())[:16]
    folder = cache_folder() / "superpixels" / f"{content}-{version('scikit-image')}"
    chunks = []
    for first in range(0, total, CHUNK):
        last = min(first + CHUNK, total)
        out = folder / f"{first:05}-{last:05}.safetensors"
        chunks.append(Chunk(str(images), first, last, str(out)))
    rng = np.random.RandomState(NODE_SEED)
    for chunk, superpixels in zip(chunks, compute(chunks), strict=True):
        yield _shuffled(superpixels, rng), label[chunk.first : chunk.last]


def _shuffled(superpixels: Superpixels, rng: np.random.RandomState) -> Superpixels:
    """The superpixels of every image in an order drawn for it."""
    counts = superpixels.counts
    order = np.concatenate([rng.permutation(n) for n in counts])
    order += np.repeat(np.cumsum(counts) - counts, counts)
    return Superpixels(counts, superpixels.intensity[order], superpixels.centre[order])


def _published(path: Path, wanted: int) -> Iterator[Piece]:
    """The superpixels of the published pickle: labels, and for each image intensities, centres
    and the order of the nodes, which are in that order already."""
    from gsat.datasets.fetch.unpickle import load_pickle

    try:
        label, images = load_pickle(path)
        label = np.asarray(label).astype(np.int64)
        total = _enough(len(images), wanted, path)
        if label.shape != (len(images),):
            raise ValueError(f"{len(images)} images have {label.size} labels")
        for first in range(0, total, CHUNK):
            some = images[first : min(first + CHUNK, total)]
            superpixels = Superpixels(
                np.array([len(image[0]) for image in some], dtype=np.int64),
                # Grey images: where there are three channels, they are the same.
                np.concatenate([np.reshape(i[0], (len(i[0]), -1))[:, 0] for i in some]),
                np.concatenate([np.reshape(i[1], (len(i[0]), 2)) for i in some]),
            )
            yield superpixels, label[first : first + len(some)]
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise DataError(f"{path} does not hold superpixels ({error}); get it again") from error


def _enough(there: int, wanted: int, path: Path) -> int:
    if wanted > there:
        raise DataError(f"{path} holds {there} images, fewer than the {wanted} asked for")
    return wanted or there


def _check_installed() -> None:
    try:
        import skimage  # noqa: F401
    except ImportError:
        raise MissingExtraError("scikit-image", "images", "computing superpixels") from None


def _append(arrays: dict[str, NDArray[Any]], piece: GraphStore) -> None:
    """Put the graphs of ``piece`` behind those in ``arrays``.

    The arrays grow in place: pieces that are kept and joined at the end are there twice.
    """
    for name, column in piece.arrays.items():
        values = np.asarray(column)
        if name not in arrays:
            arrays[name] = values.copy()
            continue
        have = arrays[name]
        if name in ("node_ptr", "edge_ptr"):
            values = values[1:] + have[-1]
        rows = len(have)
        have.resize((rows + len(values), *have.shape[1:]), refcheck=False)
        have[rows:] = values
