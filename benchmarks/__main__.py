"""``python -m benchmarks``: all figures of speed and memory, measured side by side."""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import explain, growth, pna, scale, seeds, steps
from benchmarks.common import DATASETS, ROUNDS, load, thread_counts
from gsat.training.run_directory import environment


def child(*arguments: object) -> Any:
    """Run one measurement in a fresh process; its last line is JSON."""
    command = [sys.executable, "-m", "benchmarks", "child", *map(str, arguments)]
    return json.loads(
        subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.split(b"\n")[-2]
    )


def floor_part(rounds: int) -> list[dict[str, Any]]:
    """(b) our step against its floor."""
    print("step against its floor (the step's matrix products alone)")
    rows = []
    for dataset in (*DATASETS, "mnist75sp"):
        for threads in thread_counts():
            row = steps.step_against_floor(dataset, threads, show=threads == 1)
            if row:
                rows.append(row)
                print(
                    f"  {dataset:<12} {threads} thread(s): step {row['step_ms']:.1f} ms, floor "
                    f"{row['floor_ms']:.1f} ms, {row['ratio']:.2f} x; gathering the batch "
                    f"{100 * row['batch_share']:.1f} % of the step"
                )
    return rows


def pna_part(rounds: int) -> list[dict[str, Any]]:
    """(b) the same on PNA."""
    print("step of PNA against its floor")
    rows = []
    for dataset in DATASETS:
        for threads in thread_counts():
            row = pna.step_against_floor(dataset, threads)
            if row:
                rows.append(row)
                print(
                    f"  {dataset:<12} {threads} thread(s): step {row['step_ms']:.1f} ms, floor "
                    f"{row['floor_ms']:.1f} ms, {row['ratio']:.2f} x"
                )
    return rows


def epoch_part(rounds: int) -> list[dict[str, Any]]:
    """(a) our epoch against plain PyG."""
    print("epoch (train + validate) against plain PyG")
    rows = []
    # PNA on Spurious-Motif is left out: the plain epoch alone takes the better part of a minute.
    cases = [*((name, "gin") for name in DATASETS), ("ba2motifs", "pna"), ("mutag", "pna")]
    for (dataset, backbone), threads in itertools.product(cases, thread_counts()):
        row = steps.epoch_against_plain(dataset, backbone, threads, rounds)
        if row:
            rows.append(row)
            print(
                f"  {dataset:<12} {backbone} {threads} thread(s): {row['ours_s']:.2f} s against "
                f"{row['plain_s']:.2f} s, {row['ratio']:.1f} x faster"
            )
    return rows


def memory_part(rounds: int) -> list[dict[str, Any]]:
    """(c) peak memory of training."""
    print("peak memory of training steps, in fresh processes")
    rows = []
    for dataset in DATASETS:
        row = {"dataset": dataset} | {
            f"{who}_mib": child("memory", who, dataset) for who in ("ours", "plain")
        }
        rows.append(row)
        print(f"  {dataset:<12} {row['ours_mib']:.0f} MiB against {row['plain_mib']:.0f} MiB")
    return rows


def explain_part(rounds: int) -> dict[str, Any]:
    """(d) explaining one graph."""
    print("explaining one graph of 25 nodes")
    row = explain.explain_one()
    print(
        f"  {row['ours_ms']:.2f} ms against {row['gnnexplainer_ms']:.0f} ms of GNNExplainer "
        f"(100 steps), {row['ratio']:.0f} x faster"
    )
    return row


def growth_part(rounds: int) -> dict[str, Any]:
    """(e) growth with the number of edges."""
    print("growth, one thread, in fresh processes")
    out: dict[str, list[Any]] = {"training": [], "inference": []}
    for edges in (10**4, 10**5, 10**6):
        row = child("training_step", edges)
        out["training"].append(row)
        print(
            f"  training step on {row['edges']:>9} edges: {row['us_per_edge']:.2f} us and "
            f"{row['kib_per_edge']:.2f} KiB per edge"
        )
    for edges in (10**5, 10**6, 10**7):
        row = child("inference", edges)
        out["inference"].append(row)
        print(
            f"  inference on     {row['edges']:>9} edges: {row['us_per_edge']:.2f} us per edge, "
            f"{row['mib']:.0f} MiB more in all"
        )
    return out


def seeds_part(rounds: int) -> list[dict[str, Any]]:
    """(f) two seeds at once."""
    print("two seeds in two processes against one, one thread each")
    rows = [seeds.two_against_one(dataset) for dataset in ("ba2motifs", "spmotif-0.5")]
    for row in rows:
        print(f"  {row['dataset']:<12} {row['ratio']:.2f} x the time of one")
    return rows


def scale_part(rounds: int) -> list[dict[str, Any]]:
    """(g) a store in shards."""
    print("small graphs in shards, written and read in fresh processes")
    rows = []
    for graphs in (300_000, 1_000_000):
        with tempfile.TemporaryDirectory() as folder:
            row = child("write_shards", folder, graphs) | child("read_shards", folder)
        rows.append(row)
        print(
            f"  {graphs:>9} graphs, {row['disk_mib']:.0f} MiB in {row['shards']} shards: written "
            f"in {row['writing_s']:.1f} s with {row['writing_mib']:.0f} MiB more memory (made in "
            f"{row['making_s']:.1f} s), opened in {row['opening_s']:.2f} s, random batches with "
            f"{row['reading_mib']:.0f} MiB; a batch takes {row['batch_ms']:.2f} ms against "
            f"{row['in_memory_ms']:.2f} ms in memory, {row['ratio']:.1f} x"
        )
    return rows


PARTS: dict[str, Callable[[int], Any]] = {
    "floor": floor_part,
    "pna": pna_part,
    "epoch": epoch_part,
    "memory": memory_part,
    "explain": explain_part,
    "growth": growth_part,
    "seeds": seeds_part,
    "scale": scale_part,
}
CHILDREN: dict[str, Callable[..., Any]] = {
    "memory": steps.training_memory,
    "training_step": lambda edges: growth.training_step(int(edges)),
    "inference": lambda edges: growth.inference(int(edges)),
    "epochs": seeds.epochs,
    "write_shards": lambda folder, graphs: scale.write(folder, int(graphs)),
    "read_shards": scale.read,
}


def main() -> None:
    """Parse, measure, print."""
    if sys.argv[1:2] == ["child"]:
        print(json.dumps(CHILDREN[sys.argv[2]](*sys.argv[3:])))
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--json", type=Path, nargs="?", const=Path("results/bench.json"),
        help="write the figures to this file (results/bench.json); parts not measured stay there",
    )  # fmt: skip
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of the epoch part")
    chosen = parser.parse_args()
    figures: dict[str, Any] = {}
    before: dict[str, float] = {}
    for name in chosen.only:
        before[name] = load()
        print(f"load before: {before[name]:.2f} (above 0.5 the figures are not to be trusted)")
        figures[name] = PARTS[name](chosen.rounds)
    if chosen.json:
        keep(chosen.json, figures, before)
        print(f"written to {chosen.json}")


def keep(path: Path, figures: dict[str, Any], before: dict[str, float]) -> None:
    """Write figures over those of the same parts; the others stay as they are."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    loads = {**known.get("load_before", {}), **before}
    described = {**known, "load_before": loads, "environment": environment(), **figures}
    path.write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
