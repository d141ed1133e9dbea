"""A store on disk: exact, memory-mapped, and clear about what is wrong with a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gsat.core.errors import DataError
from gsat.graphs import GraphStore, from_pyg
from gsat.graphs.storage import FILE


def assert_same_store(ours: GraphStore, theirs: GraphStore) -> None:
    assert ours.meta == theirs.meta
    assert ours.arrays.keys() == theirs.arrays.keys()
    for name, values in theirs.arrays.items():
        assert ours.arrays[name].dtype == values.dtype, name
        np.testing.assert_array_equal(ours.arrays[name], values, err_msg=name)


@pytest.mark.parametrize("seed", range(3))
def test_saved_and_loaded_is_equal(tmp_path, seed, random_graphs, same_graph):
    graphs = random_graphs(seed)
    store = from_pyg(graphs, meta={"classes": ["a", "ü"], "bias": 0.5})
    assert store.save(tmp_path / "deep" / "down") == tmp_path / "deep" / "down"
    loaded = GraphStore.load(tmp_path / "deep" / "down")
    assert_same_store(loaded, store)
    for position, graph in enumerate(graphs):
        same_graph(loaded[position], graph)
    assert [p.name for p in (tmp_path / "deep" / "down").iterdir()] == [FILE]


def test_a_saved_view_holds_just_its_graphs(tmp_path, random_graphs, same_graph):
    graphs = random_graphs(1)
    view = from_pyg(graphs).select([5, 2, 2])
    loaded = GraphStore.load(view.save(tmp_path))
    assert_same_store(loaded, view.compact())
    for place, i in enumerate([5, 2, 2]):
        same_graph(loaded[place], graphs[i])


def test_an_empty_store_can_be_saved(tmp_path):
    assert len(GraphStore.load(from_pyg([]).save(tmp_path))) == 0


def test_saving_over_a_loaded_store_leaves_the_old_one_readable(tmp_path, random_graphs):
    store = from_pyg(random_graphs(0))
    before = {name: values.copy() for name, values in store.arrays.items()}
    store.save(tmp_path)
    loaded = GraphStore.load(tmp_path)
    loaded.select([3]).save(tmp_path)
    for name, values in before.items():
        np.testing.assert_array_equal(loaded.arrays[name], values)
    assert len(GraphStore.load(tmp_path)) == 1


@pytest.mark.medium
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_loading_does_not_read_the_arrays(tmp_path):
    rows = 2_000_000
    GraphStore.from_arrays(
        node_ptr=[0, rows],
        edge_ptr=[0, 0],
        edge_index=np.zeros((2, 0)),
        x=np.ones((rows, 4), np.float32),
    ).save(tmp_path)
    code = (
        "import sys, os; from gsat.graphs import GraphStore\n"
        "def own():  # megabytes of memory that belong to no file\n"
        "    text = open('/proc/self/status').read()\n"
        "    return int(text.split('RssAnon:')[1].split()[0]) / 1024\n"
        "before = own(); store = GraphStore.load(sys.argv[1])\n"
        "print(own() - before, store.arrays['x'][-1, 0])"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ).stdout.split()
    assert float(out[0]) < 10  # the array has 30 MB
    assert float(out[1]) == 1


def test_nothing_saved_here(tmp_path):
    with pytest.raises(DataError, match=f"holds no saved graphs: there is no {FILE}"):
        GraphStore.load(tmp_path)


@pytest.mark.parametrize("damage", ["cut", "empty", "text"])
def test_a_damaged_file_says_so(tmp_path, damage, random_graphs):
    from_pyg(random_graphs(0)).save(tmp_path)
    file = tmp_path / FILE
    content = file.read_bytes()
    file.write_bytes({"cut": content[:-100], "empty": b"", "text": b"hello" * 50}[damage])
    with pytest.raises(DataError, match="is damaged"):
        GraphStore.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"node_ptr": None, "src": None}, "node_ptr, src missing"),
        ({"node_ptr": torch.tensor([0, 5, 3])}, "node_ptr does not start at 0, or decreases"),
        ({"edge_ptr": torch.tensor([1, 2, 3])}, "edge_ptr does not start at 0, or decreases"),
        ({"edge_ptr": torch.zeros(0, dtype=torch.long)}, "edge_ptr does not start at 0"),
        ({"edge_ptr": torch.tensor([0, 2])}, r"edge_ptr has shape \[2\], not 3 rows"),
        ({"x": torch.zeros(2, 1)}, r"x has shape \[2, 1\], not 4 rows"),
        ({"src": torch.zeros(4, dtype=torch.int32)}, r"src has shape \[4\], not 2 rows"),
        ({"graph.size": torch.zeros(3)}, r"graph.size has shape \[3\], not 2 rows"),
        ({"y": torch.tensor(1.0)}, r"y has shape \[\], not 2 rows"),
        ("", "Expecting value"),
        ("[1]", "its meta is not a table"),
        (None, "'meta'"),
    ],
)
def test_arrays_that_do_not_fit_together_say_so(tmp_path, change, why):
    """Files of this format that this package did not write."""
    from safetensors.torch import save_file

    graph = Data(edge_index=torch.tensor([[0], [1]]), x=torch.zeros(2, 1))
    tensors = {k: torch.from_numpy(v) for k, v in from_pyg([graph] * 2).arrays.items()}
    header = {"format": "gsat-graphs-1", "meta": "{}"}
    save_file(tensors, tmp_path / FILE, metadata=header)
    assert len(GraphStore.load(tmp_path)) == 2
    if isinstance(change, dict):
        tensors = {k: v for k, v in {**tensors, **change}.items() if v is not None}
    else:
        header = {k: v for k, v in {**header, "meta": change}.items() if v is not None}
    save_file(tensors, tmp_path / FILE, metadata=header)
    with pytest.raises(DataError, match=f"{FILE} is damaged.*{why}") as caught:
        GraphStore.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_file_of_another_version_says_so(tmp_path):
    from safetensors.torch import save_file

    save_file({"x": torch.zeros(1)}, tmp_path / FILE, metadata={"format": "gsat-graphs-0"})
    with pytest.raises(DataError, match="'gsat-graphs-0', not 'gsat-graphs-1'"):
        GraphStore.load(tmp_path)


def test_the_file_is_plain_safetensors(tmp_path):
    from_pyg([Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2, y=1)]).save(tmp_path)
    raw = (tmp_path / FILE).read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    assert set(header) > {"node_ptr", "edge_ptr", "src", "dst", "order", "y"}
