"""The benchmark of large stores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from benchmarks.__main__ import keep

from benchmarks import scale
from gsat.graphs import GraphStore


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs /proc")
def test_writing_and_reading_a_few_graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "CHUNK", 100)
    monkeypatch.setattr(scale, "BATCHES", 3)
    written = scale.write(str(tmp_path), 250)
    store = GraphStore.load(tmp_path)
    assert written["graphs"] == len(store) == 250
    assert (store.node_counts == scale.NODES).all()
    assert (store.edge_counts == scale.EDGES).all()
    assert store.per_graph("undirected").all()
    files = sum(file.stat().st_size for file in tmp_path.glob("graphs-*"))
    assert written["disk_mib"] == pytest.approx(files / 2**20)
    read = scale.read(str(tmp_path))
    assert read["ratio"] == pytest.approx(read["batch_ms"] / read["in_memory_ms"])


def test_parts_that_are_not_measured_stay_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    keep(file, {"floor": [1], "scale": [2]}, {"floor": 0.1, "scale": 0.2})
    keep(file, {"scale": [3]}, {"scale": 0.3})
    figures = json.loads(file.read_text())
    assert (figures["floor"], figures["scale"]) == ([1], [3])
    assert figures["load_before"] == {"floor": 0.1, "scale": 0.3}
    assert figures["environment"]["versions"]["torch"] == torch.__version__
