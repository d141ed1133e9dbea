"""A split with predictions and edge scores, which can be filtered, sorted and searched."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gsat.graphs import GraphStore
from gsat.graphs.build import ranges
from gsat.molecules import SMILES
from gsat.molecules.smiles import import_rdkit
from gsat.ranks import Floats, Ints, areas_within, correlations_within, ranks_within
from gsat.tasks import Task
from gsat.web.cancellation import check_cancelled
from gsat.web.rdkit_process import find_substructures, library_key
from gsat.web.requests import Filter, Limits, Sort

TOP_SHARE: Final = 0.2  # of a graph's edges, for the overlap of two explanations


class ScoredSplit:
    """Predictions and edge scores for a split of G graphs, with M rows: its graphs or its nodes."""

    def __init__(
        self,
        store: GraphStore,
        task: Task,
        logits: Any,  # [M, L]
        scores: NDArray[np.float32],  # of all edges in the caller's order, graph after graph, [E]
        outputs: Sequence[str],  # names of the classes, labels or numbers, [L or C]
        explains: bool = True,  # whether the scores mean anything
        numbers: Ints | None = None,  # of each row in the whole split, [M]; None if all are here
    ) -> None:
        self.store, self.task, self.scores, self.numbers = store, task, scores, numbers
        self.outputs = outputs
        self.edge_ptr: Ints = np.concatenate([[0], np.cumsum(store.edge_counts)])
        self.graph: Ints  # of each row, [M]
        self.node: Ints | None  # of each row, [M]; None at graph level
        if task.level == "node":
            self.graph, self.node = store.target_places()
        else:
            self.graph, self.node = np.arange(len(store)), None
        undefined = np.full(len(self.graph), np.nan)
        # Classes [M], labels [M, T] or numbers.
        self.predicted: NDArray[Any] = task.decide(logits).numpy()
        # [M, C]; [M, 0] in regression.
        self.probabilities: Floats = task.probabilities(logits).numpy().astype(np.float64)
        # The highest probability, [M]; NaN in regression.
        self.confidence = self.probabilities.max(axis=1) if self.probabilities.size else undefined
        self.labels = self._labels()  # shaped as predicted; None if unknown
        # 1 right, 0 wrong, -1 unknown, [M]; absolute error of a regression, [M], NaN elsewhere.
        self.right, self.error = self._compared()
        self.auc = self._auc() if explains else undefined  # explanation AUC, [M]
        self.ids: Sequence[str] = store.texts("id") if store.has("id") else ()
        self.smiles: Sequence[str] = store.texts(SMILES) if store.has(SMILES) else ()

    def __len__(self) -> int:
        return len(self.graph)

    @property
    def nbytes(self) -> int:
        """Approximate memory, without the data set."""
        rows = 120 * len(self) + self.probabilities.nbytes
        return int(self.scores.nbytes + rows + sum(map(len, self.smiles)) + 60 * len(self.smiles))

    @property
    def has_truth(self) -> bool:
        """Whether there is ground truth for any row."""
        return bool(np.isfinite(self.auc).any())

    def title(self, row: int) -> str:
        """Name a row: its identifier, or its number."""
        if self.node is not None:
            return f"node {self.node[row]}" + (
                f" of graph {self.graph[row]}" if len(self.store) > 1 else ""
            )
        return (self.ids[row] if self.ids else "") or f"graph {self.number(row)}"

    def number(self, row: int) -> int:
        """The number of a row in the whole split."""
        return row if self.numbers is None else int(self.numbers[row])

    def words(self, value: Any) -> str:
        """Write a class, labels or numbers of a row in words; empty where they are unknown."""
        values = np.asarray(value, dtype=np.float64).reshape(-1)
        known = values[~np.isnan(values)]
        if not len(known):
            return ""
        if self.task.kind == "regression":
            return ", ".join(f"{number:.4g}" for number in known)
        if self.predicted.ndim == 1:
            number = int(values[0])
            return self.outputs[number] if 0 <= number < len(self.outputs) else ""
        names = [self.outputs[i] for i in np.flatnonzero(values == 1).tolist()]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return ", ".join(names[:3]) + more or "none"

    def rows(self, query: Filter) -> Ints:
        """Filter and sort rows."""
        keep = np.ones(len(self), dtype=bool)
        if self.predicted.ndim == 1 and query.predicted is not None:
            keep &= self.predicted == query.predicted
        if self.labels is not None and self.labels.ndim == 1 and query.true is not None:
            keep &= self.labels == query.true
        if query.right:
            keep &= self.right == (query.right == "yes")
        for values, low, high in (
            (self.confidence, query.min_confidence, query.max_confidence),
            (self.auc, query.min_auc, query.max_auc),
        ):
            if (low, high) != (0.0, 1.0):
                keep &= (values >= low - 1e-9) & (values <= high + 1e-9)
        if query.search.strip():
            keep &= self.matching(query.search.strip())
        rows = np.flatnonzero(keep)
        key = self._sort_key(query.sort)[rows]
        order = np.argsort(-key if query.descending else key, kind="stable")  # NaN comes last
        return rows[order]

    def matching(self, text: str) -> NDArray[np.bool_]:
        """Find rows by number, part of an identifier, or a SMILES that they contain."""
        numbers = self.graph if self.node is None else self.node
        if text.isascii() and text.isdigit() and len(text) < 10:
            return (numbers == int(text)) | self._identified(text)
        matches = self._identified(text)
        if matches.any() or not self.smiles:
            return matches
        return self._substructure(text)[self.graph]

    def _identified(self, text: str) -> NDArray[np.bool_]:
        if not self.ids:
            return np.zeros(len(self), dtype=bool)
        folded = text.casefold()
        return np.array([folded in one.casefold() for one in self.ids])[self.graph]

    def _substructure(self, text: str) -> NDArray[np.bool_]:
        """Graphs whose molecules contain a SMILES (or SMARTS), ``[G]``."""
        import_rdkit("a search for substructures")
        matches = np.zeros(len(self.store), dtype=bool)
        matches[
            find_substructures(
                self._library,
                self.smiles,
                text,
                seconds=Limits.search_seconds,
                wait=Limits.wait_seconds,
                check=check_cancelled,
            )
        ] = True
        return matches

    @cached_property
    def _library(self) -> str:
        """The name of the molecules to search."""
        return library_key(self.smiles)

    def _sort_key(self, sort: Sort) -> Floats:
        keys: dict[str, NDArray[Any]] = {
            "number": np.arange(len(self)),
            "confidence": self.confidence,
            "auc": self.auc,
            "error": self.error,
            "value": self.predicted if self.predicted.ndim == 1 else self.predicted[:, 0],
            "nodes": self.store.node_counts[self.graph],
            "edges": self.store.edge_counts[self.graph],
        }
        return keys[sort].astype(np.float64)

    def _labels(self) -> NDArray[Any] | None:
        name = "node_y" if self.task.level == "node" else "y"
        if not self.store.has(name):
            return None
        labels = np.asarray(self.store.labels(self.task.level))
        if self.predicted.ndim == 1 and labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels[:, 0]
        return labels if labels.shape == self.predicted.shape else None

    def _compared(self) -> tuple[NDArray[np.int8], Floats]:
        """Compare predictions with labels: right or wrong, and the error of a regression."""
        right, error = np.full(len(self), -1, dtype=np.int8), np.full(len(self), np.nan)
        if self.labels is None:
            return right, error
        labels = self.labels.astype(np.float64).reshape(len(self), -1)
        predicted = self.predicted.astype(np.float64).reshape(len(self), -1)
        known = ~np.isnan(labels)
        if self.task.kind == "regression":
            distance = np.where(known, np.abs(predicted - labels), 0).sum(axis=1)
            some = known.any(axis=1)
            error[some] = distance[some] / known.sum(axis=1)[some]
            return right, error
        known &= labels >= 0
        some = known.any(axis=1)
        right[some] = ((predicted == labels) | ~known).all(axis=1)[some]
        return right, error

    def _auc(self) -> Floats:
        if not self.store.has("edge_truth") or self.node is not None:
            return np.full(len(self), np.nan)
        edges = ranges(self.store.arrays["edge_ptr"][self.store.index], self.store.edge_counts)
        truth = self.store.caller_order(np.asarray(self.store.arrays["edge_truth"][edges])) > 0
        out = areas_within(self.scores, truth, *graph_of_edges(self.edge_ptr))
        if self.store.has("annotated"):
            out[~self.store.per_graph("annotated").astype(bool)] = np.nan
        return out


def agreement(first: NDArray[Any], second: NDArray[Any], ptr: Ints) -> tuple[Floats, Floats]:
    """Compare two models' edge scores of each graph: rank correlation and top overlap, ``[G]``.

    The overlap is the intersection over union of the highest-scored fifth of the edges.
    """
    graph, count = graph_of_edges(ptr)
    a, b = (ranks_within(scores, graph, count) for scores in (first, second))
    counts = np.diff(ptr)
    lowest = (counts - np.ceil(TOP_SHARE * counts))[graph]
    top_a, top_b = a > lowest, b > lowest
    union = np.bincount(graph, top_a | top_b, count)
    overlap = np.bincount(graph, top_a & top_b, count) / np.maximum(union, 1)
    return correlations_within(a, b, graph, count), np.where(union > 0, overlap, np.nan)


def graph_of_edges(ptr: Ints) -> tuple[Ints, int]:
    """Return the graph of each edge, ``[E]``, and the number of graphs."""
    counts = np.diff(ptr)
    return np.repeat(np.arange(len(counts)), counts), len(counts)
