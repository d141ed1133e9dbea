"""`load_dataset`: build or read a data set, split it, and say what it is."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from gsat.datasets.fetch.raw_files import RawFile, missing, require_all
from gsat.datasets.registry import ENTRIES, IN_MEMORY, OWN_DATA, find_entry, full_name
from gsat.errors import DataError, DataNotFoundError
from gsat.explanation import Explanation
from gsat.graphs import GraphStore
from gsat.graphs.sharded_array import content_digest
from gsat.graphs.validation import validate_dataset
from gsat.io.folders import cache_folder
from gsat.io.hashes import checksum, file_sha256
from gsat.tasks import Task

if TYPE_CHECKING:
    from torch_geometric.data import Data

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
        overlap: why splits share graphs on purpose; empty where they do not.
    """

    name: str
    store: GraphStore
    task: Task
    splits: Mapping[str, NDArray[np.int64]]
    matches_paper: Match = "different"
    hash: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    overlap: str = ""

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


def check_dataset(data: Any) -> None:
    """Raise unless ``data`` is a :class:`Dataset`."""
    if not isinstance(data, Dataset):
        raise DataError(
            f"a Dataset was needed, not a {type(data).__name__}: gsat.load_dataset makes one of a "
            "name, a path or a list of graphs"
        )


def load_dataset(
    source: str | os.PathLike[str] | Iterable[Data],
    /,
    *,
    seed: int = 0,
    data_seed: int = 0,
    **options: Any,
) -> Dataset:
    """A data set by name, or graphs of your own, split by ``seed``.

    Args:
        source: a name (see ``gsat datasets``); a path: a TU folder or a zip of one, a folder
            written by :meth:`GraphStore.save`, a .jsonl or .jsonl.gz file (docs/data.md); or the
            graphs themselves: a sequence of PyG ``Data``, a PyG data set, a :class:`GraphStore`.
        seed: decides the split (where the data set has no fixed one).
        data_seed: decides generated data; one data set is shared by all seeds.
        options: the data set's own options; for graphs of your own ``task``, ``level``,
            ``metric``, ``classes``, ``split`` with the shares ``train``, ``valid`` and ``test``, or
            with ``folds`` and ``fold``.
    """
    seed, data_seed = _check_seed("seed", seed), _check_seed("data_seed", data_seed)
    named = isinstance(source, (str, os.PathLike))
    name = full_name(os.fspath(cast("str", source))) if named else IN_MEMORY
    if named and name == IN_MEMORY:
        raise DataError(
            f"'{IN_MEMORY}' stands for graphs that were given in Python and are at no path: give "
            "them again there (resume with data=…), or a path of graphs beside the run"
        )
    entry = find_entry(name)
    resolved = entry.resolve(options)
    module = importlib.import_module(entry.module)
    if entry is OWN_DATA:
        own: Dataset = module.load(name if named else source, name, seed, resolved)
        return replace(own, options={**own.options, "data_seed": data_seed})
    files = entry.raw_files(resolved)
    made_by, folder = _made_by(name, resolved, data_seed)
    task = module.TASK(name, resolved) if callable(module.TASK) else module.TASK
    overlap = module.overlap(resolved) if hasattr(module, "overlap") else ""
    store = cached(folder)
    if store is None:
        for file, path in zip(files, require_all(files), strict=True):
            file.check(path)
        store = module.build(name, {**resolved, "data_seed": data_seed})
        validate_dataset(
            store, task, module.split(store, seed, resolved), name=name, overlap=overlap
        )
        store.meta["content"] = content_hash(store)
        store.meta["made_by"] = made_by
        store = save(store, folder)
    return Dataset(
        name=name,
        store=store,
        task=task,
        splits=module.split(store, seed, resolved),
        # Where it depends on the bytes of the files, the store itself knows.
        matches_paper=store.meta.get("matches_paper") or module.matches_paper(name, resolved),
        hash=store.meta["content"],
        options={**resolved, "data_seed": data_seed},
        seed=seed,
        overlap=overlap,
    )


def check_here(name: str, *, data_seed: int = 0, **options: Any) -> None:
    """Raise a :class:`DataNotFoundError` if a named data set can't be had on this machine, not by
    a download either; nothing is loaded or built."""
    entry = find_entry(name)
    if entry is not OWN_DATA:
        resolved = entry.resolve(options)
        files = entry.raw_files(resolved)
        try:
            missing(files)
        except DataNotFoundError:
            # The graphs may be there from files that are gone.
            known = all(file.sha256 for file in files)
            if not known or cached(_made_by(name, resolved, data_seed)[1]) is None:
                raise


def _made_by(name: str, options: dict[str, Any], data_seed: int) -> tuple[dict[str, Any], Path]:
    """What decides the graphs of a data set, and the folder of the cache for them."""
    entry = find_entry(name)
    module = importlib.import_module(entry.module)
    files = entry.raw_files(options)
    # Only what decides the graphs is part of their name; how they are split is not.
    made_by = {
        "name": name,
        "version": module.VERSION,
        "options": {k: v for k, v in options.items() if k not in module.SPLIT_OPTIONS},
        "data_seed": None if files else data_seed,
        "files": _names(files),
    }
    if hasattr(module, "identity"):
        made_by["identity"] = module.identity(options)
    return made_by, cache_folder() / "datasets" / f"{name}-{checksum(made_by)[:16]}"


def place_nodes(explanation: Explanation, meta: Mapping[str, Any]) -> Explanation:
    """The explanation, for pictures, with ``pos`` [N, 2] and ``shade`` [N] where its nodes are
    parts of an image.

    Args:
        meta: of the store the graph is from; it knows the data set.
    """
    name = (meta.get("made_by") or {}).get("name", "")
    for entry in ENTRIES:
        if entry.matches(name):
            module = importlib.import_module(entry.module)
            if hasattr(module, "places") and explanation.get("x") is not None:
                explanation.pos, explanation.shade = module.places(explanation.x)
    return explanation


def content_hash(store: GraphStore) -> str:
    """A hash of every array of the store: the same graphs give the same hash on any machine."""
    return content_digest(store.arrays)


def _names(files: tuple[RawFile, ...]) -> list[Any]:
    """What names the bytes of each file: its published checksum, else that of the file itself."""
    unknown = [file for file in files if not file.sha256]
    found = dict(zip(unknown, require_all(unknown), strict=True))
    return [file.sha256 or file_sha256(found[file]) for file in files]


def _check_seed(name: str, value: Any) -> int:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not 0 <= value < 2**32:
        raise DataError(f"{name} is a whole number from 0 to {2**32 - 1}, not {value!r}")
    return int(value)


def cached(folder: Path) -> GraphStore | None:
    """The store in a folder of the cache, if it is there and whole."""
    try:
        return GraphStore.load(folder)
    except (DataError, OSError):  # missing, damaged or unreadable: it is made again
        return None


def save(store: GraphStore, folder: Path) -> GraphStore:
    """The store, written to a folder of the cache and memory-mapped from there."""
    try:
        return GraphStore.load(store.save(folder))
    # A cache that can't be written, or was replaced before it was read back, costs time, not the
    # run; safetensors wraps a full disk.
    except (DataError, OSError, SafetensorError):
        return store
