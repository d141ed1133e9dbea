"""Data sets by name: shipped, registered, plug-ins, and paths of the user's own data.

Imports nothing heavy, so that a wrong name is rejected at once; see :mod:`gsat.datasets.source`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from gsat.core.errors import DataError
from gsat.core.files import exists, full_path
from gsat.core.registry import DATASETS
from gsat.core.settings import SettingInfo, describe, validated
from gsat.datasets.own_options import MoleculeOptions, OwnDataOptions
from gsat.datasets.source import DatasetOptions, DatasetSource
from gsat.molecules.table import is_table

IN_MEMORY = "custom"  # the name of graphs that were passed as Python objects


def dataset_names() -> tuple[str, ...]:
    """List the names of all data sets without importing them.

    Example:
        >>> "ba2motifs" in dataset_names()
        True
    """
    return DATASETS.names()


def find_source(name: str) -> DatasetSource:
    """Return the data set of a name.

    Args:
        name: One of :func:`dataset_names`, or a name of a family, such as ``spmotif-0.83``.

    Returns:
        An instance of its class.

    Raises:
        DataError: If there is no such data set, or a plug-in can't be used.

    Example:
        >>> find_source("houses").Options().graphs
        1000
    """
    source = _find_class(name)
    if source is None and is_own_data(name):
        raise DataError(f"'{name}' stands for graphs of your own, not for a named data set")
    if source is None:
        raise DataError(DATASETS.unknown(name))
    if not (isinstance(source, type) and issubclass(source, DatasetSource)):
        raise DataError(
            f"the data set '{name}' must be a subclass of DatasetSource, not {source!r}"
        )
    if missing := sorted(getattr(source, "__abstractmethods__", ())):
        raise DataError(f"the data set '{name}' lacks {' and '.join(missing)}: write them")
    return source()


def is_known(name: str) -> bool:
    """Whether a name stands for a data set, or for the user's own graphs."""
    return is_own_data(name) or _find_class(name) is not None


def is_own_data(name: str) -> bool:
    """Whether a name stands for the user's own graphs: a path, or graphs passed in Python."""
    return name == IN_MEMORY or is_path(name)


def is_path(name: str) -> bool:
    """Whether a name is a path of graphs rather than the name of a data set.

    A file or folder in the working directory that is called like a data set needs a ``./``.
    """
    if name == IN_MEMORY:
        return False
    if "/" in name or os.sep in name or name.endswith((".jsonl", ".jsonl.gz", ".zip")):
        return True
    return is_table(name) or (bool(name) and exists(name) and _find_class(name) is None)


def full_name(name: str) -> str:
    """Return a name that works in any folder: a path is made absolute."""
    return str(full_path(name)) if is_path(name) else name


def options_type(name: str) -> type[DatasetOptions]:
    """Return the type of a data set's options."""
    if is_own_data(name):
        return MoleculeOptions if is_table(name) else OwnDataOptions
    return find_source(name).Options


def make_options(name: str, given: Mapping[str, Any]) -> DatasetOptions:
    """Validate the options of a data set and fill in the defaults.

    Args:
        name: Data set name or path.
        given: Options by name.

    Returns:
        All options of the data set.

    Raises:
        DataError: If there is no such data set or option, or a value is invalid.

    Example:
        >>> make_options("houses", {"graphs": 50}).model_dump()
        {'graphs': 50}
    """
    options = options_type(name)
    shown = "your own data" if is_own_data(name) else f"'{name}'"
    available = ", ".join(options.model_fields) or "none"
    owner = f"the options of {shown} ({available})"
    return validated(options, given, owner=owner, error=DataError)


def add_default_source(name: str, given: Mapping[str, Any], data_seed: int = 0) -> dict[str, Any]:
    """Add the ``source`` of a named data set if no option and no other data seed is given.

    It depends on the files of this machine, so recipes store it.
    """
    if given or data_seed or is_own_data(name):
        return dict(given)
    source = find_source(name).default_source(name)
    return {"source": source} if source else {}


def describe_options(name: str) -> list[SettingInfo]:
    """List a data set's options with their types, defaults and meanings.

    Args:
        name: Data set name or path.

    Returns:
        One entry per option, in the order of declaration.

    Example:
        >>> [option.name for option in describe_options("ba2motifs")]
        ['graphs', 'source']
    """
    return describe(options_type(name))


def recipe_family(name: str) -> str:
    """Return the name under which a data set's recipes are shipped."""
    if is_own_data(name):
        return "molecules" if is_table(name) else "default"
    return find_source(name).recipe or name


def default_backbone(name: str) -> str:
    """Return the name of a data set's default network."""
    if is_own_data(name):
        return "dmpnn" if is_table(name) else DatasetSource.backbone
    return find_source(name).backbone


def paper_match(name: str, matches_paper: str) -> str | None:
    """Return ``matches_paper`` if the paper uses the data set, else None."""
    source = None if is_own_data(name) else _find_class(name)
    return matches_paper if source is not None and source.in_paper else None


def _find_class(name: str) -> type[DatasetSource] | None:
    """The class for a name; only that class is imported."""
    # Built-in names first: looking up plug-ins reads the disk.
    if name in DATASETS.built_in() or name in DATASETS:
        return DATASETS.get(name)
    family = name.rpartition("-")[0]
    for member in DATASETS.names() if family else ():
        if member.rpartition("-")[0] == family:
            source = DATASETS.get(member)
            if getattr(source, "pattern", "") and re.fullmatch(source.pattern, name):
                return source
    return None
