"""Tables of molecules as data sets: read once, then taken from the cache."""

from __future__ import annotations

import contextlib
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from gsat.core.errors import DataError, DataNotFoundError, GSATError
from gsat.core.files import checksum, read_file, sha256
from gsat.core.folders import cache_folder
from gsat.core.limits import memory_limit
from gsat.core.writing import write_text
from gsat.datasets.cache import content_hash, load_cached, save_cached
from gsat.datasets.own_options import MoleculeOptions
from gsat.graphs import GraphStore
from gsat.molecules import featuriser, reader
from gsat.molecules.reader import TableSettings, read_table

# Scaffolds follow from the molecules, and RDKit may come to write them differently.
_UNCOUNTED = ("graph.scaffold",)


def settings_of(options: MoleculeOptions) -> TableSettings:
    """How the options of a data set say that its table is read."""
    column = options.split.removeprefix("column:") if options.split.startswith("column:") else ""
    return TableSettings(
        smiles=options.smiles,
        label=tuple(options.label),
        id=options.id,
        task=options.task,
        classes=tuple(str(name) for name in options.classes),
        split=column,
        largest_fragment=options.largest_fragment,
        merge=options.duplicates == "merge",
    )


def found_options(store: GraphStore) -> dict[str, Any]:
    """The options that say what was found in a table, so that it is read in the same way again."""
    table = store.meta["table"]
    return {"smiles": table["smiles"], "label": list(table["labels"]), "id": table["id"]}


def input_of(store: GraphStore) -> dict[str, Any] | None:
    """What a model needs to make the same graphs of other molecules, as plain values."""
    if "featuriser" not in store.meta:
        return None
    known = ("table", "classes", "labels")
    return {
        "features": store.meta["featuriser"],
        **{name: store.meta[name] for name in known if store.meta.get(name)},
    }


def read(path: Path, settings: TableSettings, *, quiet: bool = False) -> GraphStore:
    """Read a table of molecules, from the cache if it was read in the same way before."""
    if not path.exists():
        raise DataNotFoundError(f"there is no file {path}")
    content = sha256(read_file(path, error=DataError, limit=memory_limit(), links=True))
    found = _pointer(path, content, settings)
    try:  # what these settings were found to mean, when the file was read before
        means = found.read_text(encoding="utf-8")
    except OSError:
        means = ""
    store = load_cached(_folder(means), _UNCOUNTED) if means else None
    if store is None:
        store = read_table(path, settings, quiet=quiet)
        store.meta["content"] = content_hash(store, _UNCOUNTED)
        means = _key(path, content, _meant(settings, store))
        store = save_cached(store, _folder(means))
        with contextlib.suppress(OSError, GSATError):
            for one in (settings, _meant(settings, store)):
                write_text(_pointer(path, content, one), means)
    return store


def _meant(settings: TableSettings, store: GraphStore) -> TableSettings:
    """Settings that name what was found, as a run remembers them."""
    table = store.meta["table"]
    classes = tuple(store.meta.get("classes", ())) if settings.labelled else settings.classes
    return replace(
        settings,
        smiles=table["smiles"],
        label=tuple(table["labels"]),
        id=table["id"],
        task=table["kind"] if settings.task == "auto" and settings.labelled else settings.task,
        classes=classes,
    )


def _folder(key: str) -> Path:
    return cache_folder() / "datasets" / f"molecules-{key}"


def _pointer(path: Path, content: str, settings: TableSettings) -> Path:
    return cache_folder() / "datasets" / f"molecules-{_key(path, content, settings)}.txt"


def _key(path: Path, content: str, settings: TableSettings) -> str:
    """A name for what is read from a file in a certain way, by these versions."""
    try:
        rdkit = metadata.version("rdkit")
    except metadata.PackageNotFoundError:
        rdkit = ""
    versions = [reader.VERSION, featuriser.VERSION, rdkit]
    return checksum([path.suffixes, content, asdict(settings), versions])[:16]
