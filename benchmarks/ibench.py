"""Explanations of iBenchmark's molecules against the known contribution of every atom.

``python -m benchmarks.ibench --write results/ibench.jsonl``: for each set and seed, GSAT with the
shipped recipe for molecules, GNNExplainer on the same network trained without attention, and scores
without any learning. Fewer epochs than in the recipe: the sets are large and soon learnt. Runs that
the file has are not repeated; the raw files have to be here (docs/data.md).
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gsat
from gsat.datasets.load import Dataset
from gsat.datasets.sources.ibench import SETS
from gsat.explain.fragments import ScoredFragment, measure_effects
from gsat.graphs import GraphStore
from gsat.methods import METHODS
from gsat.models import DMPNN, InterpretableModel
from gsat.training.evaluation import atom_metrics, mean_at_nodes, signed_atom_metrics
from gsat.training.run_directory import environment

TRAINING = {"training.epochs": 8, "training.batch_size": 128}
EXPLAINER = {"size": 0.1}  # as chosen on the validation molecules of mutag
METHODS_SHOWN = ("gsat", "gnnexplainer", "random", "degree")


def measure(name: str, seed: int, method: str, sample: int) -> dict[str, Any]:
    """Train, explain and measure."""
    settings: dict[str, Any] = {**TRAINING}
    row: dict[str, Any] = {}
    if method == "gsat":
        run = gsat.train(gsat.make_recipe(name, seed=seed, settings={**settings, "r_interval": 1}))
        model, data = run.model, run.dataset
        row |= {"prediction": run.test[model.task.metric], "valid": _atoms(run.valid)}
        row |= _atoms(run.test) | {"test": len(data.test), "recipe": run.recipe.hash()}
        some = _some(data, sample)
        return (
            row | signed_atom_metrics(some, contributions(model, some)) | {"signed_of": len(some)}
        )
    if method == "gnnexplainer":
        run = gsat.train(gsat.make_recipe(name, method="erm", seed=seed, settings=settings))
        row["prediction"] = run.test[run.model.task.metric]
        backbone, data = run.model.backbone, run.dataset
    else:
        data = gsat.load_dataset(name, seed=seed)
        backbone = DMPNN.for_data(data, seed=seed, hidden=8)
    some = _some(data, sample if method == "gnnexplainer" else len(data.test))
    kind = METHODS[method]
    own = EXPLAINER if method == "gnnexplainer" else {}
    model = kind.make_model(backbone, kind.Settings.model_validate(own), seed)
    return row | atom_metrics(some, node_scores(model, some)) | {"test": len(some)}


def _atoms(metrics: dict[str, Any]) -> dict[str, Any]:
    return {name: metrics[name] for name in ("atom_auc", "atom_top_n")}


def _some(data: Dataset, count: int) -> GraphStore:
    """The first annotated test molecules."""
    test = data.test
    known = np.flatnonzero(test.per_graph("annotated")) if test.has("annotated") else len(test)
    return test.select(np.arange(len(test))[known][:count])


def node_scores(model: InterpretableModel, store: GraphStore) -> np.ndarray:
    """Scores of atoms, ``[N]``: the mean over the edges at each."""
    out = []
    with model.evaluating():
        for first in range(0, len(store), 128):
            batch = store.batch(np.arange(first, min(first + 128, len(store))))
            out.append(mean_at_nodes(model(batch).edge_weight, batch))
    return torch.cat(out).numpy()


def contributions(model: InterpretableModel, store: GraphStore) -> np.ndarray:
    """The effect of leaving out each atom, ``[N]``, on log-odds or the predicted number."""
    fragments = [
        [ScoredFragment("atom", "group", (atom,), "", 0.0, 0.0, False) for atom in range(count)]
        for count in store.node_counts.tolist()
    ]
    logits = torch.stack([explanation.logits for explanation in model.explain(store)])
    measured = measure_effects(model, store, fragments, logits)
    return np.array(
        [(p.log_odds or p.effects or (0.0,))[-1] for own in measured for p in own], dtype=np.float64
    )


def main() -> None:
    """Run the missing seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--only", default=",".join(SETS), help="names of sets")
    parser.add_argument("--methods", default=",".join(METHODS_SHOWN), help="names of methods")
    parser.add_argument("--sample", type=int, default=300, help="test molecules of slow measures")
    parser.add_argument("--write", type=Path, required=True, help="a JSON-lines file to append to")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    file: Path = arguments.write
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    done = {(row["set"], row["seed"], row["method"]) for row in map(json.loads, lines)}
    for seed in range(arguments.seeds):
        for method in arguments.methods.split(","):
            for name in arguments.only.split(","):
                if (name, seed, method) in done:
                    continue
                begun = time.process_time()
                row = {"set": name, "seed": seed, "method": method}
                row |= measure(name, seed, method, arguments.sample)
                row["cpu_seconds"] = round(time.process_time() - begun, 1)
                row |= {"version": gsat.__version__, "cpu": environment()["cpu"]}
                with file.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(row) + "\n")
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
