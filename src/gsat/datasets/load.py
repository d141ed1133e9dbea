"""`load_dataset`: read or generate a data set, or use your own graphs, and split them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from gsat.core.errors import DataError, DataNotFoundError
from gsat.core.files import checksum, file_sha256
from gsat.core.folders import cache_folder
from gsat.core.settings import argument_lines, signature
from gsat.datasets.cache import cached, load_cached
from gsat.datasets.dataset import Dataset, check_dataset
from gsat.datasets.fetch.raw_files import missing, require_all
from gsat.datasets.labels import read_labels, standardised
from gsat.datasets.own_data import load_own_data
from gsat.datasets.own_options import MoleculeOptions, OwnDataOptions
from gsat.datasets.registry import (
    IN_MEMORY,
    add_default_source,
    find_source,
    full_name,
    is_own_data,
    make_options,
)
from gsat.datasets.source import DatasetOptions, DatasetSource
from gsat.datasets.splits import NAMES, Splits
from gsat.graphs import GraphStore
from gsat.graphs.validation import validate_dataset
from gsat.molecules.smiles import SMILES
from gsat.molecules.table import SUFFIXES, is_table

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gsat.explanation import Explanation

__all__ = [
    "Dataset",
    "add_positions",
    "check_dataset",
    "check_here",
    "load_dataset",
    "read_molecules",
]

# SMILES describe the graphs a second time; recorded hashes are without them.
_NOT_HASHED = (f"graph.{SMILES}",)


def load_dataset(
    source: str | os.PathLike[str] | Iterable[Data],
    /,
    *,
    seed: int = 0,
    data_seed: int = 0,
    **options: Any,
) -> Dataset:
    """Load a data set by name, or graphs of your own, and split it.

    Args:
        source: A name (see ``gsat.datasets.dataset_names()``); a path: a table of molecules (see
            :func:`read_molecules`), a TU folder or a zip of one, a folder written by
            :meth:`GraphStore.save`, a .jsonl or .jsonl.gz file (docs/data.md); or the graphs
            themselves: a sequence of PyG ``Data``, a PyG data set, a :class:`GraphStore`.
        seed: Seed of the split, unless the data set has a fixed one. (default: ``0``)
        data_seed: Seed of generated graphs; all seeds share one data set. (default: ``0``)
        **options: Options of the data set (see ``gsat datasets NAME``); for your own graphs
            ``task``, ``level``, ``metric``, ``classes``, ``split`` with the shares ``train``,
            ``valid`` and ``test``, or with ``folds`` and ``fold``.

    Returns:
        The data set; it is cached.

    Raises:
        DataError: If there is no such data set, or it has no such option, or its graphs can't be
            used.
        DataNotFoundError: If a raw file is missing and can't be downloaded.

    Example:
        >>> import gsat
        >>> data = gsat.load_dataset("houses", graphs=20)
        >>> len(data.train), len(data.valid), len(data.test)
        (16, 2, 2)
        >>> data.task.kind
        'binary'
    """
    seed, data_seed = _check_seed("seed", seed), _check_seed("data_seed", data_seed)
    named = isinstance(source, (str, os.PathLike))
    name = full_name(os.fspath(cast("str", source))) if named else IN_MEMORY
    if named and name == IN_MEMORY:
        raise DataError(
            f"'{IN_MEMORY}' stands for graphs that were given in Python and have no path: give "
            "them again there (resume with data=…), or a path of graphs beside the run"
        )
    chosen = make_options(name, add_default_source(name, options, data_seed))
    if isinstance(chosen, OwnDataOptions):
        own = load_own_data(Path(name) if named else source, name, seed, chosen)
        return replace(own, options={**own.options, "data_seed": data_seed})
    return _load_named(name, chosen, seed, data_seed)


def read_molecules(path: str | os.PathLike[str], *, seed: int = 0, **options: Any) -> Dataset:
    """Read a table of molecules and split it.

    Rows that can't be used are left out and listed in ``rejected`` of the data set, with their line
    and the reason.

    Args:
        path: A .csv, .tsv, .smi or .sdf file, gzipped or not, or a .parquet file.
        seed: Seed of a random split. (default: ``0``)
        **options: The fields of ``MoleculeOptions``.

    Returns:
        The data set, with ``rejected`` and ``notes``; it is cached.

    Raises:
        DataError: If a column is not found, or no row can be used.
        DataNotFoundError: If there is no such file.
        MissingExtraError: If RDKit is not installed: ``pip install 'torch-gsat[molecules]'``.

    Example:
        >>> import pathlib, tempfile, gsat
        >>> path = pathlib.Path(tempfile.mkdtemp(), "mols.csv")
        >>> with path.open("w") as file:
        ...     print("smiles,logP", file=file)
        ...     for n in range(1, 21):
        ...         print(f"{'C' * n}O,{n / 2}", file=file)
        ...     print("C1CC,2.5", file=file)
        >>> data = gsat.read_molecules(path)
        >>> data.task.kind, len(data.train), data.rejected[0].line, data.rejected[0].reason
        ('regression', 16, 22, 'SMILES: it is not a SMILES')
    """
    if not is_table(os.fspath(path)):
        raise DataError(
            f"{path} is not a table of molecules; its name ends in {', '.join(SUFFIXES)}"
        )
    return load_dataset(path, seed=seed, **options)


# The options are declared once, in MoleculeOptions.
read_molecules.__signature__ = signature(  # type: ignore[attr-defined]
    read_molecules, MoleculeOptions, leave_out=("content",)
)
if read_molecules.__doc__:
    _OPTIONS = argument_lines(MoleculeOptions, leave_out=("content",)).replace("\n", "\n    ")
    read_molecules.__doc__ = read_molecules.__doc__.replace(
        "    **options: The fields of ``MoleculeOptions``.", _OPTIONS
    )


def _load_named(name: str, options: DatasetOptions, seed: int, data_seed: int) -> Dataset:
    """Load a named data set, from the cache if it is there."""
    source = find_source(name)
    task, overlap = source.task(name, options), source.overlap(options)
    made_by, folder = _made_by(source, name, options, data_seed)

    def build() -> GraphStore:
        files = source.raw_files(name, options)
        for file, path in zip(files, require_all(files), strict=True):
            file.check(path)
        store = source.build(name, options, data_seed)
        if not isinstance(store, GraphStore):
            raise DataError(f"build of '{name}' must return a GraphStore, not {type(store)}")
        splits = _split(source, name, store, seed, options)
        validate_dataset(store, task, splits, name=name, overlap=overlap)
        store.meta["made_by"] = made_by
        return store

    store = cached(folder, build, _NOT_HASHED)
    splits = _split(source, name, store, seed, options)
    if source.standardised and task.kind == "regression":
        task = standardised(task, read_labels(store, task.level)[splits["train"]])
    return Dataset(
        name=name,
        store=store,
        task=task,
        splits=splits,
        # The store decides if the answer depends on the content of the files.
        matches_paper=store.meta.get("matches_paper") or source.matches_paper(name, options),
        hash=store.meta["content"],
        options={**options.model_dump(), "data_seed": data_seed},
        seed=seed,
        overlap=overlap,
    )


def check_here(name: str, *, data_seed: int = 0, **options: Any) -> None:
    """Check that a named data set can be loaded on this machine; nothing is loaded or built."""
    if is_own_data(name):
        return
    source, chosen = find_source(name), make_options(name, options)
    files = source.raw_files(name, chosen)
    try:
        missing(files)
    except DataNotFoundError:
        # The graphs may be in the cache, although the files are gone.
        if not all(file.sha256 for file in files):
            raise
        if load_cached(_made_by(source, name, chosen, data_seed)[1], _NOT_HASHED) is None:
            raise


def add_positions(explanation: Explanation, meta: Mapping[str, Any]) -> Explanation:
    """Add the positions of nodes that are parts of an image."""
    x, name = explanation.get("x"), (meta.get("made_by") or {}).get("name")
    if not name:  # graphs of your own
        return explanation
    try:
        source = find_source(name)
    except DataError:  # of a plug-in that is not installed here
        return explanation
    if x is not None and (placed := source.positions(x)) is not None:
        explanation.pos, explanation.shade = placed
    return explanation


def _split(
    source: DatasetSource, name: str, store: GraphStore, seed: int, options: DatasetOptions
) -> Splits:
    """The splits of a data set, under their three names."""
    splits = source.split(store, seed, options)
    if set(splits) != set(NAMES):
        raise DataError(f"split of '{name}' must return {', '.join(NAMES)}, not {list(splits)}")
    return splits


def _made_by(
    source: DatasetSource, name: str, options: DatasetOptions, data_seed: int
) -> tuple[dict[str, Any], Path]:
    """The values that determine the graphs of a data set, and their cache folder."""
    files = source.raw_files(name, options)
    require_all(file for file in files if not file.sha256)
    made_by: dict[str, Any] = {
        "name": name,
        "version": source.version,
        "options": options.model_dump(exclude=set(source.split_options)),
        "data_seed": None if files and not source.drawn else data_seed,
        # The published checksum, or else the checksum of the file here.
        "files": [file.sha256 or file_sha256(file.require()) for file in files],
    }
    if (identity := source.identity(options)) is not None:
        made_by["identity"] = identity
    home = type(source).__module__
    if not home.startswith("gsat."):  # two packages may use the same name
        made_by["class"] = f"{home}:{type(source).__qualname__}"
    return made_by, cache_folder() / "datasets" / f"{name}-{checksum(made_by)[:16]}"


def _check_seed(name: str, value: Any) -> int:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not 0 <= value < 2**32:
        raise DataError(f"{name} must be a whole number from 0 to {2**32 - 1}, not {value!r}")
    return int(value)
