"""A store in shards: the same graphs as in one file, and never half a store."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
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


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("seed", range(6))
def test_everything_is_as_in_one_piece(tmp_path, full_store, seed, level):
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


def test_graphs_come_out_as_pyg_gave_them(tmp_path, random_graphs, same_graph):
    graphs = random_graphs(3, 20)
    shards = in_shards(from_pyg(graphs), tmp_path, 2000)
    for ours, graph in zip(shards, graphs, strict=True):
        same_graph(ours, graph)
    same_graph(shards[-3], graphs[-3])


def test_a_view_of_shards_is_saved_alone(tmp_path, full_store):
    whole = full_store(1)
    ids = [20, 3, 3, 11, 0, 24, 7]
    view = in_shards(whole, tmp_path / "all").select(ids)
    for shard_bytes in (1500, 1 << 20):
        loaded = in_shards(view, tmp_path / str(shard_bytes), shard_bytes)
        assert_same_store(loaded, whole.select(ids).compact())
    assert listing(tmp_path / str(1 << 20)) == [FILE]


@pytest.mark.parametrize("sizes", [[25], [1] * 25, [3, 0, 14, 8]])
def test_the_same_graphs_give_the_same_files_however_they_come(tmp_path, full_store, sizes):
    whole = full_store(2)
    storage.save(whole, tmp_path / "once", 3000)
    ends = np.cumsum(sizes)
    with ShardWriter(tmp_path / "pieces", whole.meta, shard_bytes=3000) as writer:
        for end, size in zip(ends, sizes, strict=True):
            writer.add(whole.select(np.arange(end - size, end)))
    # The names hold checksums of the arrays.
    assert listing(tmp_path / "pieces") == listing(tmp_path / "once")
    ours, theirs = (tmp_path / folder / INDEX for folder in ("pieces", "once"))
    assert ours.read_text() == theirs.read_text()


def test_a_shard_is_full_but_not_more_than_full(tmp_path, full_store):
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


def test_a_graph_larger_than_a_shard_is_not_cut(tmp_path, full_store):
    whole = full_store(5, count=8)
    shards = in_shards(whole, tmp_path, 1)
    assert_same_store(shards, whole)
    assert len(json.loads((tmp_path / INDEX).read_text())["shards"]) == 8


def test_what_is_given_may_change_afterwards(tmp_path, full_store):
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


# -- never half a store ------------------------------------------------------------------------


def test_there_is_nothing_to_load_before_the_end(tmp_path, full_store):
    writer = ShardWriter(tmp_path, shard_bytes=1000)
    writer.add(full_store(0))
    assert len(listing(tmp_path)) > 2
    with pytest.raises(DataError, match="holds no saved graphs"):
        GraphStore.load(tmp_path)
    assert writer.close() == writer.close() == tmp_path
    assert len(GraphStore.load(tmp_path)) == 25
    with pytest.raises(DataError, match="nothing can be added"):
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


def test_a_full_disk_leaves_nothing(tmp_path, full_store, monkeypatch):
    written = system.write
    calls = []

    def full(handle: int, content: bytes) -> None:
        calls.append(handle)
        if len(calls) == 20:
            written(handle, content[: len(content) // 2])
            raise OSError(28, "No space left on device")
        written(handle, content)

    monkeypatch.setattr(system, "write", full)
    with pytest.raises(OSError, match="No space left"):
        storage.save(full_store(0), tmp_path, 1000)
    assert len(calls) == 20
    assert listing(tmp_path) == []


def test_a_disk_that_is_full_at_the_end_leaves_nothing(tmp_path, full_store, monkeypatch):
    created = system.create

    def full(path: Path) -> int:
        if INDEX in path.name:
            path.touch()
            raise OSError(28, "No space left on device")
        return created(path)

    monkeypatch.setattr(system, "create", full)
    with pytest.raises(OSError, match="No space left"):
        storage.save(full_store(0), tmp_path, 1000)
    assert listing(tmp_path) == []


def test_an_error_while_replacing_keeps_the_store_from_before(tmp_path, full_store):
    old = full_store(0)
    in_shards(old, tmp_path)
    before = listing(tmp_path)
    with pytest.raises(ZeroDivisionError):  # the first shards have the names of those before
        break_off(tmp_path, old, full_store(1))
    assert listing(tmp_path) == before
    assert_same_store(GraphStore.load(tmp_path), old)


@pytest.mark.parametrize("shard_bytes", [3000, 1 << 20])
def test_an_abandoned_writer_leaves_the_store_from_before(tmp_path, full_store, shard_bytes):
    old, new = full_store(0), full_store(1)
    storage.save(old, tmp_path, shard_bytes)
    ShardWriter(tmp_path, shard_bytes=1000).add(new)
    assert len(listing(tmp_path)) > 3
    assert_same_store(GraphStore.load(tmp_path), old)


@pytest.mark.medium
def test_a_killed_writer_leaves_the_store_from_before(tmp_path, full_store):
    old, new = full_store(0), full_store(1)
    storage.save(old, tmp_path / "store", 3000)
    new.save(tmp_path / "new")
    code = (
        "import os, signal, sys; from gsat.graphs import GraphStore, ShardWriter\n"
        "writer = ShardWriter(sys.argv[1], shard_bytes=1000)\n"
        "writer.add(GraphStore.load(sys.argv[2]))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "store"), str(tmp_path / "new")]
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run(command, env=path, check=False).returncode == -signal.SIGKILL
    assert len(listing(tmp_path / "store")) > 3
    assert_same_store(GraphStore.load(tmp_path / "store"), old)
    # Written again to the end, it is the new one.
    assert_same_store(in_shards(new, tmp_path / "store", 1000), new)


@pytest.mark.parametrize("before", [3000, 1 << 20])
@pytest.mark.parametrize("after", [2500, 1 << 20])
def test_a_store_replaces_another_of_either_kind(tmp_path, full_store, before, after):
    old, new = full_store(0), full_store(1)
    loaded = in_shards(old, tmp_path / "here", before)
    in_shards(new, tmp_path / "here", after)
    storage.save(new, tmp_path / "fresh", after)
    assert listing(tmp_path / "here") == listing(tmp_path / "fresh")
    assert_same_store(GraphStore.load(tmp_path / "here"), new)
    assert_same_store(loaded, old)  # who has opened it can read on


@pytest.mark.parametrize("seed", [0, 1])
def test_two_writers_at_once_do_not_disturb_each_other(tmp_path, full_store, seed):
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


def test_shards_are_saved_over_themselves(tmp_path, full_store):
    whole = full_store(0)
    loaded = in_shards(whole, tmp_path)
    names = listing(tmp_path)
    storage.save(loaded, tmp_path, 3000)
    assert listing(tmp_path) == names
    storage.save(loaded.select([4, 2]), tmp_path, 3000)
    assert_same_store(GraphStore.load(tmp_path), whole.select([4, 2]).compact())


# -- what is wrong with it ---------------------------------------------------------------------


@pytest.mark.parametrize("shard_bytes", [300, 1 << 20])
def test_texts_of_pieces_may_be_of_any_length(tmp_path, shard_bytes):
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
        ({"x": np.zeros((4, 5), np.float32)}, r"'x' is float32 \[5\] in these .* float32 \[3\] in"),
        (
            {"x": np.zeros((4, 3), np.int64)},
            r"'x' is int64 \[3\] in these graphs but float32 \[3\]",
        ),
        ({"y": None}, "'y' is missing in these graphs but int64 in those before"),
        ({"graph.b": np.zeros(1, np.int64)}, "'graph.b' is int64 in these graphs but missing in"),
    ],
)
def test_graphs_that_carry_other_arrays(tmp_path, change, named):
    data = Data(edge_index=torch.tensor([[0], [1]]), x=torch.zeros(4, 3), y=1)
    store = from_pyg([data])
    arrays = {k: v for k, v in {**store.arrays, **change}.items() if v is not None}
    writer = ShardWriter(tmp_path)
    writer.add(store)
    with pytest.raises(DataError, match=named):
        writer.add(GraphStore(arrays, {}))


@pytest.mark.parametrize("damage", ["missing", "cut", "text", "header"])
def test_a_damaged_shard_says_so(tmp_path, full_store, damage):
    in_shards(full_store(0), tmp_path)
    shard = next(tmp_path.glob("graphs-00001-*"))
    content = shard.read_bytes()
    if damage == "missing":
        shard.unlink()
    else:
        wrong = {"cut": content[:-8], "text": b"hello", "header": b"\xff" * 8 + content[8:]}
        shard.write_bytes(wrong[damage])
    with pytest.raises(DataError, match=r"graphs-00001-\w+.safetensors is damaged") as caught:
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
def test_a_damaged_index_says_so(tmp_path, content):
    (tmp_path / INDEX).write_text(content)
    with pytest.raises(DataError, match=rf"{INDEX} is damaged \(.+\); remove it") as caught:
        GraphStore.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_shards_of_different_stores_say_so(tmp_path, full_store):
    in_shards(full_store(0), tmp_path)
    in_shards(full_store(0, "node"), tmp_path / "other")
    index = json.loads((tmp_path / INDEX).read_text())
    foreign = json.loads((tmp_path / "other" / INDEX).read_text())["shards"][0]
    index["shards"].append(foreign)
    (tmp_path / INDEX).write_text(json.dumps(index))
    (tmp_path / "other" / foreign["file"]).rename(tmp_path / foreign["file"])
    with pytest.raises(DataError, match="is damaged: its shards hold different arrays"):
        GraphStore.load(tmp_path)


def test_an_index_of_another_version_says_so(tmp_path):
    (tmp_path / INDEX).write_text('{"format": "gsat-shards-9"}')
    with pytest.raises(DataError, match="'gsat-shards-9', not 'gsat-shards-1'"):
        GraphStore.load(tmp_path)


def test_replacing_removes_only_what_a_store_could_have_written(tmp_path, full_store):
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
def test_batches_of_many_shards_need_little_memory(tmp_path):
    graphs, nodes = 2000, 1000
    piece = GraphStore.from_arrays(
        node_ptr=np.arange(101) * nodes,
        edge_ptr=np.zeros(101),
        edge_index=np.zeros((2, 0)),
        x=np.ones((100 * nodes, 16), np.float32),
    )
    with ShardWriter(tmp_path, shard_bytes=16 << 20) as writer:
        for _ in range(graphs // 100):
            writer.add(piece)
    code = (
        "import sys; import numpy as np; from gsat.graphs import GraphStore\n"
        "def own():  # megabytes of memory that belong to no file\n"
        "    text = open('/proc/self/status').read()\n"
        "    return int(text.split('RssAnon:')[1].split()[0]) / 1024\n"
        "before = own(); store = GraphStore.load(sys.argv[1]); peak = own(); seen = 0\n"
        "for ids in np.random.default_rng(0).permutation(len(store)).reshape(-1, 10):\n"
        "    seen += float(store.batch(ids).x.sum()); peak = max(peak, own())\n"
        "print(peak - before, seen)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ).stdout.split()
    assert float(out[1]) == graphs * nodes * 16  # every row was read, 122 MB
    assert float(out[0]) < 20
