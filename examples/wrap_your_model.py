"""Make your own PyTorch Geometric network interpretable, without changing it.

python examples/wrap_your_model.py          # a minute or two
python examples/wrap_your_model.py --fast   # a taste, in seconds
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn
from torch_geometric.nn import GIN, global_add_pool

import gsat


class MyNetwork(nn.Module):
    """What you already have: node features in, logits of graphs out."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.gnn = GIN(features, 64, num_layers=2, dropout=0.3, norm="batch_norm")
        self.act = nn.Sequential(nn.ReLU(), nn.Dropout(0.3))
        self.head = nn.Linear(64, classes)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        x = self.act(self.gnn(x, edge_index))
        return self.head(global_add_pool(x, batch))


def make(data: gsat.Dataset) -> gsat.GSAT:
    """The one line that matters is the last."""
    torch.manual_seed(0)  # your weights are yours: gsat never initialises them again
    module = MyNetwork(data.store.num_features, data.task.num_logits)
    # Attention reaches every message-passing layer inside. Node embeddings are taken from the layer
    # that runs last, unless embed= names another place.
    return gsat.GSAT(gsat.wrap(module, task=data.task, embed="act"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fast", action="store_true", help="few graphs, few epochs")
    fast = parser.parse_args().fast

    # Graphs that carry a house or a five-cycle; all node features are the same constant.
    data = gsat.load_dataset("ba2motifs", seed=0, **({"graphs": 60} if fast else {}))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        run = gsat.fit(make(data), data, epochs=3 if fast else 60, out=out)
        print(f"accuracy {run.test['accuracy']:.3f}")
        print(f"explanation AUC {run.test['explanation_auc']:.3f}")

        # A run holds weights, not code: to load it (or to gsat.resume it after a crash), make the
        # same model again and pass it.
        model = gsat.load(out, model=make(data))

    explanation = model.explain(data.test[0])
    print(explanation.message)
    best = explanation.top(6)  # both directions of an edge count as one
    for u, v, score in zip(*best.node_id[best.edge_index].tolist(), best.edge_mask, strict=True):
        if u < v:
            print(f"{u:3d} – {v:<3d} {score:.3f}")


if __name__ == "__main__":
    main()
