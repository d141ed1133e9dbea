"""Measure GSAT's explanations with the metrics of torch_geometric.explain, beside GNNExplainer's.

python examples/pyg_explainer_metrics.py          # a minute or two
python examples/pyg_explainer_metrics.py --fast   # a taste, in seconds
"""

from __future__ import annotations

import argparse

import numpy as np
from torch_geometric.explain import (
    Explainer,
    GNNExplainer,
    characterization_score,
    fidelity,
    groundtruth_metrics,
    unfaithfulness,
)

import gsat


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fast", action="store_true", help="few graphs, few epochs")
    fast = parser.parse_args().fast

    data = gsat.load_dataset("ba2motifs", seed=0, **({"graphs": 60} if fast else {}))
    model = gsat.GSAT(gsat.GIN.for_data(data, seed=0), seed=0)
    gsat.fit(model, data, epochs=3 if fast else 60)

    # A view of the model as PyG calls models: forward(x, edge_index, batch, edge_attr). The one
    # logit of a binary model becomes two columns, so that PyG's softmax means something.
    viewed = model.as_pyg()
    algorithms = {
        "GSAT": gsat.GSATExplainer(),
        "GNNExplainer": GNNExplainer(epochs=10 if fast else 100),
    }
    graphs = [data.test[i] for i in range(3 if fast else 20)]
    print(f"{'':<14}{'fid+':>8}{'fid-':>8}{'charact.':>10}{'unfaithful':>12}{'AUROC':>8}")
    for name, algorithm in algorithms.items():
        explainer = Explainer(
            viewed,
            algorithm,
            explanation_type="model",
            edge_mask_type="object",
            model_config=viewed.model_config,
            threshold_config=("topk", 12),  # keep the 12 directed edges that scored highest
        )
        rows = []
        for graph in graphs:
            explanation = explainer(graph.x, graph.edge_index)
            plus, minus = fidelity(explainer, explanation)
            rows.append(
                (
                    plus,
                    minus,
                    unfaithfulness(explainer, explanation),
                    groundtruth_metrics(explanation.edge_mask, graph.edge_truth, "auroc"),
                )
            )
        plus, minus, unfaithful, auroc = np.mean(rows, axis=0)
        # Undefined when an explanation is never necessary or never sufficient.
        both = characterization_score(plus, minus) if plus > 0 and minus < 1 else float("nan")
        print(f"{name:<14}{plus:8.3f}{minus:8.3f}{both:10.3f}{unfaithful:12.2g}{auroc:8.3f}")


if __name__ == "__main__":
    main()
