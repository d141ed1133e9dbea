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
from gsat.graphs.store import ranges
from gsat.training.rundir import RunDirectory
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
    one, two = one - one.mean(), two - two.mean()
    scale = float(np.sqrt((one @ one) * (two @ two)))
    return float(one @ two) / scale if scale > 0 else None


def stability(paths: Sequence[str | Path], *, limit: int = 200) -> dict[str, Any]:
    """Mean rank correlation of the edge scores of the same graphs between runs.

    The correlation is taken in each graph over its edges (undirected ones once), then its mean over
    graphs, then over all pairs of runs. Every run explains the same graphs: those in the training
    set of none of them, if there are at least 20, or else the test graphs of the lowest seed, which
    other runs may have trained on.

    Args:
        paths: directories of finished runs that differ by their seed alone.
        limit: of graphs looked at.

    Returns:
        Plain values: what was run; ``graphs``, their number, and ``explained``, which ones;
        ``mean`` and ``std`` over pairs of runs (None of a single pair); ``undefined``, how many
        graphs of how many in all pairs were left out for having one score on all edges.
    """
    runs = sorted(map(_open, paths), key=lambda run: run.recipe.seed)
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
    scores = []
    for run in runs:
        _, edges = load(run.path).score_edges(graphs)
        scores.append([s[kept] for s, kept in zip(_by_graph(graphs, edges), once, strict=True)])
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
