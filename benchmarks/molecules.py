"""How fast molecules become graphs, beside RDKit's own parsing: ``python -m benchmarks.molecules``.

The molecules are those of ogbg-molhiv, repeated; their raw files have to be here (docs/data.md).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rdkit import Chem, rdBase

from gsat.datasets.load import load_dataset
from gsat.launch.pool import worker_count
from gsat.molecules.parallel import read_many
from gsat.training.run_directory import environment


def parse(smiles: Sequence[str]) -> None:
    """Parse molecules by RDKit alone."""
    with rdBase.BlockLogs():
        for text in smiles:
            Chem.MolFromSmiles(text)


def rate(work: Callable[[], Any], count: int) -> float:
    """Molecules per second of wall time."""
    begun = time.perf_counter()
    work()
    return round(count / (time.perf_counter() - begun), 1)


def measure(count: int) -> dict[str, Any]:
    """Measure parsing, features, and all that a table needs, by one and by all workers.

    Args:
        count: How many molecules.
    """
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
    return {"molecules": count, "per_second": rows, **environment()}


def main() -> None:
    """Print the measurement, and write it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="how many molecules")
    parser.add_argument("--write", type=Path, help="a JSON file for the measurement")
    arguments = parser.parse_args()
    measured = measure(arguments.count)
    for name, value in measured["per_second"].items():
        print(f"{name:<60} {value:>10.0f} molecules/s")
    if arguments.write:
        arguments.write.write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
