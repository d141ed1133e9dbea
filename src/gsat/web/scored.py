"""A split with the model's answers: what a gallery filters, sorts and searches."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from gsat.graphs import GraphStore
from gsat.graphs.build import ranges
from gsat.molecules import SMILES
from gsat.molecules.smiles import import_rdkit
from gsat.tasks import Task
from gsat.web.errors import BadInputError
from gsat.web.ranks import graph_aucs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Sort = Literal["number", "confidence", "auc", "error", "value", "nodes", "edges"]
SORTS: Final = ("number", "confidence", "auc", "error", "value", "nodes", "edges")
LONGEST_SEARCH: Final = 500


@dataclass(frozen=True)
class Filter:
    """Which rows of a split are wanted, and in which order.

    Attributes:
        predicted: The number of the predicted class; None for all.
        true: The number of the true class; None for all.
        right: Whether the prediction is right; None for all.
        confidence: Lowest and highest confidence.
        auc: Lowest and highest explanation AUC.
        search: A number, a part of an identifier, or a SMILES to be contained.
        sort: What the rows are sorted by.
        descending: Whether the highest come first.
    """

    predicted: int | None = None
    true: int | None = None
    right: bool | None = None
    confidence: tuple[float, float] = (0.0, 1.0)
    auc: tuple[float, float] = (0.0, 1.0)
    search: str = ""
    sort: Sort = "number"
    descending: bool = False


@dataclass(eq=False)
class ScoredSplit:
    """The answers of a model for a split of G graphs, with M rows: its graphs or its nodes.

    Attributes:
        name: The name of the split.
        store: The graphs.
        task: What the model predicts.
        logits: Outputs, ``[M, L]``.
        scores: The scores of all edges in the caller's order, graph after graph, ``[E]``.
        explains: Whether the scores mean anything. (default: ``True``)
        numbers: The number of each row in the whole split, ``[M]``. (default: all rows are here)
        edge_ptr: First edge of each graph, ``[G + 1]``; made from the store.
        graph: The graph of each row, ``[M]``; made from the store.
        node: The node of each row, ``[M]``; None at graph level.
        decided: Predicted classes ``[M]``, labels ``[M, T]`` or numbers.
        probabilities: ``[M, C]``; ``[M, 0]`` in regression.
        confidence: The highest probability of each row, ``[M]``; NaN in regression.
        labels: What is true, shaped as ``decided``; None if it is not known.
        right: 1 right, 0 wrong, −1 unknown, ``[M]``.
        auc: Explanation AUC of each row, ``[M]``; NaN where it is undefined.
        error: Absolute error of a regression, ``[M]``; NaN elsewhere.
        ids: Identifiers of the graphs, or none.
        smiles: SMILES of the graphs, or none.
    """

    name: str
    store: GraphStore
    task: Task
    logits: Any
    scores: NDArray[np.float32]
    explains: bool = True
    numbers: Ints | None = None
    edge_ptr: Ints = field(init=False)
    graph: Ints = field(init=False)
    node: Ints | None = field(init=False)
    decided: NDArray[Any] = field(init=False)
    probabilities: Floats = field(init=False)
    confidence: Floats = field(init=False)
    labels: NDArray[Any] | None = field(init=False)
    right: NDArray[np.int8] = field(init=False)
    auc: Floats = field(init=False)
    error: Floats = field(init=False)
    ids: Sequence[str] = field(init=False)
    smiles: Sequence[str] = field(init=False)

    def __post_init__(self) -> None:
        store, task = self.store, self.task
        self.edge_ptr = np.concatenate([[0], np.cumsum(store.edge_counts)])
        if task.level == "node":
            self.graph, self.node = store.target_places()
        else:
            self.graph, self.node = np.arange(len(store)), None
        self.probabilities = task.probabilities(self.logits).numpy().astype(np.float64)
        self.decided = task.decide(self.logits).numpy()
        nothing = np.full(len(self.graph), np.nan)
        self.confidence = self.probabilities.max(axis=1) if self.probabilities.size else nothing
        self.labels = self._labels()
        self.right, self.error = self._judged()
        self.auc = self._auc() if self.explains else nothing
        self.ids = store.texts("id") if store.has("id") else ()
        self.smiles = store.texts(SMILES) if store.has(SMILES) else ()
        self._library: Any = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.graph)

    @property
    def nbytes(self) -> int:
        """About the memory it takes beside the data set."""
        rows = 120 * len(self) + 4 * self.logits.numel()
        return int(self.scores.nbytes + rows + sum(map(len, self.smiles)) + 60 * len(self.smiles))

    @property
    def has_truth(self) -> bool:
        """Whether the true explanation of some row is known."""
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

    def edge_scores(self, graph: int) -> NDArray[np.float32]:
        """The scores of a graph's edges, in the caller's order, ``[E]``."""
        return self.scores[self.edge_ptr[graph] : self.edge_ptr[graph + 1]]

    def rows(self, wanted: Filter) -> Ints:
        """Choose and sort rows."""
        keep = np.ones(len(self), dtype=bool)
        if self.decided.ndim == 1 and wanted.predicted is not None:
            keep &= self.decided == wanted.predicted
        if self.labels is not None and self.labels.ndim == 1 and wanted.true is not None:
            keep &= self.labels == wanted.true
        if wanted.right is not None:
            keep &= self.right == int(wanted.right)
        for values, (low, high) in ((self.confidence, wanted.confidence), (self.auc, wanted.auc)):
            if (low, high) != (0.0, 1.0):
                keep &= (values >= low - 1e-9) & (values <= high + 1e-9)
        if wanted.search.strip():
            keep &= self.matching(wanted.search.strip())
        rows = np.flatnonzero(keep)
        key = self._key(wanted.sort)[rows]
        order = np.argsort(-key if wanted.descending else key, kind="stable")  # NaN comes last
        return rows[order]

    def matching(self, text: str) -> NDArray[np.bool_]:
        """Find rows by a number, a part of an identifier, or a SMILES that they contain."""
        if len(text) > LONGEST_SEARCH:
            raise BadInputError(f"a search has at most {LONGEST_SEARCH} characters")
        numbers = self.graph if self.node is None else self.node
        if text.isascii() and text.isdigit() and len(text) < 10:
            return (numbers == int(text)) | self._identified(text)
        found = self._identified(text)
        if found.any() or not self.smiles:
            return found
        return self._substructure(text)[self.graph]

    def _identified(self, text: str) -> NDArray[np.bool_]:
        if not self.ids:
            return np.zeros(len(self), dtype=bool)
        wanted = text.casefold()
        return np.array([wanted in one.casefold() for one in self.ids])[self.graph]

    def _substructure(self, text: str) -> NDArray[np.bool_]:
        """Graphs whose molecules contain a SMILES (or SMARTS), ``[G]``."""
        chem = import_rdkit("a search for substructures")
        from rdkit import rdBase
        from rdkit.Chem import rdSubstructLibrary

        pattern = None
        if not any(character.isspace() for character in text):
            with rdBase.BlockLogs():
                pattern = chem.MolFromSmiles(text)
                # A part of a molecule, such as [N+](=O)[O-], lacks bonds: it is read as SMARTS.
                if pattern is None or any(a.GetNumRadicalElectrons() for a in pattern.GetAtoms()):
                    pattern = chem.MolFromSmarts(text)
        if pattern is None or not pattern.GetNumAtoms():
            raise BadInputError(
                f"'{text[:60]}' is neither a number, a part of an identifier nor a SMILES"
            )
        with self._lock:
            if self._library is None:
                self._library = _substructures(chem, rdSubstructLibrary, self.smiles)
        library, places = self._library
        found = np.zeros(len(self.store), dtype=bool)
        hits = library.GetMatches(pattern, maxResults=len(places) or 1, numThreads=1)
        found[[places[hit] for hit in hits]] = True
        return found

    def _key(self, sort: Sort) -> Floats:
        if sort == "confidence":
            return self.confidence
        if sort == "auc":
            return self.auc
        if sort == "error":
            return self.error
        if sort == "value":
            return self.decided.reshape(len(self), -1)[:, 0].astype(np.float64)
        if sort in ("nodes", "edges"):
            counts = self.store.node_counts if sort == "nodes" else self.store.edge_counts
            return counts[self.graph].astype(np.float64)
        return np.arange(len(self), dtype=np.float64)

    def _labels(self) -> NDArray[Any] | None:
        name = "node_y" if self.task.level == "node" else "y"
        if not self.store.has(name):
            return None
        labels = np.asarray(self.store.labels(self.task.level))
        if self.decided.ndim == 1 and labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels[:, 0]
        return labels if labels.shape == self.decided.shape else None

    def _judged(self) -> tuple[NDArray[np.int8], Floats]:
        """Whether each row is right, and the error of a regression, ``[M]`` each."""
        right, error = np.full(len(self), -1, dtype=np.int8), np.full(len(self), np.nan)
        if self.labels is None:
            return right, error
        labels = self.labels.astype(np.float64).reshape(len(self), -1)
        decided = self.decided.astype(np.float64).reshape(len(self), -1)
        known = ~np.isnan(labels)
        if self.task.kind == "regression":
            distance = np.where(known, np.abs(decided - labels), 0).sum(axis=1)
            some = known.any(axis=1)
            error[some] = distance[some] / known.sum(axis=1)[some]
            return right, error
        known &= labels >= 0
        some = known.any(axis=1)
        right[some] = ((decided == labels) | ~known).all(axis=1)[some]
        return right, error

    def _auc(self) -> Floats:
        out = np.full(len(self), np.nan)
        if not self.store.has("edge_truth") or self.node is not None:
            return out
        edges = ranges(self.store.arrays["edge_ptr"][self.store.index], self.store.edge_counts)
        truth = self.store.caller_order(np.asarray(self.store.arrays["edge_truth"][edges])) > 0
        out = graph_aucs(self.scores, truth, self.edge_ptr)
        if self.store.has("annotated"):
            out[~self.store.per_graph("annotated").astype(bool)] = np.nan
        return out


def _substructures(chem: Any, module: Any, smiles: Sequence[str]) -> tuple[Any, list[int]]:
    """A library of molecules to search, and the graph of each."""
    from rdkit import rdBase

    library = module.SubstructLibrary(module.CachedTrustedSmilesMolHolder(), module.PatternHolder())
    places = []
    with rdBase.BlockLogs():
        for place, text in enumerate(smiles):
            molecule = chem.MolFromSmiles(text) if text else None
            if molecule is not None:
                library.AddMol(molecule)
                places.append(place)
    return library, places
