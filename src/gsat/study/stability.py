"""Stability over seeds: how similar the explanations of runs are that differ by their seed only."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsat.core.errors import GSATError, RunError
from gsat.core.writing import append_line
from gsat.datasets.load import Dataset
from gsat.graphs import GraphStore
from gsat.methods import METHODS
from gsat.metrics import spearman
from gsat.study.records import BenchFolders, Records
from gsat.study.study import Experiment
from gsat.training.recipe import load_data
from gsat.training.results import read_records
from gsat.training.run import load
from gsat.training.run_directory import RunDirectory

Floats = NDArray[np.float64]
MIN_GRAPHS = 20  # graphs in no training set, to use those only


def stability(paths: Sequence[str | Path], *, limit: int = 200) -> dict[str, Any]:
    """Mean rank correlation of the edge scores that several runs give the same graphs.

    The correlation is computed in each graph over its edges (undirected ones once), then averaged
    over graphs, then over all pairs of runs. The graphs are test graphs of the lowest seed that
    are in no run's training set, if there are at least 20; else any graphs in no training set;
    else all test graphs of the lowest seed, which other runs may have trained on.
    """
    runs = sorted(map(RunDirectory.open, paths), key=lambda run: run.recipe.seed)
    first = _check(runs)
    data = [load_data(run.recipe) for run in runs]
    for run, loaded in zip(runs, data, strict=True):
        if loaded.hash != first["data_hash"]:
            raise RunError(
                f"{run.path} was trained on other graphs (hash {first['data_hash']}) than "
                f"{loaded.name} has now ({loaded.hash})"
            )
    rows, explained = _same_graphs(data, limit)
    graphs = data[0].store.select(rows)
    edges = _single_direction(graphs)
    scores = [[s[e] for s, e in zip(_scores(run, graphs), edges, strict=True)] for run in runs]
    pairs, undefined = [], 0
    for one, two in itertools.combinations(scores, 2):
        values = [spearman(a, b) for a, b in zip(one, two, strict=True)]
        defined = [value for value in values if value is not None]
        undefined += len(values) - len(defined)
        if defined:
            pairs.append(float(np.mean(defined)))
    return {
        **{key: first[key] for key in ("dataset", "method", "backbone", "recipe_hash")},
        **{key: first[key] for key in ("data_hash", "results_version")},
        "seeds": [run.recipe.seed for run in runs],
        "graphs": len(graphs),
        "explained": explained,
        "mean": float(np.mean(pairs)) if pairs else None,
        "std": float(np.std(pairs)) if len(pairs) > 1 else None,
        "undefined": undefined,
    }


def compare_seeds(
    experiments: Iterable[Experiment], folders: BenchFolders
) -> Iterator[tuple[str, GSATError | None]]:
    """Compare the explanations of runs that differ only by their seed, and record the result."""
    compared, records = False, Records.read(folders.record)
    for experiment in experiments:
        runs = folders.finished(experiment, records.of(experiment).data_hash)
        if len(runs) < 2 or not METHODS[experiment.method].Model.explains:
            continue
        compared = True
        try:
            line = stability(list(runs.values()))
        except GSATError as error:  # other recipes may still be compared
            yield str(experiment), error
            continue
        _record(folders.stability, line)
        mean = "undefined" if line["mean"] is None else f"{line['mean']:.3f}"
        spread = "" if line["std"] is None else f" ± {line['std']:.3f}"
        yield (
            f"{experiment}: rank correlation between {len(runs)} seeds {mean}{spread} "
            f"({line['graphs']} graphs, {line['explained']})",
            None,
        )
    if not compared:
        raise GSATError(
            f"there are no two finished runs of one recipe in {folders.runs} to compare; the "
            "folders of the runs are needed"
        )


def _record(path: Path, line: dict[str, Any]) -> None:
    append_line(path, line, unless=lambda: line in read_records(path, needs=("recipe_hash",)))


def _check(runs: Sequence[RunDirectory]) -> dict[str, Any]:
    """The result of the first run; raise unless the others differ from it by their seed only."""
    if len(runs) < 2:
        raise GSATError(f"a comparison needs at least two runs, not {len(runs)}")
    results = [run.result for run in runs]
    for run, result in zip(runs, results, strict=True):
        for key in ("recipe_hash", "data_hash", "results_version"):
            if result[key] != results[0][key]:
                raise RunError(
                    f"a comparison needs runs that differ by their seed only; the {key} of "
                    f"{run.path} is {result[key]}, that of {runs[0].path} {results[0][key]}"
                )
    seeds = [result["seed"] for result in results]
    if len(set(seeds)) < len(seeds):
        raise RunError(f"a comparison needs runs of different seeds, not {seeds}")
    return results[0]


def _same_graphs(data: Sequence[Dataset], limit: int) -> tuple[NDArray[np.int64], str]:
    """Positions of the graphs in the store, and a description of which graphs they are."""
    if data[0].task.level == "node":
        raise GSATError(f"{data[0].name} has labels of nodes; a comparison needs separate graphs")
    seen = np.unique(np.concatenate([loaded.splits["train"] for loaded in data]))
    test = data[0].splits["test"]
    for rows, what in (
        (np.setdiff1d(test, seen), "test graphs in no training set"),
        (np.setdiff1d(np.arange(len(data[0].store)), seen), "graphs in no training set"),
    ):
        if len(rows) >= MIN_GRAPHS:
            return _spread_out(rows, limit), what
    return _spread_out(test, limit), f"test graphs of seed {data[0].seed}"


def _spread_out(rows: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """At most ``limit`` of the rows, evenly spaced: many stores are sorted by class."""
    if len(rows) <= limit:
        return rows
    return rows[np.linspace(0, len(rows) - 1, limit).round().astype(np.int64)]


def _scores(run: RunDirectory, graphs: GraphStore) -> list[Floats]:
    """The edge scores of each graph, in the original edge order."""
    model = load(run.path)
    if not model.explains:
        raise GSATError(f"the method of {run.path} gives no explanations to compare")
    _, scores = model.score_edges(graphs)
    return np.split(scores.numpy().astype(np.float64), np.cumsum(graphs.edge_counts)[:-1])


def _single_direction(graphs: GraphStore) -> list[NDArray[np.int64]]:
    """The edges of each graph to compare: of an undirected graph, one of both directions."""
    kept = []
    for graph, undirected in zip(graphs, graphs.per_graph("undirected"), strict=True):
        source, target = graph.edge_index.numpy()
        kept.append(np.flatnonzero(source <= target) if undirected else np.arange(len(source)))
    return kept
