"""Tables of molecules as data sets: read once, then loaded from the cache."""

from __future__ import annotations

import contextlib
from importlib import metadata
from pathlib import Path
from typing import Any

from gsat.core.errors import DataError, DataNotFoundError, GSATError
from gsat.core.files import checksum, read_file, sha256
from gsat.core.folders import cache_folder
from gsat.core.limits import memory_limit
from gsat.core.writing import write_text
from gsat.datasets.cache import load_cached, save_cached
from gsat.graphs import GraphStore
from gsat.molecules import featuriser, reader
from gsat.molecules.options import TableSettings

# Scaffolds follow from the molecules, and a later RDKit may write them differently.
_NOT_HASHED = ("graph.scaffold",)


def input_of(store: GraphStore) -> dict[str, Any] | None:
    """Plain values from which a model makes the same graphs of other molecules."""
    if "featuriser" not in store.meta:
        return None
    names = [name for name in ("table", "classes", "labels") if store.meta.get(name)]
    return {"features": store.meta["featuriser"], **{name: store.meta[name] for name in names}}


def read(path: Path, settings: TableSettings, *, quiet: bool = False) -> GraphStore:
    """Read a table of molecules, from the cache if it was read with the same settings before."""
    if not path.exists():
        raise DataNotFoundError(f"there is no file {path}")
    content = sha256(read_file(path, error=DataError, limit=memory_limit(), links=True))
    folder = _folder(path, content, settings)
    # If columns or the task are detected, a file names the folder of the detected settings: a run
    # records these, and uses the same graphs.
    pointer = folder.with_suffix(".txt")
    with contextlib.suppress(OSError, ValueError):
        folder = folder.with_name(pointer.read_text(encoding="utf-8"))
    store = load_cached(folder, _NOT_HASHED)
    if store is None:
        store = reader.read_table(path, settings, quiet=quiet)
        folder = _folder(path, content, _resolved(settings, store))
        store = save_cached(store, folder, _NOT_HASHED)
        with contextlib.suppress(OSError, GSATError):
            write_text(pointer, folder.name)
    return store


def columns(store: GraphStore) -> dict[str, Any]:
    """The options that name the columns of a table that was read."""
    table = store.meta["table"]
    return {"smiles": table["smiles"], "label": list(table["labels"]), "id": table["id"]}


def _resolved(settings: TableSettings, store: GraphStore) -> TableSettings:
    """The settings, with the detected columns, classes and task."""
    found = columns(store)
    if settings.labelled:
        found["classes"] = list(store.meta.get("classes", ()))
        if settings.task == "auto":
            found["task"] = store.meta["table"]["kind"]
    return settings.model_copy(update=found)


def _folder(path: Path, content: str, settings: TableSettings) -> Path:
    """The cache folder of a file, these settings, and the versions of the readers."""
    try:
        rdkit = metadata.version("rdkit")
    except metadata.PackageNotFoundError:
        rdkit = ""
    versions = [reader.VERSION, featuriser.VERSION, rdkit]
    key = checksum([path.suffixes, content, settings.model_dump(), versions])[:16]
    return cache_folder() / "datasets" / f"molecules-{key}"
