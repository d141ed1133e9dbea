"""How fast molecules become graphs, and explanations: ``python -m benchmarks.molecules``.

The molecules are those of ogbg-molhiv, repeated; their raw files have to be here (docs/data.md).
Beside the time that passes stands the CPU time, of worker processes as well: on a busy machine only
that says anything. ``--run RUN`` explains molecules with a model of a table.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rdkit import Chem, rdBase

from gsat.datasets.load import load_dataset
from gsat.launch.pool import worker_count
from gsat.molecules.parallel import read_many
from gsat.training.run import open_run
from gsat.training.run_directory import environment


def parse(smiles: Sequence[str]) -> None:
    """Parse molecules by RDKit alone."""
    with rdBase.BlockLogs():
        for text in smiles:
            Chem.MolFromSmiles(text)


def rate(work: Callable[[], Any], count: int) -> dict[str, float]:
    """Molecules per second of time that passes, and per second of CPU time."""

    def cpu() -> float:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(use.ru_utime + use.ru_stime for use in used)

    begun, before = time.perf_counter(), cpu()
    work()
    spent, computed = time.perf_counter() - begun, cpu() - before
    return {"per_second": round(count / spent, 1), "per_cpu_second": round(count / computed, 1)}


def measure(count: int) -> dict[str, Any]:
    """Measure parsing, features, and all that a table needs, by one and by all workers."""
    known = load_dataset("ogbg-molhiv").store.texts("smiles")
    smiles = list(itertools.islice(itertools.cycle(known), count))
    workers, rows = worker_count(), {}
    rows["RDKit parsing, 1 process"] = rate(lambda: parse(smiles), count)
    for jobs in sorted({1, workers}):
        os.environ["GSAT_JOBS"] = str(jobs)
        rows[f"features, {jobs} process{'es' * (jobs > 1)}"] = rate(
            lambda: read_many(smiles), count
        )
        rows[f"features, canonical SMILES and scaffold, {jobs} process{'es' * (jobs > 1)}"] = rate(
            lambda: read_many(smiles, canonical=True, scaffold=True), count
        )
    return {"molecules": count, "reading": rows, **environment()}


def explaining(folder: Path, smiles: Sequence[str]) -> dict[str, float]:
    """Measure explanations: of one molecule at a time, and of all of them as a page.

    Returns CPU milliseconds of one molecule without its picture and of the picture, medians; CPU
    seconds of all explanations and of their page.
    """
    run = open_run(folder)
    run.explain_molecules(smiles=smiles[0])  # loads the model and the data once
    alone, drawn = [], []
    with tempfile.TemporaryDirectory() as place:
        for text in smiles[:50]:
            begun = time.process_time()
            report = run.explain_molecules(smiles=text)
            alone.append(time.process_time() - begun)
            report.save(Path(place) / "m.svg")
            drawn.append(time.process_time() - begun - alone[-1])
        begun = time.process_time()
        report = run.explain_molecules(smiles=smiles)
        explained = time.process_time() - begun
        report.save(Path(place) / "page.html")
        page = time.process_time() - begun - explained
    return {
        "one_ms": round(1000 * float(np.median(alone)), 2),
        "picture_ms": round(1000 * float(np.median(drawn)), 2),
        "molecules": len(smiles),
        "explanations_seconds": round(explained, 2),
        "page_seconds": round(page, 2),
    }


def main() -> None:
    """Print the measurement, and write it on request."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="how many molecules are read")
    parser.add_argument("--run", type=Path, help="a run whose model explains 1000 molecules")
    parser.add_argument("--write", type=Path, help="a JSON file for the measurement")
    arguments = parser.parse_args()
    measured = measure(arguments.count)
    for name, rates in measured["reading"].items():
        print(f"{name:<60} {rates['per_second']:>10.0f} {rates['per_cpu_second']:>10.0f} CPU")
    if arguments.run:
        torch.set_num_threads(1)
        known = load_dataset("ogbg-molhiv").store.texts("smiles")[:1200]
        readable = read_many(known, quiet=True)[0].smiles  # newer versions of RDKit refuse some
        measured["explaining"] = explaining(arguments.run, readable[:1000])
        print(json.dumps(measured["explaining"]))
    if arguments.write:
        arguments.write.write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
