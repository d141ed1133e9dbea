"""The runs that the service shows, and caches of what was computed with them."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from gsat.core.errors import DataError, GSATError, RunError, shown
from gsat.core.files import is_regular, read_json
from gsat.datasets.formats.jsonl import from_objects
from gsat.explain.molecules import ExplainedMolecule, MoleculeReport, output_names
from gsat.explain.patterns import PatternReport
from gsat.explanation import Explanation
from gsat.graphs import GraphStore
from gsat.graphs.validation import validate_graphs
from gsat.models import InterpretableModel
from gsat.molecules import featuriser
from gsat.molecules.fingerprints import NearestMolecules
from gsat.molecules.smiles import SMILES, short
from gsat.ops import pool
from gsat.tasks import Task
from gsat.training.list_runs import RunSummary, list_runs
from gsat.training.molecules import input_description, readable_names, with_names
from gsat.training.run import Run, open_run
from gsat.training.run_audit import AUDIT, outcome_of
from gsat.training.run_schemas import AuditFile
from gsat.web.cancellation import check_cancelled
from gsat.web.fair_lock import COMPUTING
from gsat.web.rdkit_process import ReadMolecules, read_molecules
from gsat.web.requests import (
    SPLITS,
    BadInputError,
    GraphInput,
    Limits,
    NotFoundError,
    RequestError,
    without_folders,
)
from gsat.web.scored import ScoredSplit

SIMILAR: Final = 6
LIST_SECONDS: Final = 1.0  # for which a list of runs is kept
GRAPHS_PER_HOLD: Final = 256  # graphs per lock hold: other requests may compute in between
T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """A run in the list: the name in its addresses, and a summary that needs no model."""

    name: str
    summary: RunSummary

    @property
    def path(self) -> Path:
        """The run directory."""
        return self.summary.path

    def read_audit(self) -> dict[str, Any]:
        """Read the last audit of the run."""
        if not is_regular(self.path / AUDIT):
            raise NotFoundError(f"the run '{self.name}' has not been audited")
        return read_json(self.path / AUDIT, AuditFile, error=RunError)

    @property
    def audit(self) -> dict[str, Any] | None:
        """The last audit, as pages show it; None if there is none, or it can't be read."""
        try:
            values = self.read_audit()
        except GSATError:
            return None
        outcome = outcome_of(values)
        verdict = values["verdict"].removeprefix(f"{outcome}: ")
        against = values.get("against") or values["notes"]  # older files have notes
        return {**values, "outcome": outcome, "verdict": verdict, "against": against}


class RunLibrary:
    """The runs at given paths; no request can name another path."""

    def __init__(self, paths: Iterable[str | Path], limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.paths = [Path(path).absolute() for path in paths]
        self.stopping = threading.Event()  # set when the service stops
        self._lock = threading.Lock()
        self._listed: tuple[float, dict[str, Entry]] | None = None
        self._names: dict[Path, str] = {}
        self._opened: OrderedDict[str, tuple[object, LoadedRun]] = OrderedDict()
        for path in self.paths:
            if not path.is_dir():
                raise RunError(f"{path} is neither a run nor a folder of runs: it is not a folder")
            if not list_runs(path):
                raise RunError(f"{path} contains no readable run")

    @property
    def is_folder(self) -> bool:
        """Whether a path is a folder of runs, to which runs may be added."""
        return any(not is_regular(path / "recipe.toml") for path in self.paths)

    def entries(self) -> list[Entry]:
        """List the runs, in the order of the paths."""
        return list(self._entries().values())

    def entry(self, name: str) -> Entry:
        """Return a run by its name."""
        entries = self._entries()
        if name not in entries:
            listed = ", ".join(list(entries)[:10]) + (", …" if len(entries) > 10 else "")
            raise NotFoundError(f"there is no run '{shown(name, 60)}': there are {listed}")
        return entries[name]

    def explain_error(self, error: GSATError) -> str:
        """The message of an error, without paths of this machine."""
        return without_folders(
            str(error),
            [
                folder
                for path in self.paths
                for folder in (path, path.parent)
                if len(folder.parts) > 1
            ],
        )

    @property
    def count(self) -> int:
        """Number of runs, as last listed."""
        return len(self._listed[1]) if self._listed is not None else 0

    @property
    def has_loaded(self) -> bool:
        """Whether the model of a run is in memory."""
        return any(loaded.is_loaded for _, loaded in list(self._opened.values()))

    def load_one(self) -> None:
        """Load the model of the first run that has a valid one."""
        for entry in self.entries():
            with contextlib.suppress(GSATError, OSError):
                self.open(entry.name).model  # noqa: B018
                return

    def loaded(self, name: str) -> LoadedRun | None:
        """Return a run whose model is in memory and whose files have not changed, or None."""
        entry = self._listed[1].get(name) if self._listed is not None else None
        opened = self._opened.get(name)
        if entry is None or opened is None or not opened[1].is_loaded:
            return None
        return opened[1] if opened[0] == _stamp(entry.path) else None

    def open(self, name: str) -> LoadedRun:
        """Open a run, or return it from memory."""
        # Search only for unknown names: requests may come by the hundreds a second.
        cached_entries = self._listed[1] if self._listed is not None else {}
        entry = cached_entries.get(name) or self.entry(name)
        stamp = _stamp(entry.path)
        with self._lock:
            opened = self._opened.get(name)
            if opened is None or opened[0] != stamp:  # it is new, or its files have changed
                opened = stamp, LoadedRun(name, open_run(entry.path), self.limits, self.stopping)
                self._opened[name] = opened
            self._opened.move_to_end(name)
            while len(self._opened) > self.limits.runs:
                self._opened.popitem(last=False)
            return opened[1]

    def _entries(self) -> dict[str, Entry]:
        with self._lock:
            if self._listed is not None and time.monotonic() - self._listed[0] < LIST_SECONDS:
                return self._listed[1]
            entries: dict[str, Entry] = {}
            for path in self.paths:
                for summary in list_runs(path) if path.is_dir() else []:
                    name = self._name(summary.path, path)
                    entries[name] = Entry(name, summary)
            self._listed = time.monotonic(), entries
            return entries

    def _name(self, path: Path, folder: Path) -> str:
        """Choose a name for a run, and keep it."""
        if path not in self._names:
            relative = path.name if path == folder else str(path.relative_to(folder))
            plain = re.sub(r"[^A-Za-z0-9._-]+", "-", relative).strip(".-")[:80] or "run"
            name, number, taken = plain, 2, set(self._names.values())
            while name in taken:
                name, number = f"{plain}-{number}", number + 1
            self._names[path] = name
        return self._names[path]


class LoadedRun:
    """An open run: its answers are computed once, and cached within a limit of memory."""

    def __init__(
        self, name: str, run: Run, limits: Limits, stopping: threading.Event | None = None
    ) -> None:
        self.name, self.run, self.limits = name, run, limits
        self.stopping = stopping or threading.Event()
        self.last_thumbnail_request = 0.0  # on the monotonic clock
        self._cache: OrderedDict[tuple[Any, ...], tuple[int, Any]] = OrderedDict()
        self._lock, self._scoring = threading.RLock(), threading.Lock()

    @property
    def is_loaded(self) -> bool:
        """Whether the model is in memory."""
        return "model" in vars(self)

    @cached_property
    def model(self) -> InterpretableModel:
        """The model."""
        with self._lock:
            return self.run.model

    @property
    def task(self) -> Task:
        """The task of the model."""
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
        if not names:
            try:
                names = self.run.dataset.store.meta.get(key)
            except (GSATError, OSError):  # the files of the data set may be elsewhere
                names = None
        return readable_names(output_names(self.task, names), self.model)

    def cached(self, key: tuple[Any, ...], make: Callable[[], T], size: int) -> T:
        """Return the cached value of a key, or make it; the oldest values are evicted."""
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key][1]
        made = make()
        with self._lock:
            self._cache[key] = size or getattr(made, "nbytes", 1024), made
            while len(self._cache) > 1 and self.cache_size > self.limits.cache_bytes:
                self._cache.popitem(last=False)
        return made

    @property
    def cache_size(self) -> int:
        """Bytes in the cache, about."""
        with self._lock:
            return sum(size for size, _ in self._cache.values())

    def is_cached(self, *key: Any) -> bool:
        """Whether there is a value for a key."""
        return key in self._cache

    # -- splits ---------------------------------------------------------------------------------

    def graphs(self, split: str) -> GraphStore:
        """Return the graphs of a split."""
        if split not in SPLITS:
            raise NotFoundError(f"there is no split '{split[:40]}': there are {', '.join(SPLITS)}")
        return self.cached(("graphs", split), lambda: self.run.graphs(split=split), 1024)

    def split(self, split: str) -> ScoredSplit:
        """Return a split with predictions and scores."""
        store = self.graphs(split)

        def make() -> ScoredSplit:
            with self._scoring:
                # Another request may have made it while this one waited.
                with self._lock:
                    if self.is_cached("split", split):
                        return self._cache["split", split][1]
                return self._scored(store)

        return self.cached(("split", split), make, 0)

    def first_rows(self, split: str, count: int) -> tuple[ScoredSplit, int]:
        """Return the first rows of a split, without waiting for the others; and their number."""
        store = self.graphs(split)
        if self.task.level == "node" or len(store) <= count or self.is_cached("split", split):
            scored = self.split(split)
            return scored, len(scored)
        return self._scored(store, range(count)), len(store)

    def row(self, split: str, row: int) -> tuple[ScoredSplit, int]:
        """Return a row of a split and its place, without waiting for the other rows."""
        if self.task.level == "node" or self.is_cached("split", split):
            scored = self.split(split)
            _check_row(split, row, len(scored), self.task.level)
            return scored, row
        store = self.graphs(split)
        _check_row(split, row, len(store), "graph")
        only = range(row, row + 1)
        return self.cached(("row", split, row), lambda: self._scored(store, only), 4096), 0

    def count(self, split: str) -> int:
        """Return how many rows a split has."""
        return len(self.split(split) if self.task.level == "node" else self.graphs(split))

    def _scored(self, whole: GraphStore, rows: range | None = None) -> ScoredSplit:
        """Score graphs of a split (by default all)."""
        store = whole if rows is None else whole.select(rows)
        logits = torch.empty(store.count(self.task.level), self.task.num_logits)
        scores = torch.empty(store.num_edges)
        row = edge = 0
        for first in range(0, len(store), GRAPHS_PER_HOLD):
            if first and self.stopping.is_set():
                raise RequestError(503, "the service is stopping")
            check_cancelled()
            part = store.select(range(first, min(first + GRAPHS_PER_HOLD, len(store))))
            with COMPUTING:
                part_logits, part_scores = self.model.score_edges(part)
            logits[row : row + len(part_logits)] = part_logits
            scores[edge : edge + len(part_scores)] = part_scores
            row, edge = row + len(part_logits), edge + len(part_scores)
        numbers = None if rows is None else np.array(rows)
        return ScoredSplit(
            store, self.task, logits, scores.numpy(), self.outputs, self.model.explains, numbers
        )

    # -- explanations ---------------------------------------------------------------------------

    def explanation(self, split: str, row: int) -> Explanation:
        """Explain a row of a split."""
        store = self.graphs(split)
        graph, node = row, None
        if self.task.level == "graph":
            _check_row(split, row, len(store), "graph")
        else:
            scored, place = self.row(split, row)
            assert scored.node is not None
            graph, node = int(scored.graph[place]), int(scored.node[place])

        def make() -> Explanation:
            with COMPUTING:
                explanation = self.run.explain(store, graph=graph, node=node)
            explanation.class_names = self.outputs
            return explanation

        return self.cached(("explanation", split, row), make, 40_000)

    def read_molecules(self, texts: Sequence[str]) -> ReadMolecules:
        """Read SMILES with the features that the model was trained on, within a time limit."""
        model = self.model
        try:
            described = input_description(model)
        except RunError as error:
            raise BadInputError(str(error)) from None
        return read_molecules(
            texts,
            largest_fragment=described["table"]["largest_fragment"],
            seconds=self.limits.smiles_seconds,
            wait=self.limits.wait_seconds,
        )

    def molecule_graphs(self, parts: Sequence[ReadMolecules]) -> GraphStore:
        """Make graphs of molecules that were read."""
        smiles = [text for part in parts for text in part.smiles]
        store = featuriser.to_store([part.arrays for part in parts], {SMILES: smiles})
        return with_names(store, input_description(self.model))

    def read(self, items: Sequence[GraphInput | str]) -> GraphStore:
        """Make graphs of the items of a request."""
        if any(isinstance(item, str) for item in items):
            texts = [str(item) for item in items]
            read = self.read_molecules(texts)
            for row, reason in read.problems.items():
                raise DataError(f"{short(texts[row])} can't be used: {reason}")
            return self.molecule_graphs([read])
        store = from_objects([item.values() for item in items if isinstance(item, GraphInput)])
        if not store.num_nodes and self.task.level == "node":
            raise DataError("the graph has no nodes; the model predicts nodes")
        validate_graphs(store, name="the graph" if len(items) == 1 else "the graphs")
        x = np.asarray(store.arrays["x"]) if store.has("x") else np.zeros(0)
        if self.model.network.get("categories") and len(x) and not (x != np.floor(x)).any():
            # JSON has one type of number: whole numbers are categories.
            arrays = {**store.arrays, "x": x.astype(np.int64)}
            store = GraphStore(arrays, store.meta, store.index)
        self.model.check_fits(store)
        return store

    def explain(self, store: GraphStore) -> list[Explanation]:
        """Explain graphs that belong to no split."""
        with COMPUTING:
            self.model.check_fits(store)
            explanations = self.run.explain(store)
        for explanation in explanations:
            explanation.class_names = self.outputs
        return explanations

    def molecule(self, split: str, row: int) -> ExplainedMolecule | None:
        """Explain a row by fragments of its molecule; None if it is not a molecule."""
        scored, place = self.row(split, row)
        if not scored.smiles or scored.node is not None or not scored.smiles[place]:
            return None

        def make() -> ExplainedMolecule | None:
            try:
                return self.molecules(scored.store.select([place]))[0]
            except DataError:  # the SMILES does not fit the graph
                return None

        return self.cached(("molecule", split, row), make, 60_000)

    def molecules(self, store: GraphStore) -> MoleculeReport:
        """Explain molecules by their fragments."""
        with COMPUTING:
            return self.run.explain_molecules(store)

    def patterns(self, split: str) -> PatternReport:
        """Find fragments that recur in the explanations of a split."""
        if not self.split(split).smiles:
            raise NotFoundError("there are no patterns: the graphs of this run are not molecules")

        def make() -> PatternReport:
            return self.run.patterns(split=split)

        with COMPUTING:
            return self.cached(("patterns", split), make, 8 << 20)

    # -- similar graphs -------------------------------------------------------------------------

    def similar(self, split: str, row: int) -> list[tuple[int, float]]:
        """Find the most similar graphs of the same split.

        Molecules are compared by Tanimoto similarity of Morgan fingerprints; other graphs by the
        cosine of their mean node embeddings.
        """
        scored = self.split(split)
        _check_row(split, row, len(scored), self.task.level)
        if scored.node is not None:
            return []
        if scored.smiles:
            size = 600 * len(scored)
            index = self.cached(("nearest", split), lambda: NearestMolecules(scored.smiles), size)
            nearest = index.nearest(scored.smiles[row], SIMILAR + 1)
            return [(n.position, n.similarity) for n in nearest if n.position != row][:SIMILAR]
        embedding = self.cached(("embedding", split), lambda: self._embedded(scored.store), 0)
        similarity = embedding @ embedding[row]
        similarity[row] = -np.inf
        best = np.argsort(-similarity, kind="stable")[: min(SIMILAR, len(similarity) - 1)]
        return [(int(i), float(similarity[i])) for i in best]

    def _embedded(self, store: GraphStore) -> NDArray[np.float32]:
        """Return a unit vector for each graph, ``[G, h]``."""
        parts: list[NDArray[np.float32]] = []
        device = next(self.model.parameters()).device
        with COMPUTING, self.model.evaluating():
            for batch in store.batches(256, 1 << 20):
                check_cancelled()
                batch = batch.to(device)
                means = pool(self.model.embed(batch), batch.node_ptr, "mean")
                parts.append(means.numpy(force=True))
        vectors = np.concatenate(parts) if parts else np.zeros((0, 1), np.float32)
        centred = vectors - vectors.mean(axis=0)
        length = np.linalg.norm(centred, axis=1, keepdims=True)
        return (centred / np.maximum(length, 1e-12)).astype(np.float32)


def _check_row(split: str, row: int, count: int, what: str) -> None:
    if not 0 <= row < count:
        raise NotFoundError(
            f"there is no {what} {row} in the split '{split}': the numbers are 0 to {count - 1}"
        )


def _stamp(path: Path) -> object:
    """Times that change when a run gets another model, a result or an audit."""
    stamps = []
    for name in ("best", "result.json", AUDIT):
        try:
            stamps.append((path / name).stat().st_mtime_ns)
        except OSError:
            stamps.append(0)
    return tuple(stamps)
