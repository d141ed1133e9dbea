"""A run that is being looked at: its answers are computed once, and kept within a bound."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from gsat.core.errors import DataError, GSATError
from gsat.explain.molecules import ExplainedMolecule, output_names
from gsat.explanation import Explanation
from gsat.graphs import GraphStore
from gsat.models import InterpretableModel
from gsat.molecules.fingerprints import NearestMolecules
from gsat.tasks import Task
from gsat.training.molecule_reports import (
    MoleculeReport,
    PatternReport,
    molecule_report,
    pattern_report,
    spoken_names,
)
from gsat.training.run import Run
from gsat.web.computing import COMPUTING
from gsat.web.errors import NotFoundError, RequestError
from gsat.web.limits import Limits
from gsat.web.scored import ScoredSplit

SPLITS: Final = ("test", "valid", "train", "all")
SIMILAR: Final = 6
Made = TypeVar("Made")

# Graphs that are scored per lock hold, so that other requests can compute in between.
CHUNK: Final = 256


class LoadedRun:
    """A run with what has been computed of it."""

    def __init__(
        self, name: str, run: Run, limits: Limits, stopping: threading.Event | None = None
    ) -> None:
        self.name, self.run, self.limits = name, run, limits
        self.stopping = stopping or threading.Event()
        self._kept: OrderedDict[tuple[Any, ...], tuple[int, Any]] = OrderedDict()
        self._lock, self._scoring = threading.RLock(), threading.Lock()
        self.asked = 0.0  # when somebody last waited for a small picture, on the monotonic clock

    @cached_property
    def model(self) -> InterpretableModel:
        """The model."""
        with self._lock:  # a page that needs no more than this does not wait for scores
            return self.run.model

    @property
    def task(self) -> Task:
        """What the model predicts."""
        return self.model.task

    @property
    def takes_smiles(self) -> bool:
        """Whether the model reads molecules given as SMILES."""
        return "table" in (self.model.input or {})

    @cached_property
    def outputs(self) -> list[str]:
        """Names of the classes, labels or numbers."""
        several = self.task.kind in ("multilabel", "regression")
        key = "labels" if several else "classes"
        names = (self.model.input or {}).get(key) or self.run.recipe.data.options.get(key)
        if not names:  # of a named data set, whose files may be elsewhere
            try:
                names = self.run.dataset.store.meta.get(key)
            except (GSATError, OSError):
                names = None
        return spoken_names(output_names(self.task, names), self.model)

    def kept(self, key: tuple[Any, ...], make: Callable[[], Made], size: int) -> Made:
        """Return what was made under a key, or make it; the oldest goes when memory is full."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][1]
        made = make()
        with self._lock:
            self._kept[key] = size or getattr(made, "nbytes", 1024), made
            while (
                len(self._kept) > 1
                and sum(used for used, _ in self._kept.values()) > self.limits.cache_bytes
            ):
                self._kept.popitem(last=False)
        return made

    # -- splits ---------------------------------------------------------------------------------

    def graphs(self, name: str) -> GraphStore:
        """Return the graphs of a split."""
        if name not in SPLITS:
            raise NotFoundError(f"there is no split '{name[:40]}': there are {', '.join(SPLITS)}")
        return self.kept(("graphs", name), lambda: self.run.graphs(split=name), 1024)

    def split(self, name: str) -> ScoredSplit:
        """Return a split with the model's answers."""
        store = self.graphs(name)

        def make() -> ScoredSplit:
            with self._scoring:
                # Another request may have made it while this one waited.
                with self._lock:
                    if ("split", name) in self._kept:
                        return self._kept["split", name][1]
                return self._scored(name, store)

        return self.kept(("split", name), make, 0)

    def first_rows(self, name: str, count: int) -> tuple[ScoredSplit, int]:
        """Return the first rows of a split with predictions, without waiting for the rest."""
        store = self.graphs(name)
        if self.task.level == "node" or len(store) <= count or ("split", name) in self._kept:
            scored = self.split(name)
            return scored, len(scored)
        return self._scored(name, store, range(count)), len(store)

    def _scored(self, name: str, whole: GraphStore, rows: range | None = None) -> ScoredSplit:
        """Score graphs of a split (by default all); other requests may use the model in between."""
        store = whole if rows is None else whole.select(rows)
        logits = torch.empty(store.count(self.task.level), self.task.num_logits)
        scores = torch.empty(store.num_edges)
        predicted = filled = 0
        for first in range(0, len(store), CHUNK):
            if first and self.stopping.is_set():
                raise RequestError(503, "the service is being stopped")
            chunk = store.select(range(first, min(first + CHUNK, len(store))))
            with COMPUTING:
                own_logits, own_scores = self.model.score_edges(chunk)
            logits[predicted : predicted + len(own_logits)] = own_logits
            scores[filled : filled + len(own_scores)] = own_scores
            predicted, filled = predicted + len(own_logits), filled + len(own_scores)
        numbers = None if rows is None else np.array(rows)
        explains = self.model.explains
        return ScoredSplit(name, store, self.task, logits, scores.numpy(), explains, numbers)

    def row(self, split: str, row: int) -> tuple[ScoredSplit, int]:
        """Return a row of a split with the model's answer, without waiting for the others."""
        if self.task.level == "node" or ("split", split) in self._kept:
            scored = self.split(split)
            _check_row(split, row, len(scored), self.task.level)
            return scored, row
        store = self.graphs(split)
        _check_row(split, row, len(store), "graph")
        alone = self.kept(
            ("row", split, row), lambda: self._scored(split, store, range(row, row + 1)), 4096
        )
        return alone, 0

    def count(self, split: str) -> int:
        """How many rows a split has."""
        return len(self.split(split) if self.task.level == "node" else self.graphs(split))

    # -- explanations ---------------------------------------------------------------------------

    def explanation(self, split: str, row: int) -> Explanation:
        """Explain a row of a split."""
        store = self.graphs(split)
        graph, node = self._place(split, row, len(store))

        def make() -> Explanation:
            with COMPUTING:
                found = self.run.explain(store, graph=graph, node=node)
            found.class_names = self.outputs
            return found

        return self.kept(("explanation", split, row), make, 40_000)

    def _place(self, split: str, row: int, graphs: int) -> tuple[int, int | None]:
        """The graph of a row, and the node if it is one; a graph need not be scored for that."""
        if self.task.level == "graph":
            _check_row(split, row, graphs, "graph")
            return row, None
        scored, place = self.row(split, row)
        assert scored.node is not None
        return int(scored.graph[place]), int(scored.node[place])

    def explain_store(self, store: GraphStore) -> list[Explanation]:
        """Explain graphs that belong to no split."""
        with COMPUTING:
            self.model.check_fits(store)
            found = self.run.explain(store)
        for explanation in found:
            explanation.class_names = self.outputs
        return found

    def molecule(self, split: str, row: int) -> ExplainedMolecule | None:
        """Explain a row by fragments of its molecule; None if it is not a molecule."""
        scored, place = self.row(split, row)
        if not scored.smiles or scored.node is not None or not scored.smiles[place]:
            return None

        def make() -> ExplainedMolecule | None:
            try:
                return self.molecules(scored.store.select([place]))[0]
            except DataError:  # a SMILES that is not that of the graph
                return None

        return self.kept(("molecule", split, row), make, 60_000)

    def molecules(self, store: GraphStore) -> MoleculeReport:
        """Explain molecules by their fragments."""
        with COMPUTING:
            return molecule_report(self.run, store)

    def patterns(self, split: str) -> PatternReport:
        """Find the fragments that recur in the explanations of a split."""
        self.graphs(split)  # is there such a split?
        with COMPUTING:
            return self.kept(
                ("patterns", split), lambda: pattern_report(self.run, split=split), 8 << 20
            )

    # -- similar graphs -------------------------------------------------------------------------

    def similar(self, split: str, row: int) -> list[tuple[int, float]]:
        """Find the most similar graphs of the same split.

        Molecules are compared by Tanimoto similarity of Morgan fingerprints; other graphs by the
        cosine of the network's embeddings, averaged over the nodes.
        """
        scored = self.split(split)
        _check_row(split, row, len(scored), self.task.level)
        if scored.node is not None:
            return []
        if scored.smiles:
            size = 600 * len(scored)
            near = self.kept(("near", split), lambda: NearestMolecules(scored.smiles), size)
            found = near.nearest(scored.smiles[row], SIMILAR + 1)
            return [(n.position, n.similarity) for n in found if n.position != row][:SIMILAR]
        embedded = self.kept(("embedding", split), lambda: self._embedded(scored.store), 0)
        likeness = embedded @ embedded[row]
        likeness[row] = -np.inf
        best = np.argsort(-likeness, kind="stable")[: min(SIMILAR, len(likeness) - 1)]
        return [(int(i), float(likeness[i])) for i in best]

    def _embedded(self, store: GraphStore) -> NDArray[np.float32]:
        """A unit vector for each graph, ``[G, h]``."""
        parts: list[NDArray[np.float32]] = []
        device = next(self.model.parameters()).device
        with COMPUTING, self.model.evaluating():
            for batch in store.batches(256, 1 << 20):
                batch = batch.to(device)
                nodes = self.model.backbone.embed(batch)
                sums = torch.zeros(batch.num_graphs, nodes.shape[1], device=device)
                sums.index_add_(0, batch.node_graph, nodes)
                counts = torch.bincount(batch.node_graph, minlength=batch.num_graphs)
                parts.append((sums / counts.clamp(min=1)[:, None]).numpy(force=True))
        vectors = np.concatenate(parts) if parts else np.zeros((0, 1), np.float32)
        centred = vectors - vectors.mean(axis=0)
        length = np.linalg.norm(centred, axis=1, keepdims=True)
        return (centred / np.maximum(length, 1e-12)).astype(np.float32)


def _check_row(split: str, row: int, count: int, what: str) -> None:
    if not 0 <= row < count:
        raise NotFoundError(
            f"there is no {what} {row} in the split '{split}': they are 0 to {count - 1}"
        )
