"""Prediction beside chemprop 2 with its defaults: same molecules, same scaffold splits, same seeds.

``python -m benchmarks.chemprop TABLES --chemprop PATH --write results/chemprop.jsonl``: TABLES is a
folder with bbbp.csv and the others, PATH the command in an environment of its own. Runs that the
file has are not repeated, unless the recipe or the molecules have changed. One thread each; the
time is that of the whole training.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gsat
from gsat.core.files import checksum
from gsat.datasets.load import Dataset
from gsat.training.run_directory import environment

TABLES = ("bbbp", "bace", "clintox", "delaney", "freesolv")


def ours(recipe: gsat.Recipe, data: Dataset, out: Path | None) -> dict[str, Any]:
    """Train with the shipped recipe."""
    run = gsat.train(recipe, out=out)
    return {
        "version": gsat.__version__,
        "value": run.test[metric(data)],
        "valid": run.valid[metric(data)],
    }


def recipe_of(table: Path, seed: int) -> gsat.Recipe:
    """The shipped recipe, with the split that all seeds share."""
    settings = {"data.split": "scaffold", "data.split_seed": 0}
    return gsat.make_recipe(str(table), seed=seed, settings=settings)


def method_of(recipe: gsat.Recipe) -> str:
    """A hash of the recipe's network and training settings; the path names the table."""
    tables = recipe.tables()
    return checksum([tables["backbone"], tables["training"], tables["method"]])[:16]


def theirs(command: Path, data: Dataset, seed: int) -> dict[str, Any]:
    """Train chemprop with its defaults."""
    names = data.options["label"]
    with tempfile.TemporaryDirectory() as folder:
        table, out = Path(folder) / "table.csv", Path(folder) / "out"
        with table.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["smiles", *names, "split"])
            for part, name in (("train", "train"), ("valid", "val"), ("test", "test")):
                view = data.split(part)
                for smiles, labels in zip(view.texts("smiles"), view.labels("graph"), strict=True):
                    cells = ["" if np.isnan(y) else f"{y:.7g}" for y in np.atleast_1d(labels)]
                    writer.writerow([smiles, *cells, name])
        kind = "regression" if data.task.kind == "regression" else "classification"
        done = subprocess.run(
            [
                *(command, "train", "--data-path", table, "--output-dir", out),
                *("--smiles-columns", "smiles", "--target-columns", *names),
                *("--splits-column", "split", "--task-type", kind),
                *("--pytorch-seed", str(seed), "--accelerator", "cpu"),
            ],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise SystemExit(f"chemprop failed: {done.stderr[-2000:]}")
        (predictions,) = out.rglob("test_predictions.csv")
        with predictions.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    by_smiles = {row["smiles"]: [float(row[name]) for name in names] for row in rows}
    test = data.test
    found = torch.tensor([by_smiles[smiles] for smiles in test.texts("smiles")])
    y = torch.from_numpy(test.labels("graph"))
    if kind == "regression":
        found = torch.stack([(found[:, 0] - data.task.centre) / data.task.scale], dim=1)
    version = subprocess.run([command.with_name("python"), "-c",
                              "import chemprop; print(chemprop.__version__)"],
                             check=True, capture_output=True, text=True).stdout.strip()  # fmt: skip
    return {"version": version, "value": data.task.scores(found, y)[metric(data)]}


def metric(data: Dataset) -> str:
    """The metric of the comparison: RMSE or ROC AUC."""
    return "rmse" if data.task.kind == "regression" else "roc_auc"


def timed(work: Any) -> dict[str, Any]:
    """The result of a training, with its seconds and CPU seconds, child processes included."""

    def cpu() -> float:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(use.ru_utime + use.ru_stime for use in used)

    begun, before = time.perf_counter(), cpu()
    found = work()
    spent = {"seconds": time.perf_counter() - begun, "cpu_seconds": cpu() - before}
    return {**found, **{name: round(value, 1) for name, value in spent.items()}}


def main() -> None:
    """Run the missing seeds, and print all results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", type=Path, help="folder with bbbp.csv and the others")
    parser.add_argument("--chemprop", type=Path, help="the command; without it, only ours is run")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--only", default=",".join(TABLES), help="names of tables")
    parser.add_argument("--runs", type=Path, help="a folder to keep our runs in")
    parser.add_argument("--write", type=Path, required=True, help="a JSON-lines file to add to")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    file: Path = arguments.write
    rows = read(file)
    for seed in range(arguments.seeds):
        for name in arguments.only.split(","):
            table = arguments.tables / f"{name}.csv"
            data = gsat.read_molecules(table, split="scaffold")
            recipe = recipe_of(table, seed)
            runs = arguments.runs and arguments.runs / f"{name}-{seed}"
            tools = {"gsat": lambda r=recipe, d=data, out=runs: ours(r, d, out)}
            if arguments.chemprop:
                tools["chemprop"] = lambda d=data, s=seed: theirs(arguments.chemprop, d, s)
            for tool, work in tools.items():
                key = {"tool": tool, "table": name, "seed": seed}
                now = {"data_hash": data.hash}
                now |= {"recipe": method_of(recipe)} if tool == "gsat" else {}
                if any({**key, **now}.items() <= row.items() for row in rows):
                    continue
                found = timed(work)
                more = {"test": len(data.test), **now, "cpu": environment()["cpu"]}
                row = {**key, "metric": metric(data), **found, **more}
                # One of another recipe, or of other molecules, is replaced.
                rows = [r for r in read(file) if not key.items() <= r.items()] + [row]
                file.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
                print(json.dumps(row), flush=True)


def read(file: Path) -> list[dict[str, Any]]:
    """The lines of a file; none where there is no file."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return [json.loads(line) for line in lines]


if __name__ == "__main__":
    main()
