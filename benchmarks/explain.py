"""Explaining one graph: ours against PyG's GNNExplainer on the same network."""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch
from torch_geometric.explain import Explainer, GNNExplainer, ModelConfig

from benchmarks.common import case, use_threads
from benchmarks.plain_pyg import PlainGSAT


def explain_one(steps: int = 100) -> dict[str, Any]:
    """Measure the time to explain a graph of 25 nodes, in milliseconds."""
    use_threads(1)
    made = case("ba2motifs")
    assert made is not None
    model, graph = made.model.eval(), made.data.test[0]
    plain = PlainGSAT(model).eval().backbone
    explainer = Explainer(
        plain,
        GNNExplainer(epochs=steps),
        explanation_type="model",
        edge_mask_type="object",
        model_config=ModelConfig(
            mode="binary_classification", task_level="graph", return_type="raw"
        ),
    )

    def ours() -> None:
        model.explain(graph)

    def theirs() -> None:
        batch = torch.zeros(graph.num_nodes, dtype=torch.long)
        explainer(graph.x, graph.edge_index, batch=batch)

    times = {}
    for name, function, rounds in (("ours", ours, 200), ("gnnexplainer", theirs, 5)):
        function()
        taken = []
        for _ in range(rounds):
            start = time.perf_counter()
            function()
            taken.append(time.perf_counter() - start)
        times[name] = statistics.median(taken) * 1e3
    return {
        "ours_ms": times["ours"], "gnnexplainer_ms": times["gnnexplainer"],
        "ratio": times["gnnexplainer"] / times["ours"],
    }  # fmt: skip
