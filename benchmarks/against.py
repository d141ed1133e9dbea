"""Two versions of the package side by side: is this one as fast as the other?

Each measurement runs in a fresh process with one thread; processes of the two source trees
alternate, so that a busy machine affects both alike. What is compared is CPU time, which a busy
machine changes little. The processes run ``epoch_cpu_time.py``, which uses public names of the
package only, so the other tree may be of any age that has those.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gsat

SCRIPT = Path(__file__).with_name("epoch_cpu_time.py")
CASES = {
    "floor": (("ba2motifs", "GIN"), ("spmotif-0.5", "GIN")),
    "pna": (("ba2motifs", "PNA"),),
}


def epoch_cpu_time(source: Path, dataset: str, backbone: str) -> float:
    """Measure the CPU time of a training epoch in a fresh process.

    Args:
        source: The folder that holds the package, such as ``src``.
        dataset: Name of the data set.
        backbone: Public name of the backbone's class.

    Returns:
        Seconds.
    """
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(SCRIPT), dataset, backbone]
    finished = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return float(json.loads(finished.stdout.splitlines()[-1]))


def compare(other: Path, parts: Sequence[str], rounds: int) -> list[dict[str, Any]]:
    """Compare this version of the package with another one, and print a line per case.

    Args:
        other: The folder that holds the other version's package, such as ``../before/src``.
        parts: Some of ``"floor"`` (GIN) and ``"pna"`` (PNA).
        rounds: How many processes of each version.

    Returns:
        For each case, the median seconds of CPU time per epoch of both, and their ratio.

    Raises:
        SystemExit: If there is no package in ``other``.
    """
    if not (other / "gsat" / "__init__.py").is_file():
        raise SystemExit(f"there is no package gsat in {other}")
    ours = Path(gsat.__file__).parents[1]
    rows = []
    for dataset, backbone in (case for part in parts for case in CASES[part]):
        times: dict[Path, list[float]] = {ours: [], other: []}
        for _ in range(rounds):
            for source, taken in times.items():
                taken.append(epoch_cpu_time(source, dataset, backbone))
        this, that = (statistics.median(taken) for taken in times.values())
        pairs = [a / b for a, b in zip(*times.values(), strict=True)]
        rows.append(
            {
                "dataset": dataset,
                "backbone": backbone,
                "this_s": this,
                "other_s": that,
                "ratio": this / that,
            }
        )
        print(
            f"  {dataset:<12} {backbone}: {this:.3f} s of CPU time per epoch against {that:.3f} s, "
            f"ratio {this / that:.3f} (of single pairs: {min(pairs):.3f} to {max(pairs):.3f})"
        )
    return rows
