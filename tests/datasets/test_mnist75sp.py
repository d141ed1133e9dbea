"""MNIST-75sp: graphs against brute force, the published formats, and the real files' numbers."""

from __future__ import annotations

import math
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gsat.core.errors import DataError, MissingExtraError
from gsat.datasets.load import Dataset, add_positions, load_dataset
from gsat.datasets.sources import mnist75sp
from gsat.datasets.sources.mnist75sp import MNIST75sp, digit_graphs
from gsat.datasets.sources.superpixels import Superpixels, measure, read_idx, segment
from gsat.explanation import Explanation

pytest.importorskip("skimage")

SAMPLE = 240  # training images; 40 for test


def random_superpixels(seed: int, graphs: int = 7) -> Superpixels:
    rng = np.random.RandomState(seed)
    counts = np.append(1, rng.randint(2, 76, graphs - 1))  # one graph without an edge
    total = counts.sum()
    intensity = np.maximum(rng.uniform(-1, 1, total), 0)
    centre = rng.uniform(0, 28, (total, 2))
    return Superpixels(counts, intensity.astype(np.float32), centre.astype(np.float32))


def test_positions_are_those_of_the_image() -> None:
    superpixels = random_superpixels(0)
    store = digit_graphs(superpixels, np.arange(len(superpixels.counts)))
    for number, (intensity, centre) in enumerate(one_by_one(superpixels)):
        explanation = Explanation(x=store[number].x)
        add_positions(explanation, {"made_by": {"name": "mnist75sp"}})
        right, up = explanation.pos.T.numpy()
        # Rows are counted from the top of an image.
        assert right == pytest.approx(centre[:, 1] / 28)
        assert up == pytest.approx(1 - centre[:, 0] / 28)
        assert explanation.shade.numpy() == pytest.approx(intensity)


def one_by_one(superpixels: Superpixels) -> list[tuple[np.ndarray, np.ndarray]]:
    ends = np.cumsum(superpixels.counts)[:-1]
    parts = np.split(superpixels.intensity, ends), np.split(superpixels.centre, ends)
    return list(zip(*parts, strict=True))


# -- graphs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_graphs_by_brute_force(seed: int) -> None:
    superpixels = random_superpixels(seed)
    store = digit_graphs(superpixels, np.arange(len(superpixels.counts)))
    reach = math.log(10) * (0.1 * math.pi) ** 2
    assert reach == pytest.approx(0.22726, abs=1e-5)
    for number, (intensity, centre) in enumerate(one_by_one(superpixels)):
        edges, weights, truth = [], [], []
        for u, (row_u, column_u) in enumerate(centre.tolist()):
            for v, (row_v, column_v) in enumerate(centre.tolist()):
                distance = math.dist((row_u / 28, column_u / 28), (row_v / 28, column_v / 28))
                if u != v and distance < reach:
                    edges.append((u, v))
                    weights.append(math.exp(-distance / (0.1 * math.pi) ** 2))
                    truth.append(bool(intensity[u] > 0 and intensity[v] > 0))
        graph = store[number]
        assert graph.edge_index.T.tolist() == [list(edge) for edge in edges]
        assert graph.edge_attr.shape == (len(edges), 1)
        assert graph.edge_attr[:, 0].tolist() == pytest.approx(weights, abs=1e-6)
        assert graph.edge_truth.tolist() == truth
        assert graph.node_truth.tolist() == (intensity > 0).tolist()
        assert graph.x[:, 0].tolist() == intensity.tolist()
        assert graph.x[:, 3:].numpy() == pytest.approx(centre / 28)
        assert graph.y.tolist() == [number]
    x, weight = store.arrays["x"], store.arrays["edge_attr"]
    assert x.shape[1] == 5
    assert (x[:, [0]] == x[:, :3]).all()
    assert weight.min() > 0.1
    assert weight.max() < 1
    assert store.per_graph("undirected").all()


# -- the first images of the real files -------------------------------------------------------


@pytest.fixture(scope="module")
def sample(raw_file: Callable[[str], Path]) -> Dataset:
    for file in MNIST75sp.files["images"]:
        raw_file(file.path)
    return load_dataset("mnist75sp", images=SAMPLE)


def test_sample(sample: Dataset, raw_data: Path) -> None:
    store = sample.store
    assert [len(sample.splits[s]) for s in ("train", "valid", "test")] == [80, 20, 40]
    assert store.per_graph("y").dtype == np.int64
    for split, name in (("train", "train"), ("test", "t10k")):
        label = read_idx(raw_data / f"mnist/{name}-labels-idx1-ubyte.gz")
        rows = sample.splits[split] - (SAMPLE if split == "test" else 0)
        assert (sample.split(split).per_graph("y") == label[rows]).all()
    assert store.node_counts.max() <= 75
    assert store.node_counts.mean() == pytest.approx(67, abs=1)
    assert store.edge_counts.mean() == pytest.approx(542, abs=15)
    assert sample.matches_paper == "different"


def test_node_order_is_one_stream_of_seed_111(sample: Dataset, raw_data: Path) -> None:
    for first, name in ((0, "train"), (SAMPLE, "t10k")):
        images = read_idx(raw_data / f"mnist/{name}-images-idx3-ubyte.gz")[:30]
        rng = np.random.RandomState(111)
        for number, image in enumerate(images):
            _, intensity, centre = measure(image[None], segment(image)[None])
            order = rng.permutation(len(intensity))
            graph = sample.store[first + number]
            assert (graph.x[:, 0].numpy() == intensity[order]).all()
            assert (graph.x[:, 3:].numpy() == (centre[order] / 28)).all()


def test_chunks_do_not_matter(
    sample: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSAT_CACHE", str(tmp_path))
    monkeypatch.setattr(mnist75sp, "CHUNK", 70)
    again = load_dataset("mnist75sp", images=SAMPLE)
    assert len(list(tmp_path.glob("superpixels/*/*"))) == 4 + 1
    assert again.hash == sample.hash


@pytest.mark.parametrize("seed", [0, 3])
def test_split_is_the_published_one(sample: Dataset, seed: int) -> None:
    splits = load_dataset("mnist75sp", images=SAMPLE, seed=seed).splits
    order = torch.randperm(SAMPLE, generator=torch.Generator().manual_seed(seed)).numpy()
    assert (splits["train"] == order[:80]).all()
    assert (splits["valid"] == order[-20:]).all()
    assert (splits["test"] == np.arange(SAMPLE, SAMPLE + 40)).all()
    assert not set(splits["train"]) & set(splits["valid"])


# -- the published superpixels ----------------------------------------------------------------


def published(superpixels: Superpixels, label: np.ndarray, shape: tuple[int, ...]) -> object:
    """As Knyazev et al. wrote it: labels, and (intensity, coordinates, order) for each image."""
    images = [
        (
            np.broadcast_to(np.reshape(i, (-1, *[1] * len(shape))), (len(i), *shape)),
            c,
            range(len(i)),
        )
        for i, c in one_by_one(superpixels)
    ]
    return label.astype(np.int32), [(i, c, np.array(order, np.int32)) for i, c, order in images]


@pytest.fixture
def pickles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for published pickles, as GSAT_DATA, and a new cache."""
    monkeypatch.setenv("GSAT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("GSAT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data" / "mnist").mkdir(parents=True)
    return tmp_path / "data" / "mnist"


def write(folder: Path, seed: int = 0, shape: tuple[int, ...] = (1,), protocol: int = 2) -> None:
    for part, graphs in (("train", 24), ("test", 4)):
        content = published(random_superpixels(seed, graphs), np.arange(graphs) % 10, shape)
        (folder / f"mnist_75sp_{part}.pkl").write_bytes(pickle.dumps(content, protocol))


@pytest.mark.parametrize(("shape", "protocol"), [((), 2), ((1,), 2), ((3,), 4)])
def test_published_pickles(pickles: Path, shape: tuple[int, ...], protocol: int) -> None:
    write(pickles, shape=shape, protocol=protocol)
    data = load_dataset("mnist75sp", source="published")
    assert [len(data.splits[s]) for s in ("train", "valid", "test")] == [8, 2, 4]
    assert data.matches_paper == "yes"
    for first, graphs in ((0, 24), (24, 4)):
        expected = digit_graphs(random_superpixels(0, graphs), np.arange(graphs) % 10)
        found = data.store.select(np.arange(first, first + graphs)).compact()
        for name in expected.arrays:
            assert (found.arrays[name] == expected.arrays[name]).all(), name
    some = load_dataset("mnist75sp", source="published", images=12)
    assert (len(some.store), some.matches_paper) == (14, "different")


def test_another_pickle_is_not_answered_from_the_cache(pickles: Path) -> None:
    write(pickles, seed=0)
    before = load_dataset("mnist75sp", source="published")
    write(pickles, seed=1)
    assert load_dataset("mnist75sp", source="published").hash != before.hash


@pytest.mark.parametrize(
    "content",
    [
        5,
        (np.zeros(24, np.int32),),
        (np.zeros(23, np.int32), [(np.zeros(2), np.zeros((2, 2)), np.zeros(2))] * 24),
        (np.zeros(24, np.int32), [(np.zeros(2), np.zeros((3, 2)), np.zeros(2))] * 24),
        (np.zeros(24, np.int32), [np.zeros(())] * 24),
        (["a"] * 24, [(np.zeros(2), np.zeros((2, 2)), np.zeros(2))] * 24),
    ],
)
def test_a_pickle_of_something_else_is_one_line(pickles: Path, content: Any) -> None:
    write(pickles)
    (pickles / "mnist_75sp_train.pkl").write_bytes(pickle.dumps(content))
    with pytest.raises(DataError, match="does not hold superpixels") as caught:
        load_dataset("mnist75sp", source="published")
    assert str(pickles / "mnist_75sp_train.pkl") in str(caught.value)


# -- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize("images", [-1, 1, 11])
def test_too_few_images(images: int) -> None:
    with pytest.raises(DataError, match=f"'images'.*, not {images}$"):
        load_dataset("mnist75sp", images=images)


@pytest.mark.usefixtures("raw_data")
def test_without_scikit_image(sample: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "skimage", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'torch-gsat\[images\]'"):
        load_dataset("mnist75sp", images=30)
