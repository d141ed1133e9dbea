"""Two versions of the package side by side: is this one as fast as the other?

Each measurement runs in a fresh process with one thread; processes of the two source trees
alternate, so that a busy machine affects both alike. CPU times are compared, which a busy machine
changes little. The processes run ``epoch_cpu_time.py``, which uses public names of the
package only, so the other tree may be of any age that has those. Before these, the start: a
training of one epoch from the command line.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gsat

SCRIPT = Path(__file__).with_name("epoch_cpu_time.py")
CASES = {
    "floor": (("ba2motifs", "GIN"), ("spmotif-0.5", "GIN")),
    "pna": (("ba2motifs", "PNA"),),
}


def epoch_cpu_time(source: Path, dataset: str, backbone: str) -> float:
    """Measure the CPU time of a training epoch in a fresh process."""
    command = [sys.executable, str(SCRIPT), dataset, backbone]
    finished = subprocess.run(command, env=_seeing(source), stdout=subprocess.PIPE, check=True)
    return float(json.loads(finished.stdout.splitlines()[-1]))


def start_cpu_time(source: Path) -> float:
    """Measure the CPU time of ``gsat train`` with one epoch, start of the program included."""
    before = _cpu_time_of_children()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "gsat", "train", "ba2motifs", "-q"]
        command += ["--set", "epochs=1", "--set", "source=generated"]
        subprocess.run(
            [*command, "--out", f"{folder}/run"],
            env=_seeing(source), cwd=folder, stdout=subprocess.DEVNULL, check=True,
        )  # fmt: skip
    return _cpu_time_of_children() - before


def _cpu_time_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _seeing(source: Path) -> dict[str, str]:
    """The environment in which the package is that of a folder."""
    return {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}


def compare(other: Path, parts: Sequence[str], rounds: int) -> list[dict[str, Any]]:
    """Compare this version of the package with another one, and print a line per case.

    Returns a row for the start and for each case: median CPU seconds of both, and their ratio.
    """
    if not (other / "gsat" / "__init__.py").is_file():
        raise SystemExit(f"there is no package gsat in {other}")
    other = other.resolve()
    ours = Path(gsat.__file__).parents[1]
    for source in (ours, other):
        start_cpu_time(source)  # compiles its kernels
    rows = [{"what": "start", **_alternate(ours, other, rounds, "start", start_cpu_time)}]
    for dataset, backbone in (case for part in parts for case in CASES[part]):

        def measure(source: Path, dataset: str = dataset, backbone: str = backbone) -> float:
            return epoch_cpu_time(source, dataset, backbone)

        name = f"{dataset:<12} {backbone}, an epoch"
        rows.append(
            {
                "what": "epoch", "dataset": dataset, "backbone": backbone,
                **_alternate(ours, other, rounds, name, measure),
            }
        )  # fmt: skip
    return rows


def _alternate(
    ours: Path, other: Path, rounds: int, name: str, measure: Callable[[Path], float]
) -> dict[str, float]:
    """Measure both in turns, print a line, and return the medians and their ratio."""
    times: dict[Path, list[float]] = {ours: [], other: []}
    for _ in range(rounds):
        for source, taken in times.items():
            taken.append(measure(source))
    this, that = (statistics.median(taken) for taken in times.values())
    pairs = [a / b for a, b in zip(*times.values(), strict=True)]
    print(
        f"  {name}: {this:.3f} s of CPU time against {that:.3f} s, ratio {this / that:.3f} "
        f"(of single pairs: {min(pairs):.3f} to {max(pairs):.3f})"
    )
    return {"this_s": this, "other_s": that, "ratio": this / that}
