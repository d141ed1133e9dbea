"""Measure speed and memory of the package side by side with its references."""

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

from benchmarks import against, explain, growth, pna, scale, seeds, serve, steps
from benchmarks.common import DATASETS, ROUNDS, load, thread_counts
from benchmarks.page import speed_page
from gsat.training.run_directory import environment


def child(*arguments: object) -> Any:
    """Run one measurement in a fresh process.

    Returns the last line of its output, parsed as JSON.
    """
    command = [sys.executable, "-m", "benchmarks", "child", *map(str, arguments)]
    return json.loads(
        subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.split(b"\n")[-2]
    )


def floor_part(rounds: int) -> list[dict[str, Any]]:
    """A training step on GIN against its floor, the matrix products in it."""
    print("training step on GIN against its floor (its matrix products alone, in the cache)")
    rows = []
    for dataset in (*DATASETS, "mnist75sp"):
        for threads in thread_counts():
            row = steps.step_against_floor(dataset, threads, show=threads == 1)
            if row:
                rows.append(row)
                share = f"gathering the batch {100 * row['batch_share']:.1f} % of the step"
                print(f"{_floor_line(row)}; {share}")
    return rows


def _floor_line(row: dict[str, Any]) -> str:
    """A step and its floor, in a line."""
    return (
        f"  {row['dataset']:<12} {row['threads']} thread(s): step {row['step_ms']:.1f} ms "
        f"(CPU {row['step_cpu_ms']:.1f}), floor {row['floor_ms']:.1f} ms (CPU "
        f"{row['floor_cpu_ms']:.1f}, {row['floor_gflops']:.0f} GF/s), {row['ratio']:.2f} x"
    )


def pna_part(rounds: int) -> list[dict[str, Any]]:
    """The same on PNA."""
    print("training step on PNA against its floor")
    rows = []
    for dataset in DATASETS:
        for threads in thread_counts():
            row = pna.step_against_floor(dataset, threads)
            if row:
                rows.append(row)
                print(_floor_line(row))
    return rows


def epoch_part(rounds: int) -> list[dict[str, Any]]:
    """An epoch (train and validate) against plain PyG."""
    print("epoch (train + validate) against plain PyG")
    rows = []
    # PNA on Spurious-Motif is left out: one plain epoch takes most of a minute.
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
    """Peak memory of training, against plain PyG."""
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
    """The explanation of one graph, against GNNExplainer."""
    print("explaining one graph of 25 nodes")
    row = explain.explain_one()
    print(
        f"  {row['ours_ms']:.2f} ms against {row['gnnexplainer_ms']:.0f} ms of GNNExplainer "
        f"(100 steps), {row['ratio']:.0f} x faster"
    )
    return row


def growth_part(rounds: int) -> dict[str, Any]:
    """Growth of time and memory with the number of edges."""
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
    """Two seeds in two processes, against one in one."""
    print("two seeds in two processes against one, one thread each")
    rows = [seeds.two_against_one(dataset) for dataset in ("ba2motifs", "spmotif-0.5")]
    for row in rows:
        print(f"  {row['dataset']:<12} {row['ratio']:.2f} x the time of one")
    return rows


def scale_part(rounds: int) -> list[dict[str, Any]]:
    """A store in shards: writing and reading in bounded memory."""
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


def serve_part(rounds: int) -> dict[str, Any]:
    """The service with 32 clients, against the model in a loop; a gallery of 10 000 graphs."""
    print(f"{serve.REQUESTS} requests of {serve.CLIENTS} clients on loopback")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for backbone in serve.BACKBONES:
            row = {"backbone": backbone, **serve.measure(serve.make_run(folder, backbone))}
            rows.append(row)
            print(
                f"  {backbone}: together {row['together_per_s']:.0f} a second (p50 "
                f"{row['together_p50_ms']:.0f} ms, p99 {row['together_p99_ms']:.0f} ms), one by "
                f"one {row['single_per_s']:.0f}, the model in a loop {row['loop_per_s']:.0f}: "
                f"{row['batching_ratio']:.1f} x and {row['loop_ratio']:.1f} x"
            )
    shown = child("gallery")
    print(
        f"  gallery of {shown['graphs']} graphs: first page {shown['first_s']:.2f} s, next "
        f"{shown['next_s']:.2f} s, sorted {shown['sorted_s']:.2f} s, {shown['grown_mib']:.0f} MiB"
    )
    return {"rows": rows, "gallery": shown}


PARTS: dict[str, Callable[[int], Any]] = {
    "floor": floor_part,
    "pna": pna_part,
    "epoch": epoch_part,
    "memory": memory_part,
    "explain": explain_part,
    "growth": growth_part,
    "seeds": seeds_part,
    "scale": scale_part,
    "serve": serve_part,
}
FIGURES, PAGE = Path("results/bench.json"), Path("docs/speed.md")
CHILDREN: dict[str, Callable[..., Any]] = {
    "memory": steps.training_memory,
    "training_step": lambda edges: growth.training_step(int(edges)),
    "inference": lambda edges: growth.inference(int(edges)),
    "epochs": seeds.epochs,
    "write_shards": lambda folder, graphs: scale.write(folder, int(graphs)),
    "read_shards": scale.read,
    "serve": serve.serve,
    "gallery": serve.gallery,
}


def main() -> None:
    """Parse the command line, measure, print."""
    if sys.argv[1:2] == ["child"]:
        print(json.dumps(CHILDREN[sys.argv[2]](*sys.argv[3:])))
        return
    chosen = arguments()
    if chosen.against:
        against.compare(chosen.against, chosen.only, chosen.rounds)
        return
    figures: dict[str, Any] = {}
    before: dict[str, float] = {}
    for name in chosen.only:
        before[name] = load()
        print(f"load before: {before[name]:.2f} (above 0.5 the figures are not reliable)")
        figures[name] = PARTS[name](chosen.rounds)
    if chosen.json:
        keep(chosen.json, figures, before)
        print(f"written to {chosen.json}")
    if chosen.page:
        kept = json.loads(FIGURES.read_text(encoding="utf-8"))
        PAGE.write_text(speed_page(kept), encoding="utf-8")
        print(f"written to {PAGE}")


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parts = "\n".join(f"  {name:<8} {(part.__doc__ or '').strip()}" for name, part in PARTS.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"parts:\n{parts}\n\nexamples:\n"
        "  python -m benchmarks                              measure all parts\n"
        "  python -m benchmarks --only floor pna             measure two of them\n"
        "  python -m benchmarks --json                       and keep the figures\n"
        "  python -m benchmarks --against ../before/src --only floor pna\n"
        "                                                    compare with another version",
    )
    parser.add_argument(
        "--only", nargs="+", choices=list(PARTS), metavar="PART",
        help="measure these parts only (default: all; with --against: floor pna)",
    )  # fmt: skip
    parser.add_argument(
        "--json", type=Path, nargs="?", const=FIGURES, metavar="FILE",
        help="write the figures to a file (default: results/bench.json); other parts stay in it",
    )  # fmt: skip
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS,
        help="repetitions of the part 'epoch' and of --against (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--against", type=Path, metavar="SRC",
        help="compare the CPU time of the start and of training epochs with that of the version of "
        "the package in this folder, in alternating processes",
    )  # fmt: skip
    parser.add_argument(
        "--page", action="store_true",
        help=f"write {PAGE} from {FIGURES}; without --only, nothing is measured",
    )  # fmt: skip
    chosen = parser.parse_args()
    if chosen.against:
        unknown = [name for name in chosen.only or () if name not in against.CASES]
        if unknown or chosen.json:
            parser.error("--against takes --only floor or pna, and no --json")
    if chosen.page and not chosen.only:
        chosen.only = []
    elif not chosen.only:
        chosen.only = list(against.CASES if chosen.against else PARTS)
    return chosen


def keep(path: Path, figures: dict[str, Any], before: dict[str, float]) -> None:
    """Write figures to a file; figures of other parts in it stay."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    loads, here = {**known.get("load_before", {}), **before}, environment()
    cpus = {**known.get("cpu", {}), **dict.fromkeys(before, here["cpu"])}
    described = {**known, "load_before": loads, "cpu": cpus, "environment": here, **figures}
    path.write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
