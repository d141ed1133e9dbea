"""Small data of a user's own, in every form."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data


def make_graphs(count: int = 40, **changes: Any) -> list[Data]:
    """Graphs with two features, both directions of every edge, and classes 0 and 1 in turn."""
    rng = np.random.RandomState(3)
    out = []
    for number in range(count):
        nodes = int(rng.randint(3, 7))
        ends = np.array([(i, i + 1) for i in range(nodes - 1)] + [(0, nodes - 1)]).T
        edges = np.concatenate([ends, ends[::-1]], axis=1)[:, rng.permutation(2 * nodes)]
        features = rng.random_sample((nodes, 2)).astype(np.float32)
        features[:, 0] += number % 2
        data = Data(
            x=torch.from_numpy(features),
            edge_index=torch.from_numpy(edges),
            y=torch.tensor([number % 2]),
        )
        for name, value in changes.items():
            data[name] = value(number, data) if callable(value) else value
        out.append(data)
    return out


def as_json(graph: Data) -> dict[str, Any]:
    """A graph as a line of a JSON-lines file says it."""
    found: dict[str, Any] = {"x": graph.x.tolist(), "edge_index": graph.edge_index.tolist()}
    for name in ("edge_attr", "edge_weight", "edge_truth", "node_truth", "node_y"):
        if graph.get(name) is not None:
            found[name] = graph[name].tolist()
    if graph.get("y") is not None:
        found["y"] = graph.y.item() if graph.y.numel() == 1 else graph.y.flatten().tolist()
    return found


def write_lines(path: Path, records: list[Any]) -> Path:
    """JSON lines, gzipped by the name of the file; a text stands as it is."""
    lines = [r if isinstance(r, str) else json.dumps(r) for r in records]
    content = "".join(line + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def tu_tables(graphs: list[Data]) -> dict[str, str]:
    """The text tables of the TU collection; edge_truth is edge_gt."""
    tables: dict[str, list[Any]] = {"A": [], "graph_indicator": [], "graph_labels": []}
    tables |= {"node_attributes": []}
    first = 1
    for number, graph in enumerate(graphs, start=1):
        tables["A"] += (graph.edge_index.T + first).tolist()
        tables["graph_indicator"] += [[number]] * graph.num_nodes
        tables["graph_labels"].append([int(graph.y)])
        tables["node_attributes"] += graph.x.tolist()
        for name, of in (
            ("edge_gt", "edge_truth"),
            ("node_labels", "kind"),
            ("edge_labels", "bond"),
        ):
            if graph.get(of) is not None:
                tables.setdefault(name, [])
                tables[name] += [[int(value)] for value in graph[of]]
        first += graph.num_nodes
    return {
        name: "".join(", ".join(map(str, row)) + "\n" for row in rows)
        for name, rows in tables.items()
    }


def write_tu(folder: Path, tables: dict[str, str], name: str = "TOY") -> Path:
    """The tables in a folder, or in a zip when the name says so."""
    if folder.suffix == ".zip":
        with zipfile.ZipFile(folder, "w") as archive:
            for table, text in tables.items():
                archive.writestr(f"{name}/{name}_{table}.txt", text)
        return folder
    folder.mkdir(parents=True)
    for table, text in tables.items():
        (folder / f"{name}_{table}.txt").write_text(text)
    return folder
