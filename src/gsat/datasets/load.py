"""`load_dataset`: build or read a data set, split it, and say what it is."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from gsat.datasets.raw import RawFile, cache_folder
from gsat.datasets.registry import find_entry
from gsat.errors import DataError
from gsat.graphs import GraphStore
from gsat.tasks import Task

Match = Literal["yes", "rebuilt", "different"]


@dataclass(frozen=True)
class Dataset:
    """A data set, split.

    Attributes:
        name: its name. store: all graphs. task: what is predicted.
        splits: positions in ``store`` of ``train``, ``valid`` and ``test``: of graphs or, at node
            level, of nodes.
        matches_paper: ``yes``, ``rebuilt`` (made again by the same rules) or ``different``.
        hash: of the graphs themselves (not of the split), first 16 hex digits of a SHA-256.
        options: the options it was made with. seed: the seed of the split.
    """

    name: str
    store: GraphStore
    task: Task
    splits: Mapping[str, NDArray[np.int64]]
    matches_paper: Match = "different"
    hash: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    def split(self, name: str) -> GraphStore:
        """One split as a view on the store."""
        if name == "all":
            return self.store
        if name not in self.splits:
            raise DataError(f"there is no split '{name}': there are {', '.join(self.splits)}, all")
        if self.task.level == "node":
            return self.store.at_nodes(self.splits[name])
        return self.store.select(self.splits[name])

    @property
    def train(self) -> GraphStore:
        """The training graphs."""
        return self.split("train")

    @property
    def valid(self) -> GraphStore:
        """The validation graphs."""
        return self.split("valid")

    @property
    def test(self) -> GraphStore:
        """The test graphs."""
        return self.split("test")

    def __repr__(self) -> str:
        sizes = "/".join(str(len(self.splits[s])) for s in ("train", "valid", "test"))
        what = f"{self.task.level}s, {self.task.kind}"
        return f"Dataset({self.name!r}, {sizes} {what}, hash {self.hash})"


def load_dataset(name: str, *, seed: int = 0, data_seed: int = 0, **options: Any) -> Dataset:
    """A data set by name, split by ``seed``.

    Args:
        name: see ``gsat datasets``.
        seed: decides the split (where the data set has no fixed one).
        data_seed: decides generated data; one data set is shared by all seeds.
        options: the data set's own options.
    """
    seed, data_seed = _check_seed("seed", seed), _check_seed("data_seed", data_seed)
    entry = find_entry(name)
    resolved = entry.resolve(options)
    module = importlib.import_module(entry.module)
    files = entry.raw_files(resolved)
    # Only what decides the graphs is part of their name; how they are split is not.
    made_by = {
        "name": name,
        "version": module.VERSION,
        "options": {k: v for k, v in resolved.items() if k not in module.SPLIT_OPTIONS},
        "data_seed": None if files else data_seed,
        "files": [file.sha256 for file in files],
    }
    if hasattr(module, "identity"):
        made_by["identity"] = module.identity(resolved)
    key = hashlib.sha256(json.dumps(made_by, sort_keys=True).encode()).hexdigest()[:16]
    folder = cache_folder() / "datasets" / f"{name}-{key}"
    store = _cached(folder)
    if store is None:
        for file in files:
            check_sha256(file.require(), file)
        store = module.build(name, {**resolved, "data_seed": data_seed})
        store.meta["content"] = content_hash(store)
        store.meta["made_by"] = made_by
        store = _save(store, folder)
    return Dataset(
        name=name,
        store=store,
        task=module.TASK(resolved) if callable(module.TASK) else module.TASK,
        splits=module.split(store, seed, resolved),
        matches_paper=module.matches_paper(name, resolved),
        hash=store.meta["content"],
        options={**resolved, "data_seed": data_seed},
        seed=seed,
    )


def content_hash(store: GraphStore) -> str:
    """A hash of every array of the store: the same graphs give the same hash on any machine."""
    digest = hashlib.sha256()
    for name in sorted(store.arrays):
        array = np.ascontiguousarray(store.arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()[:16]


def check_sha256(path: Path, file: RawFile) -> None:
    """Raise unless the file is the one expected."""
    with path.open("rb") as handle:
        found = hashlib.file_digest(handle, "sha256").hexdigest()
    if found != file.sha256:
        raise DataError(
            f"{path} is not the expected file: its SHA-256 is {found[:12]}…, not "
            f"{file.sha256[:12]}…; get it again from {file.source}"
        )


def _check_seed(name: str, value: Any) -> int:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not 0 <= value < 2**32:
        raise DataError(f"{name} is a whole number from 0 to {2**32 - 1}, not {value!r}")
    return int(value)


def _cached(folder: Path) -> GraphStore | None:
    try:
        return GraphStore.load(folder)
    except (DataError, OSError):  # missing, damaged or unreadable: it is made again
        return None


def _save(store: GraphStore, folder: Path) -> GraphStore:
    try:
        return GraphStore.load(store.save(folder))
    # A cache that can't be written costs time, not the run; safetensors wraps a full disk.
    except (OSError, SafetensorError):
        return store
