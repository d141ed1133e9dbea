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

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from gsat.core.errors import DataError, MissingExtraError
from gsat.core.files import sha256
from gsat.core.folders import cache_folder
from gsat.core.registry import register_dataset
from gsat.datasets.fetch.raw_files import RawFile
from gsat.datasets.source import DatasetOptions, DatasetSource, Match

if TYPE_CHECKING:
    from torch import Tensor

    from gsat.datasets.sources.superpixels import Superpixels
    from gsat.graphs import GraphStore

    Piece = tuple[Superpixels, NDArray[np.int64]]  # superpixels of some images, and their digits

SIDE: Final = 28  # pixels
SCALE: Final = (0.1 * np.pi) ** 2  # of distances, the image being 1 wide
FAINTEST: Final = 0.1  # edges with less weight are left out
NODE_SEED: Final = 111
CHUNK: Final = 1000  # images; about two seconds of work
FEWEST: Final = 12  # training images; below that a split is empty
# By file: its size, the SHA-256 of the published bytes, and of the same content packed again.
MNIST: Final = {
    "train-images-idx3-ubyte.gz": (
        9_912_422,
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "0b367032e93c5d0cea0925647cfdb18614af8ee15f83e6f2fc2ad904a6835971",
    ),
    "train-labels-idx1-ubyte.gz": (
        28_881,
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "1787548bbe0bff1ec2ecdc0ef292b02df999e2d1a6002d27500982c652b17203",
    ),
    "t10k-images-idx3-ubyte.gz": (
        1_648_877,
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "1a1a05eab793c14bb050b398624a11b0ffd1a2953baed553b1b9bd079e2a20be",
    ),
    "t10k-labels-idx1-ubyte.gz": (
        4_542,
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        "b91679a0acfe4ba0e50a2437a903084cba1f5f92592b016a25a7dfd00455798b",
    ),
}


@register_dataset("mnist75sp")
class MNIST75sp(DatasetSource):
    """70000 handwritten digits as graphs of up to 75 superpixels; bright ones are the truth."""

    class Options(DatasetOptions):
        source: Literal["images", "published"] = Field(
            "images",
            description="'images': superpixels computed from MNIST; 'published': those of "
            "Knyazev et al.",
        )
        images: int = Field(
            0,
            ge=0,
            description="only the first training images, and a sixth as many for test; 0: all",
        )

        @field_validator("images")
        @classmethod
        def _check_images(cls, images: int) -> int:
            if 0 < images < FEWEST:
                raise DataError(
                    f"data option 'images' must be 0 (all) or at least {FEWEST}, not {images}"
                )
            return images

    files: ClassVar = {
        "images": tuple(
            RawFile(
                f"mnist/{name}",
                (published, packed_again),
                "LeCun, Cortes and Burges, by PyTorch's mirror",
                url=f"https://ossci-datasets.s3.amazonaws.com/mnist/{name}",
                size=size,
            )
            for name, (size, published, packed_again) in MNIST.items()
        ),
        "published": tuple(
            RawFile(
                f"mnist/mnist_75sp_{part}.pkl",
                "",
                "drive.google.com/drive/folders/1Prc-n9Nr8-5z-xphdRScftKKIxU4Olzh",
            )
            for part in ("train", "test")
        ),
    }
    in_paper = True
    task_settings: ClassVar = {"kind": "multiclass", "classes": 10}

    def build(self, name: str, options: Options, data_seed: int) -> GraphStore:
        """Make the training graphs, then the test graphs, in the order of their files."""
        from gsat.graphs import GraphStore

        wanted = options.images
        files = [file.require() for file in self.raw_files(name, options)]
        if options.source == "published":
            train, test = _published(files[0], wanted), _published(files[1], wanted // 6)
        else:
            try:
                import skimage  # noqa: F401
            except ImportError:
                raise MissingExtraError("scikit-image", "images", "computing superpixels") from None
            train = _computed(files[0], files[1], wanted)
            test = _computed(files[2], files[3], wanted // 6)
        arrays: dict[str, NDArray[Any]] = {}
        for piece in train:
            _append(arrays, digit_graphs(*piece))
        meta = {"classes": [str(digit) for digit in range(10)], "training": len(arrays["y"])}
        for piece in test:
            _append(arrays, digit_graphs(*piece))
        return GraphStore(arrays, meta)

    def split(self, store: GraphStore, seed: int, options: Options) -> dict[str, NDArray[np.int64]]:
        """Split as published: some of the training graphs, shuffled, and all test graphs.

        Of the 60 000 training graphs the first 20 000 are for training and the last 5000 for
        validation; the test is on all 10 000 test graphs. With fewer ``images`` the proportions are
        the same.
        """
        import torch

        count = store.meta["training"]
        order = torch.randperm(count, generator=torch.Generator().manual_seed(seed)).numpy()
        return {
            "train": order[: count // 3],
            "valid": order[count - count // 12 :],
            "test": np.arange(count, len(store)),
        }

    def matches_paper(self, name: str, options: Options) -> Match:
        """``yes`` for the published superpixels, ``rebuilt`` for computed ones."""
        if options.images:
            return "different"
        return "yes" if options.source == "published" else "rebuilt"

    def positions(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return where superpixels are in the image, and how bright."""
        import torch

        return torch.stack([x[:, 4], 1 - x[:, 3]], dim=1), x[:, 0]


def digit_graphs(superpixels: Superpixels, label: NDArray[np.int64]) -> GraphStore:
    """Make graphs of superpixels; edges row by row, both directions."""
    from gsat.graphs import GraphStore
    from gsat.graphs.build import offsets

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
    return GraphStore.from_arrays(
        node_ptr=offsets(counts),
        edge_ptr=offsets(np.bincount(graph, minlength=graphs)),
        edge_index=np.stack([src, dst]),
        x=np.concatenate([np.stack([intensity] * 3, axis=1), centre], axis=1),
        edge_attr=weight[near],
        y=label,
        node_truth=intensity > 0,
        edge_truth=bright[graph, src] & bright[graph, dst],
    )


def _computed(images: Path, labels: Path, wanted: int) -> Iterator[Piece]:
    """Superpixels of the first images (all: 0), computed or from the cache, and their labels."""
    from gsat.datasets.sources.superpixels import Chunk, compute, read_idx

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
    from gsat.datasets.sources.superpixels import Superpixels

    counts = superpixels.counts
    order = np.concatenate([rng.permutation(n) for n in counts])
    order += np.repeat(np.cumsum(counts) - counts, counts)
    return Superpixels(counts, superpixels.intensity[order], superpixels.centre[order])


def _published(path: Path, wanted: int) -> Iterator[Piece]:
    """Superpixels of the published pickle, and their labels.

    It holds labels and, for each image, intensities, centres and the order of the nodes, which
    are in that order already.
    """
    from gsat.datasets.fetch.unpickle import load_pickle
    from gsat.datasets.sources.superpixels import Superpixels

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
    """Number of images to take from a file."""
    if wanted > there:
        raise DataError(f"{path} holds {there} images, fewer than the {wanted} wanted")
    return wanted or there


def _append(arrays: dict[str, NDArray[Any]], piece: GraphStore) -> None:
    """Append the graphs of ``piece`` to those in ``arrays``.

    The arrays grow in place: pieces that are kept and joined at the end would need twice the
    memory.
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
