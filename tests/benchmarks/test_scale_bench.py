"""The benchmark of scale writes and reads what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import scale
from gsat.graphs import GraphStore


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs /proc")
def test_a_few_graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "PIECE", 100)
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
