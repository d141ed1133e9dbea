"""How long a run should take: as long as runs like it took, or by rule of thumb."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from gsat.training.recipe import Recipe

# An epoch's work: nodes of the training set in thousands, or where an epoch was seen to take much
# longer or shorter (wide features, large test sets, one graph), as many as take that time.
_NODES = {
    "ba2motifs": 20, "houses": 30, "mutag": 71, "spmotif": 300, "mnist75sp": 2500,
    "graph-sst2": 3500, "ogbg-molhiv": 839, "ogbg-molbace": 80, "ogbg-molbbbp": 80,
    "ogbg-molclintox": 150, "ogbg-moltox21": 350, "ogbg-molsider": 150, "ba-shapes": 10,
    "tree-cycles": 4, "motif-count": 50,
}  # fmt: skip
# Seconds of one core for GSAT, per epoch and thousand nodes, by backbone.
_SECONDS = {"gin": 0.013, "pna": 0.08, "leconv": 0.009}
# Other methods in terms of GSAT.
_TIMES = {
    "erm": 0.5, "irm": 0.6, "vrex": 0.6, "gsat": 1.0, "gsat-star": 1.7, "dir": 2.0,
    "ib-subgraph": 0.7, "gnnexplainer": 1.2, "pgexplainer": 1.1, "graphmask": 1.0,
}  # fmt: skip


class Costs:
    """Expected seconds of runs, learnt from recorded ones."""

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        self._same: dict[str, list[float]] = {}
        self._alike: dict[tuple[str, ...], list[float]] = {}
        for record in records:
            if "seconds" in record:
                self._same.setdefault(record["recipe_hash"], []).append(record["seconds"])
                epochs = record["recipe"]["training"]["epochs"]
                key = (record["dataset"], record["backbone"], record["method"])
                self._alike.setdefault(key, []).append(record["seconds"] / epochs)

    def seconds(self, recipe: Recipe) -> float:
        """Of one core: the median of the same recipe's runs; else that of the same method, network
        and data for each epoch; else by rule of thumb, which may be off by two or three times."""
        if recipe.hash() in self._same:
            return median(self._same[recipe.hash()])
        name, network, epochs = recipe.data.name, recipe.backbone.name, recipe.training.epochs
        alike = self._alike.get((name, network, recipe.method))
        if alike:
            return median(alike) * epochs
        nodes = _NODES.get(name) or _NODES.get(name.split("-")[0], 100)
        return epochs * nodes * _SECONDS.get(network, 0.02) * _TIMES.get(recipe.method, 1.0)


def makespan(seconds: Iterable[float], jobs: int) -> float:
    """How long runs take together, begun in their order, so many at a time."""
    ends = [0.0] * max(jobs, 1)
    for each in seconds:
        heapq.heapreplace(ends, ends[0] + each)
    return max(ends)


def duration(seconds: float) -> str:
    """For people: 40 s, 12 min, 3 h 20 min, 5 days."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    return f"{hours / 24:.1f} days"
