"""Stores in one file and in shards: exact, memory-mapped, and complete or absent."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gsat.core import system
from gsat.core.errors import DataError
from gsat.core.tensors import write_tensors
from gsat.graphs import GraphBatch, GraphStore, ShardWriter, from_pyg, storage
from gsat.graphs.sharded_array import ShardedArray, content_digest
from gsat.graphs.storage import FILE, INDEX

Made = Callable[..., GraphStore]


@pytest.fixture
def full_store(random_graphs) -> Made:
    """``full_store(seed, level)``: a store with every optional array."""

    def make(seed: int, level: str = "graph", count: int = 25) -> GraphStore:
        rng = np.random.default_rng(seed)
        arrays = dict(from_pyg(random_graphs(seed, count)).arrays)
        nodes, edges = int(arrays["node_ptr"][-1]), int(arrays["edge_ptr"][-1])
        arrays["edge_weight"] = rng.normal(size=edges).astype(np.float32)
        arrays["graph.code"] = rng.integers(0, 99, size=(count, 2))
        if level == "node":
            del arrays["y"]
            arrays["node_y"] = rng.normal(size=(nodes, 2)).astype(np.float32)
            arrays["targets"] = rng.integers(0, 2, size=nodes) == 1
        else:
            arrays["y"] = rng.normal(size=(count, 3)).astype(np.float32)
        return GraphStore(arrays, {"classes": ["a", "ü"]})

    return make


def in_shards(store: GraphStore, folder: Path, shard_bytes: int = 3000) -> GraphStore:
    return GraphStore.load(storage.save(store, folder, shard_bytes))


def assert_same_batch(ours: GraphBatch, theirs: GraphBatch) -> None:
    for field in dataclasses.fields(theirs):
        a, b = getattr(ours, field.name), getattr(theirs, field.name)
        assert (a is None) == (b is None), field.name
        if b is not None:
            assert a.dtype == b.dtype, field.name
            assert torch.equal(a, b), field.name


def assert_same_store(ours: GraphStore, theirs: GraphStore) -> None:
    assert ours.meta == theirs.meta
    assert ours.arrays.keys() == theirs.arrays.keys()
    for name, values in theirs.arrays.items():
        np.testing.assert_array_equal(ours.arrays[name], values, err_msg=name, strict=True)


def listing(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


# -- the same graphs ---------------------------------------------------------------------------


def test_a_store_in_one_file_is_exact_and_a_view_is_saved_alone(
    tmp_path, random_graphs, same_graph
):
    graphs = random_graphs(1)
    store = from_pyg(graphs, meta={"classes": ["a", "ü"], "bias": 0.5})
    folder = tmp_path / "deep" / "down"
    for view, chosen in ((store, range(len(graphs))), (store.select([5, 2, 2]), [5, 2, 2])):
        assert view.save(folder) == folder
        assert listing(folder) == [FILE]
        loaded = GraphStore.load(folder)
        assert_same_store(loaded, view.compact())
        for place, i in enumerate(chosen):
            same_graph(loaded[place], graphs[i])


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("seed", range(6))
def test_shards_behave_like_the_whole_store(tmp_path, full_store, seed, level):
    whole = full_store(seed, level)
    shards = in_shards(whole, tmp_path)
    assert isinstance(shards.arrays["src"], ShardedArray)
    assert len(shards.arrays["src"].parts) > 2
    assert_same_store(shards, whole)
    assert content_digest(shards.arrays) == content_digest(whole.arrays)
    assert repr(shards) == repr(whole)
    assert shards.num_features == 3
    assert shards.num_edge_features == 2

    rng = np.random.default_rng(seed)
    chosen = np.zeros(whole.num_nodes, dtype=bool)
    chosen[rng.integers(0, whole.num_nodes, size=12)] = True
    views = [(shards, whole)]
    views += [(a.select(p), b.select(p)) for a, b in views for p in [rng.integers(0, 25, size=17)]]
    views += [(a.at_nodes(chosen), b.at_nodes(chosen)) for a, b in views]
    views += [(shards.at_nodes(None), whole.at_nodes(None))]
    for ours, theirs in views:
        np.testing.assert_array_equal(ours.labels(level), theirs.labels(level), strict=True)
        np.testing.assert_array_equal(ours.per_graph("code"), theirs.per_graph("code"))
        np.testing.assert_array_equal(ours.node_counts, theirs.node_counts)
        np.testing.assert_array_equal(ours.target_nodes(), theirs.target_nodes())
        np.testing.assert_array_equal(ours.target_places(), theirs.target_places())
        values = rng.normal(size=(theirs.num_edges, 2))
        np.testing.assert_array_equal(ours.caller_order(values), theirs.caller_order(values))
        assert_same_batch(ours.batch(), theirs.batch())
        for _ in range(4):
            ids = rng.integers(-len(theirs), len(theirs), size=rng.integers(0, 20))
            assert_same_batch(ours.batch(ids), theirs.batch(ids))
        for a, b in zip(ours.batches(4, 60), theirs.batches(4, 60), strict=True):
            assert_same_batch(a, b)
        assert_same_store(ours.compact(), theirs.compact())


def test_a_view_of_shards_can_be_saved(tmp_path, full_store):
    whole = full_store(1)
    ids = [20, 3, 3, 11, 0, 24, 7]
    view = in_shards(whole, tmp_path / "all").select(ids)
    for shard_bytes in (1500, 1 << 20):
        loaded = in_shards(view, tmp_path / str(shard_bytes), shard_bytes)
        assert_same_store(loaded, whole.select(ids).compact())
    assert listing(tmp_path / str(1 << 20)) == [FILE]


@pytest.mark.parametrize("sizes", [[25], [1] * 25, [3, 0, 14, 8]])
def test_files_do_not_depend_on_how_graphs_are_added(tmp_path, full_store, sizes):
    whole = full_store(2)
    storage.save(whole, tmp_path / "once", 3000)
    ends = np.cumsum(sizes)
    with ShardWriter(tmp_path / "parts", whole.meta, shard_bytes=3000) as writer:
        for end, size in zip(ends, sizes, strict=True):
            writer.add(whole.select(np.arange(end - size, end)))
    # The names hold checksums of the arrays.
    assert listing(tmp_path / "parts") == listing(tmp_path / "once")
    ours, theirs = (tmp_path / folder / INDEX for folder in ("parts", "once"))
    assert ours.read_text() == theirs.read_text()


def test_shards_are_filled_up_to_the_limit(tmp_path, full_store):
    whole = full_store(4, count=60)
    limit = 4000
    in_shards(whole, tmp_path, limit)
    index = json.loads((tmp_path / INDEX).read_text())
    counts = [shard["graphs"] for shard in index["shards"]]
    assert sum(counts) == 60
    sizes = storage.graph_bytes(whole)
    assert int(sizes.sum()) == sum(v.nbytes for v in whole.arrays.values()) - 16
    first = 0
    for count in counts:
        assert sizes[first : first + count].sum() <= limit
        assert sizes[first : first + count + 1].sum() > limit or first + count == 60
        first += count


def test_a_graph_larger_than_a_shard_is_not_divided(tmp_path, full_store):
    whole = full_store(5, count=8)
    shards = in_shards(whole, tmp_path, 1)
    assert_same_store(shards, whole)
    assert len(json.loads((tmp_path / INDEX).read_text())["shards"]) == 8


def test_arrays_may_change_after_they_are_added(tmp_path, full_store):
    whole = full_store(0)
    expected = content_digest(whole.arrays)
    with ShardWriter(tmp_path) as writer:
        writer.add(whole)
        whole.arrays["x"][:] = 0
    assert content_digest(GraphStore.load(tmp_path).arrays) == expected


def test_no_graphs_at_all(tmp_path):
    with ShardWriter(tmp_path, {"a": 1}):
        pass
    empty = GraphStore.load(tmp_path)
    assert len(empty) == empty.num_nodes == 0
    assert empty.meta == {"a": 1}
    assert empty.batch().num_graphs == 0


# -- complete or absent ------------------------------------------------------------------------


def test_a_store_can_be_loaded_only_when_it_is_complete(tmp_path, full_store):
    writer = ShardWriter(tmp_path, shard_bytes=1000)
    writer.add(full_store(0))
    assert len(listing(tmp_path)) > 2
    with pytest.raises(DataError, match=FILE):
        GraphStore.load(tmp_path)
    assert writer.close() == writer.close() == tmp_path
    assert len(GraphStore.load(tmp_path)) == 25
    with pytest.raises(DataError, match=str(tmp_path)):
        writer.add(full_store(0))


def break_off(folder: Path, *stores: GraphStore) -> None:
    with ShardWriter(folder, shard_bytes=3000) as writer:
        for store in stores:
            writer.add(store)
        assert any(folder.iterdir())
        raise ZeroDivisionError


def test_an_error_while_writing_leaves_nothing(tmp_path, full_store):
    with pytest.raises(ZeroDivisionError):
        break_off(tmp_path, full_store(0))
    assert listing(tmp_path) == []


@pytest.mark.parametrize("place", ["in a shard", "before the index"])
def test_a_full_disk_leaves_nothing(tmp_path, full_store, monkeypatch, place):
    write, create, calls = system.write, system.create, []

    def failing_write(handle: int, content: bytes) -> None:
        calls.append(handle)
        if len(calls) == 20:
            write(handle, content[: len(content) // 2])
            raise OSError(28, "No space left on device")
        write(handle, content)

    def failing_create(path: Path) -> int:
        if INDEX in path.name:
            path.touch()
            raise OSError(28, "No space left on device")
        return create(path)

    if place == "in a shard":
        monkeypatch.setattr(system, "write", failing_write)
    else:
        monkeypatch.setattr(system, "create", failing_create)
    with pytest.raises(OSError, match="No space left"):
        storage.save(full_store(0), tmp_path, 1000)
    assert listing(tmp_path) == []


def test_an_error_while_replacing_keeps_the_previous_store(tmp_path, full_store):
    old = full_store(0)
    in_shards(old, tmp_path)
    before = listing(tmp_path)
    with pytest.raises(ZeroDivisionError):  # the first shards have the same names
        break_off(tmp_path, old, full_store(1))
    assert listing(tmp_path) == before
    assert_same_store(GraphStore.load(tmp_path), old)


@pytest.mark.parametrize("shard_bytes", [3000, 1 << 20])
def test_an_abandoned_writer_keeps_the_previous_store(tmp_path, full_store, shard_bytes):
    """A killed process leaves the same files."""
    old, new = full_store(0), full_store(1)
    storage.save(old, tmp_path, shard_bytes)
    ShardWriter(tmp_path, shard_bytes=1000).add(new)
    assert len(listing(tmp_path)) > 3
    assert_same_store(GraphStore.load(tmp_path), old)
    assert_same_store(in_shards(new, tmp_path, 1000), new)


@pytest.mark.parametrize("before", [3000, 1 << 20])
@pytest.mark.parametrize("after", [2500, 1 << 20])
def test_a_store_of_either_kind_replaces_another(tmp_path, full_store, before, after):
    old, new = full_store(0), full_store(1)
    loaded = in_shards(old, tmp_path / "here", before)
    in_shards(new, tmp_path / "here", after)
    storage.save(new, tmp_path / "fresh", after)
    assert listing(tmp_path / "here") == listing(tmp_path / "fresh")
    assert_same_store(GraphStore.load(tmp_path / "here"), new)
    assert_same_store(loaded, old)  # open stores stay readable


@pytest.mark.parametrize("seed", [0, 1])
def test_concurrent_writers_do_not_disturb_each_other(tmp_path, full_store, seed):
    first, second = full_store(0), full_store(seed)
    one, other = (ShardWriter(tmp_path, first.meta, shard_bytes=1000) for _ in range(2))
    one.add(first)
    other.add(second)
    one.close()
    assert_same_store(GraphStore.load(tmp_path), first)
    other.close()
    assert_same_store(GraphStore.load(tmp_path), second)
    storage.save(second, tmp_path / "fresh", 1000)
    assert listing(tmp_path / "fresh") == [n for n in listing(tmp_path) if n != "fresh"]


@pytest.mark.parametrize("shard_bytes", [3000, 1 << 20])
def test_an_open_store_can_be_saved_over_itself(tmp_path, full_store, shard_bytes):
    whole = full_store(0)
    loaded = in_shards(whole, tmp_path, shard_bytes)
    names = listing(tmp_path)
    storage.save(loaded, tmp_path, shard_bytes)
    assert listing(tmp_path) == names
    storage.save(loaded.select([4, 2]), tmp_path, shard_bytes)
    assert_same_store(loaded, whole)
    assert_same_store(GraphStore.load(tmp_path), whole.select([4, 2]).compact())


# -- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shard_bytes", [300, 1 << 20])
def test_texts_of_shards_may_have_any_length(tmp_path, shard_bytes):
    texts = [["C", "CC"], ["C" * 30, ""], ["ä"]]
    with ShardWriter(tmp_path, shard_bytes=shard_bytes) as writer:
        for piece in texts:
            size = np.arange(len(piece) + 1)
            fields = {"smiles": piece}
            store = GraphStore.from_arrays(
                node_ptr=size, edge_ptr=0 * size, edge_index=[], graph_fields=fields
            )
            writer.add(store)
    loaded = GraphStore.load(tmp_path)
    assert loaded.texts("smiles") == ["C", "CC", "C" * 30, "", "ä"]
    assert loaded[2].smiles == "C" * 30


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"x": np.zeros((4, 5), np.float32)}, r"'x' .*float32 \[5\].*float32 \[3\]"),
        ({"x": np.zeros((4, 3), np.int64)}, r"'x' .*int64 \[3\].*float32 \[3\]"),
        ({"y": None}, "'y' .*missing.*int64"),
        ({"graph.b": np.zeros(1, np.int64)}, "'graph.b' .*int64.*missing"),
    ],
)
def test_graphs_with_other_arrays_can_not_be_added(tmp_path, change, named):
    data = Data(edge_index=torch.tensor([[0], [1]]), x=torch.zeros(4, 3), y=1)
    store = from_pyg([data])
    arrays = {k: v for k, v in {**store.arrays, **change}.items() if v is not None}
    writer = ShardWriter(tmp_path)
    writer.add(store)
    with pytest.raises(DataError, match=named):
        writer.add(GraphStore(arrays, {}))


@pytest.mark.parametrize("shard_bytes", [3000, 1 << 20])
@pytest.mark.parametrize("damage", ["missing", "cut", "empty", "text", "header"])
def test_a_damaged_file_is_named(tmp_path, full_store, damage, shard_bytes):
    in_shards(full_store(0), tmp_path, shard_bytes)
    file = next(tmp_path.glob("graphs-00001-*"), tmp_path / FILE)
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        damaged = {
            "cut": content[:-8],
            "empty": b"",
            "text": b"hello" * 50,
            "header": b"\xff" * 8 + content[8:],
        }
        file.write_bytes(damaged[damage])
    with pytest.raises(DataError, match=file.name) as caught:
        GraphStore.load(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "hello",
        "[]",
        "{}",
        '{"format": "gsat-shards-1", "meta": {}, "shards": []}',
        '{"format": "gsat-shards-1", "meta": {}, "shards": [{"file": "../x.safetensors"}]}',
        '{"format": "gsat-shards-1", "meta": 1, "shards": [1]}',
    ],
)
def test_a_damaged_index_is_named(tmp_path, content):
    (tmp_path / INDEX).write_text(content)
    with pytest.raises(DataError, match=INDEX) as caught:
        GraphStore.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_shards_of_different_stores_are_refused(tmp_path, full_store):
    in_shards(full_store(0), tmp_path)
    in_shards(full_store(0, "node"), tmp_path / "other")
    index = json.loads((tmp_path / INDEX).read_text())
    foreign = json.loads((tmp_path / "other" / INDEX).read_text())["shards"][0]
    index["shards"].append(foreign)
    (tmp_path / INDEX).write_text(json.dumps(index))
    (tmp_path / "other" / foreign["file"]).rename(tmp_path / foreign["file"])
    with pytest.raises(DataError, match=INDEX):
        GraphStore.load(tmp_path)


def test_files_of_another_version_are_refused(tmp_path):
    write_tensors(tmp_path / FILE, {"x": np.zeros(1, np.float32)}, {"format": "gsat-graphs-0"})
    with pytest.raises(DataError, match="gsat-graphs-0"):
        GraphStore.load(tmp_path)
    (tmp_path / INDEX).write_text('{"format": "gsat-shards-9"}')
    with pytest.raises(DataError, match="gsat-shards-9"):
        GraphStore.load(tmp_path)


def test_replacing_removes_only_files_of_the_store(tmp_path, full_store):
    (tmp_path / "mine.txt").write_text("precious")
    store = tmp_path / "store"
    store.mkdir()
    shards = [{"file": "../mine.txt", "graphs": 1, "bytes": 1}]
    (store / INDEX).write_text(
        json.dumps({"format": "gsat-shards-1", "meta": {}, "shards": shards})
    )
    in_shards(full_store(0), store)
    assert (tmp_path / "mine.txt").read_text() == "precious"


# -- memory ------------------------------------------------------------------------------------


@pytest.mark.medium
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize("shard_bytes", [16 << 20, 1 << 40])
def test_batches_of_a_large_store_need_little_memory(tmp_path, shard_bytes):
    graphs, nodes = 500, 1000
    chunk = GraphStore.from_arrays(
        node_ptr=np.arange(101) * nodes,
        edge_ptr=np.zeros(101),
        edge_index=np.zeros((2, 0)),
        x=np.ones((100 * nodes, 16), np.float32),
    )
    with ShardWriter(tmp_path, shard_bytes=shard_bytes) as writer:
        for _ in range(graphs // 100):
            writer.add(chunk)
    code = (
        "import sys; import numpy as np; from gsat.graphs import GraphStore\n"
        "def own():  # megabytes of memory that do not belong to files\n"
        "    text = open('/proc/self/status').read()\n"
        "    return int(text.split('RssAnon:')[1].split()[0]) / 1024\n"
        "before = own(); store = GraphStore.load(sys.argv[1]); peak = own(); total = 0\n"
        "for ids in np.random.default_rng(0).permutation(len(store)).reshape(-1, 10):\n"
        "    total += float(store.batch(ids).x.sum()); peak = max(peak, own())\n"
        "print(peak - before, total)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    memory, total = map(float, done.stdout.split())
    assert total == graphs * nodes * 16  # all 30 MB were read
    assert memory < 20
