"""Estimates of how long runs take on a CPU of their own, from recorded runs or by rule of thumb.

CPU seconds are used where they are recorded: seconds by the clock include those that other programs
took.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from gsat.study.records import graphs_key
from gsat.training.recipe import Recipe
from gsat.training.time_spent import Spent

# The work of an epoch: nodes of the training set in thousands, or, where an epoch was measured to
# be much slower or faster (wide features, large test sets, one graph), the number of equal time.
_NODES = {
    "ba2motifs": 20, "houses": 30, "mutag": 71, "spmotif": 300, "mnist75sp": 2500,
    "graph-sst2": 3500, "ogbg-molhiv": 839, "ogbg-molbace": 80, "ogbg-molbbbp": 80,
    "ogbg-molclintox": 150, "ogbg-moltox21": 350, "ogbg-molsider": 150, "ba-shapes": 10,
    "tree-cycles": 4, "motif-count": 50, "rbgv": 15,
}  # fmt: skip
# Seconds of one core for GSAT, per epoch and thousand nodes, by backbone.
_SECONDS = {"gin": 0.013, "pna": 0.03, "leconv": 0.009, "dmpnn": 0.04}
# Time of the methods relative to GSAT.
_RELATIVE = {
    "erm": 0.5, "irm": 0.6, "vrex": 0.6, "gsat": 1.0, "gsat-star": 1.7, "dir": 2.0,
    "ib-subgraph": 0.7, "gnnexplainer": 1.2, "pgexplainer": 1.1, "graphmask": 1.0,
    "random": 0.5, "degree": 0.5,
}  # fmt: skip


class CostEstimates:
    """Expected seconds of runs, from the times of recorded ones."""

    def __init__(self, records: Iterable[Mapping[str, Any]], cpu: str = "") -> None:
        here, elsewhere = _Times(), _Times()
        for record in records:
            if "seconds" in record:
                (here if record.get("cpu", "") == cpu or not cpu else elsewhere).add(record)
        ratios = [
            _typical(times) / _typical(elsewhere.by_recipe[recipe])
            for recipe, times in here.by_recipe.items()
            if recipe in elsewhere.by_recipe
        ]
        self._sources = ((here, 1.0), (elsewhere, median(ratios) if ratios else 1.0))

    def seconds(self, recipe: Recipe) -> float:
        """Estimate the seconds of a run on one core."""
        for times, factor in self._sources:
            if recipe.hash() in times.by_recipe:
                return factor * _typical(times.by_recipe[recipe.hash()])
        epochs = recipe.training.epochs * (recipe.members or 1)
        return self._by_epoch(recipe, recipe.method, epochs)

    def pretraining_seconds(self, recipe: Recipe) -> float:
        """Estimate the part of a run's seconds that is spent before its own phase begins."""
        epochs = getattr(recipe.settings, "pretrain_epochs", None) or recipe.training.epochs
        return min(self._by_epoch(recipe, "erm", epochs), 0.9 * self.seconds(recipe))

    def _by_epoch(self, recipe: Recipe, method: str, epochs: int) -> float:
        """Seconds of some epochs of a method, on the data and the backbone of a recipe."""
        name, backbone = recipe.data.name, recipe.backbone.name
        for times, factor in self._sources:
            similar = times.per_epoch.get((graphs_key(recipe.tables()), backbone, method))
            if similar:
                return factor * _typical(similar) * epochs
        nodes = _NODES.get(name) or _NODES.get(name.split("-")[0], 100)
        return epochs * nodes * _SECONDS.get(backbone, 0.02) * _RELATIVE.get(method, 1.0)


class _Times:
    """Times of recorded runs, by recipe, and per epoch by graphs, backbone and method."""

    def __init__(self) -> None:
        self.by_recipe: dict[str, list[Spent]] = {}
        self.per_epoch: dict[tuple[str, ...], list[Spent]] = {}

    def add(self, record: Mapping[str, Any]) -> None:
        spent = Spent.read(record)
        self.by_recipe.setdefault(record["recipe_hash"], []).append(spent)
        epochs = record["recipe"]["training"]["epochs"] * record["recipe"].get("members", 1)
        key = (graphs_key(record["recipe"]), record["backbone"], record["method"])
        cpu = None if spent.cpu_seconds is None else spent.cpu_seconds / epochs
        self.per_epoch.setdefault(key, []).append(Spent(spent.seconds / epochs, cpu))


def _typical(times: Iterable[Spent]) -> float:
    """The median of CPU seconds, or of seconds by the clock where no CPU seconds are known."""
    cpu = [spent.cpu_seconds for spent in times if spent.cpu_seconds is not None]
    return median(cpu or [spent.seconds for spent in times])


def makespan(seconds: Iterable[float], jobs: int) -> float:
    """Time from the first start to the last end of runs that are started in order."""
    return max(end_times(seconds, jobs), default=0.0)


def end_times(seconds: Iterable[float], jobs: int) -> list[float]:
    """When each of several runs ends, if they are started in order."""
    free, ends = [0.0] * max(jobs, 1), []
    for each in seconds:
        ends.append(free[0] + each)
        heapq.heapreplace(free, ends[-1])
    return ends


def format_duration(seconds: float) -> str:
    """Write a duration for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    return f"{hours / 24:.1f} days"
