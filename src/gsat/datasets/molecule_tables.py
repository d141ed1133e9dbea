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
    """What a model needs to make the same graphs of other molecules, as plain values."""
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
    # Where columns or the task are to be found, a file names the folder of the settings that were
    # found, so that a run, which records these, uses the same graphs.
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
    """The settings with what was found in place of what was left open."""
    found = columns(store)
    if settings.labelled:
        found["classes"] = list(store.meta.get("classes", ()))
        if settings.task == "auto":
            found["task"] = store.meta["table"]["kind"]
    return settings.model_copy(update=found)


def _folder(path: Path, content: str, settings: TableSettings) -> Path:
    """The cache folder for what these versions read from a file with these settings."""
    try:
        rdkit = metadata.version("rdkit")
    except metadata.PackageNotFoundError:
        rdkit = ""
    versions = [reader.VERSION, featuriser.VERSION, rdkit]
    key = checksum([path.suffixes, content, settings.model_dump(), versions])[:16]
    return cache_folder() / "datasets" / f"molecules-{key}"
