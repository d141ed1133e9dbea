"""You have a trained network and want it to say which edges it used: fine-tune it with GSAT.

    python examples/finetune_your_checkpoint.py          # a minute or two
    python examples/finetune_your_checkpoint.py --fast   # a few seconds, to see it work

The checkpoint here is a plain state dict, written by a training loop that knows nothing of GSAT.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

import gsat
from gsat.ops import Draws


def train_elsewhere(data: gsat.Dataset, epochs: int, path: Path) -> None:
    """Any training will do: here Adam on the network's own loss, without attention."""
    network = gsat.GIN.for_data(data, seed=1)
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    for epoch in range(epochs):
        draws = Draws(1, "elsewhere", epoch)  # the order of the graphs, and what dropout drops
        for rows in torch.from_numpy(draws.permutation(len(data.train))).split(128):
            batch = data.train.batch(rows.numpy())
            loss = data.task.loss(network(batch, draws=draws), batch.y)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    save_file(network.state_dict(), path)


def accuracy(network: gsat.GIN, graphs: gsat.GraphStore) -> float:
    """Of the network alone."""
    batch = graphs.batch()
    with torch.no_grad():
        found = network.eval().task.decide(network(batch))
    return float((found == batch.y[:, 0]).float().mean())


def main() -> None:
    """Train a network elsewhere, fine-tune it, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true", help="few graphs, few epochs")
    fast = parser.parse_args().fast
    torch.set_num_threads(1)
    data = gsat.load_dataset("ba2motifs", seed=0, **({"graphs": 100} if fast else {}))
    epochs = 3 if fast else 100

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.safetensors"
        train_elsewhere(data, epochs, path)
        weights = load_file(path)

    network = gsat.GIN.for_data(data)  # the same architecture, with fresh weights …
    model = gsat.GSAT.from_pretrained(weights, backbone=network, attention="edge")  # … filled
    before = accuracy(network, data.test)
    run = gsat.fit(model, data, epochs=epochs, seed=0)

    print(f"accuracy before fine-tuning {before:.3f}, after {run.test['accuracy']:.3f}")
    print(f"explanation AUC {run.test['explanation_auc']:.3f}")
    explained = model.explain(data.test[0])
    ends = data.test[0].edge_index[:, explained.edge_mask.topk(6).indices].T.tolist()
    print(f"the six edges it used most in the first test graph: {ends}")


if __name__ == "__main__":
    main()
