"""`load_dataset`: read or generate a data set, or take graphs of your own, and split them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from gsat.core.errors import DataError, DataNotFoundError
from gsat.core.files import checksum, file_sha256
from gsat.core.folders import cache_folder
from gsat.datasets.cache import content_hash, load_cached, save_cached
from gsat.datasets.dataset import Dataset, check_dataset
from gsat.datasets.fetch.raw_files import RawFile, missing, require_all
from gsat.datasets.labels import read_labels, standardised
from gsat.datasets.own_data import load_own_data
from gsat.datasets.own_options import OwnDataOptions
from gsat.datasets.registry import IN_MEMORY, find_source, full_name, is_own_data, make_options
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

# SMILES describe the graphs a second time, and recorded hashes are from before.
_UNCOUNTED = (f"graph.{SMILES}",)


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
        seed: Decides the split, where the data set has no fixed one. (default: ``0``)
        data_seed: Decides generated graphs; one data set is shared by all seeds.
            (default: ``0``)
        **options: The data set's own options; of graphs of your own ``task``, ``level``,
            ``metric``, ``classes``, ``split`` with the shares ``train``, ``valid`` and ``test``,
            or with ``folds`` and ``fold``.

    Returns:
        The data set; it is kept in the cache for the next time.

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
    chosen = make_options(name, options)
    if isinstance(chosen, OwnDataOptions):
        own = load_own_data(Path(name) if named else source, name, seed, chosen)
        return replace(own, options={**own.options, "data_seed": data_seed})
    return _load_named(name, chosen, seed, data_seed)


def read_molecules(
    path: str | os.PathLike[str],
    *,
    smiles: str = "",
    label: str | Sequence[str] = (),
    id: str = "",
    task: str = "auto",
    split: str = "auto",
    largest_fragment: bool = False,
    duplicates: str = "merge",
    seed: int = 0,
    **options: Any,
) -> Dataset:
    """Read a table of molecules and split it.

    Rows that can't be used are left out and listed in ``rejected`` of the data set, with their line
    and the reason.

    Args:
        path: A .csv, .tsv, .smi or .sdf file, gzipped or not, or a .parquet file.
        smiles: The column of SMILES. (default: found by name and content)
        label: The column to predict, or several: yes-or-no questions, or numbers.
            (default: found by name and content)
        id: The column of identifiers. (default: found by name, if there is one)
        task: ``"binary"``, ``"multiclass"``, ``"multilabel"`` or ``"regression"``.
            (default: ``"auto"``, inferred from the labels)
        split: ``"scaffold"``, ``"random"``, ``"stratified"``, ``"kfold"``, or ``"column:NAME"`` for
            a column of train, valid and test. (default: ``"auto"``, by scaffold if there are enough
            molecules and every part has all classes, else stratified by class, else random)
        largest_fragment: Whether only the largest component of a salt is kept. (default: ``False``)
        duplicates: ``"merge"``: rows with the same molecule become one, numbers are averaged,
            molecules of contradicting classes are left out; or ``"keep"``. (default: ``"merge"``)
        seed: Decides the split, where it is random. (default: ``0``)
        **options: Further options, as of :func:`load_dataset`: ``metric``, ``classes``,
            ``balance``, ``train``, ``valid``, ``test``, ``folds``, ``fold``.

    Returns:
        The data set, with ``rejected`` and ``notes``; it is kept in the cache for the next time.

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
    return load_dataset(
        path,
        seed=seed,
        smiles=smiles,
        label=[label] if isinstance(label, str) else list(label),
        id=id,
        task=task,
        split=split,
        largest_fragment=largest_fragment,
        duplicates=duplicates,
        **options,
    )


def _load_named(name: str, options: DatasetOptions, seed: int, data_seed: int) -> Dataset:
    """Load a data set of the registry, from the cache if it is there."""
    source = find_source(name)
    task, overlap = source.task(name, options), source.overlap(options)
    made_by, folder = _made_by(source, name, options, data_seed)
    store = load_cached(folder, _UNCOUNTED)
    if store is None:
        files = source.raw_files(name, options)
        for file, path in zip(files, require_all(files), strict=True):
            file.check(path)
        store = source.build(name, options, data_seed)
        if not isinstance(store, GraphStore):
            raise DataError(f"build of '{name}' must return a GraphStore, not {type(store)}")
        splits = _split(source, name, store, seed, options)
        validate_dataset(store, task, splits, name=name, overlap=overlap)
        store.meta["content"] = content_hash(store, _UNCOUNTED)
        store.meta["made_by"] = made_by
        store = save_cached(store, folder)
    splits = _split(source, name, store, seed, options)
    if source.standardised and task.kind == "regression":
        task = standardised(task, read_labels(store, task.level)[splits["train"]])
    return Dataset(
        name=name,
        store=store,
        task=task,
        splits=splits,
        # Where it depends on the bytes of the files, the store itself knows.
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
        # The graphs may be in the cache, from files that are gone.
        known = all(file.sha256 for file in files)
        if (
            not known
            or load_cached(_made_by(source, name, chosen, data_seed)[1], _UNCOUNTED) is None
        ):
            raise


def add_positions(explanation: Explanation, meta: Mapping[str, Any]) -> Explanation:
    """Add where nodes are drawn, if they are parts of an image."""
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
    """What decides the graphs of a data set, and the folder of the cache for them."""
    files = source.raw_files(name, options)
    chosen = options.model_dump()
    # What changes the split alone is left out.
    made_by: dict[str, Any] = {
        "name": name,
        "version": source.version,
        "options": {k: v for k, v in chosen.items() if k not in source.split_options},
        "data_seed": None if files and not source.drawn else data_seed,
        "files": _checksums(files),
    }
    if (identity := source.identity(options)) is not None:
        made_by["identity"] = identity
    home = type(source).__module__
    if not home.startswith("gsat."):  # two packages may use the same name
        made_by["class"] = f"{home}:{type(source).__qualname__}"
    return made_by, cache_folder() / "datasets" / f"{name}-{checksum(made_by)[:16]}"


def _checksums(files: tuple[RawFile, ...]) -> list[Any]:
    """What names the bytes of each file: its published checksum, else that of the file itself."""
    unknown = [file for file in files if not file.sha256]
    found = dict(zip(unknown, require_all(unknown), strict=True))
    return [file.sha256 or file_sha256(found[file]) for file in files]


def _check_seed(name: str, value: Any) -> int:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not 0 <= value < 2**32:
        raise DataError(f"{name} must be a whole number from 0 to {2**32 - 1}, not {value!r}")
    return int(value)
