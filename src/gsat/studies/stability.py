"""Do trainings that differ by their seed alone explain the same graphs alike?"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gsat.datasets.load import Dataset
from gsat.errors import GSATError, RunError
from gsat.graphs import GraphStore
from gsat.io.jsonl import append_line
from gsat.training.results import read_records
from gsat.training.run_directory import RunDirectory
from gsat.training.train import load, load_data

Floats = NDArray[np.float64]
ENOUGH = 20  # graphs that no run has trained on, to look at those alone


def spearman(first: ArrayLike, second: ArrayLike) -> float | None:
    """Spearman's rank correlation of two score vectors [E], ties by their mean rank.

    None where either has nothing but ties.

    Example:
        >>> spearman([0.1, 0.5, 0.9, 0.9], [1, 2, 3, 3])
        1.0
    """
    one, two = _ranks(first), _ranks(second)
    if len(one) < 2:
        return None
    one, two = one - one.mean(), two - two.mean()
    scale = float(np.sqrt((one @ one) * (two @ two)))
    return float(one @ two) / scale if scale > 0 else None


def stability(paths: Sequence[str | Path], *, limit: int = 200) -> dict[str, Any]:
    """Mean rank correlation of the edge scores of the same graphs between runs.

    The correlation is taken in each graph over its edges (undirected ones once), then its mean over
    graphs, then over all pairs of runs. Every run explains the same graphs: test graphs of the
    lowest seed that are in no run's training set, if there are at least 20; else any graphs in no
    training set; else those test graphs as they are, which other runs may have trained on.

    Args:
        paths: directories of finished runs that differ by their seed alone.
        limit: of graphs looked at.

    Returns:
        Plain values: what was run; ``graphs``, their number, and ``explained``, which ones;
        ``mean`` and ``std`` over pairs of runs (None of a single pair); ``undefined``, how many
        correlations were left out, for a graph whose edges all have one score.
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
    once = _once(graphs)
    scores = [[s[e] for s, e in zip(_scores(run, graphs), once, strict=True)] for run in runs]
    pairs, undefined = [], 0
    for one, two in itertools.combinations(scores, 2):
        found = [spearman(a, b) for a, b in zip(one, two, strict=True)]
        known = [value for value in found if value is not None]
        undefined += len(found) - len(known)
        if known:
            pairs.append(float(np.mean(known)))
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


def record_stability(path: str | Path, line: dict[str, Any]) -> bool:
    """Append what :func:`stability` found, unless it is there already; whether it was."""

    def known() -> bool:
        return line in read_records(path, needs=("recipe_hash",))

    return append_line(Path(path), line, unless=known)


def _check(runs: Sequence[RunDirectory]) -> dict[str, Any]:
    """The result of the first run; raise unless the others differ from it by their seed alone."""
    if len(runs) < 2:
        raise GSATError(f"two runs or more were needed to compare, not {len(runs)}")
    results = [run.result for run in runs]
    for run, result in zip(runs, results, strict=True):
        for key in ("recipe_hash", "data_hash", "results_version"):
            if result[key] != results[0][key]:
                raise RunError(
                    f"runs that differ by their seed alone were needed; the {key} of {run.path} is "
                    f"{result[key]}, that of {runs[0].path} {results[0][key]}"
                )
    seeds = [result["seed"] for result in results]
    if len(set(seeds)) < len(seeds):
        raise RunError(f"runs of different seeds were needed, not of {seeds}")
    return results[0]


def _same_graphs(data: Sequence[Dataset], limit: int) -> tuple[NDArray[np.int64], str]:
    """Positions in the store, and what graphs they are."""
    if data[0].task.level == "node":
        raise GSATError(f"{data[0].name} has labels of nodes; graphs of their own were needed")
    seen = np.unique(np.concatenate([loaded.splits["train"] for loaded in data]))
    test = data[0].splits["test"]
    for rows, what in (
        (np.setdiff1d(test, seen), "test graphs in no training set"),
        (np.setdiff1d(np.arange(len(data[0].store)), seen), "graphs in no training set"),
    ):
        if len(rows) >= ENOUGH:
            return _spread_out(rows, limit), what
    return _spread_out(test, limit), f"test graphs of seed {data[0].seed}"


def _spread_out(rows: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """So many of them at most, from all over: many stores are sorted by class."""
    if len(rows) <= limit:
        return rows
    return rows[np.linspace(0, len(rows) - 1, limit).round().astype(np.int64)]


def _scores(run: RunDirectory, graphs: GraphStore) -> list[Floats]:
    """The scores of the edges of each graph, in the caller's order."""
    model = load(run.path)
    if not model.explains:
        raise GSATError(f"the method of {run.path} explains nothing: there is nothing to compare")
    _, scores = model.score_edges(graphs)
    return np.split(scores.numpy().astype(np.float64), np.cumsum(graphs.edge_counts)[:-1])


def _once(graphs: GraphStore) -> list[NDArray[np.int64]]:
    """Of each graph the edges that count: of an undirected one, one of the two directions."""
    kept = []
    for graph, undirected in zip(graphs, graphs.per_graph("undirected"), strict=True):
        source, target = graph.edge_index.numpy()
        kept.append(np.flatnonzero(source <= target) if undirected else np.arange(len(source)))
    return kept


def _ranks(scores: ArrayLike) -> Floats:
    """Ranks from 0 [E]; equal scores share their mean rank."""
    _, group, size = np.unique(np.asarray(scores), return_inverse=True, return_counts=True)
    return (np.cumsum(size) - (size + 1) / 2)[group]
