"""Data sets by name: those of this package, registered ones, plug-ins, and paths of your own.

Imports nothing heavy, so that a wrong name is refused at once; see :mod:`gsat.datasets.source`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from gsat.core.errors import DataError
from gsat.core.files import exists, full_path
from gsat.core.registry import DATASETS
from gsat.core.settings import SettingInfo, describe
from gsat.datasets.own_options import MoleculeOptions, OwnDataOptions
from gsat.datasets.source import DatasetOptions, DatasetSource, check_options
from gsat.molecules.table import is_table

IN_MEMORY = "custom"  # the name of graphs that were given in Python


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
        name: One of :func:`dataset_names`, or of a family such as ``spmotif-0.83``.

    Returns:
        An instance of its class.

    Raises:
        DataError: If there is no such data set, or a plug-in can't be used.

    Example:
        >>> find_source("houses").Options().graphs
        1000
    """
    found = _find_class(name)
    if found is None and is_own_data(name):
        raise DataError(f"'{name}' stands for graphs of your own, not for a named data set")
    if found is None:
        raise DataError(DATASETS.unknown(name))
    if not (isinstance(found, type) and issubclass(found, DatasetSource)):
        raise DataError(f"the data set '{name}' must be a subclass of DatasetSource, not {found!r}")
    if missing := sorted(getattr(found, "__abstractmethods__", ())):
        raise DataError(f"the data set '{name}' lacks {' and '.join(missing)}: write them")
    return found()


def is_own_data(name: str) -> bool:
    """Whether a name stands for graphs of your own: a path, or graphs given in Python."""
    return name == IN_MEMORY or is_path(name)


def is_path(name: str) -> bool:
    """Whether a name is a path of graphs rather than the name of a data set.

    A file or folder in the working directory that is called like a data set needs a ``./``.
    """
    if name == IN_MEMORY:
        return False
    if "/" in name or os.sep in name or name.endswith((".jsonl", ".jsonl.gz", ".zip")):
        return True
    if is_table(name):
        return True
    return bool(name) and exists(name) and _find_class(name) is None


def full_name(name: str) -> str:
    """Return the name by which data is found from any folder: a path is made absolute."""
    return str(full_path(name)) if is_path(name) else name


def options_type(name: str) -> type[DatasetOptions]:
    """Return the type of a data set's options."""
    if is_own_data(name):
        return MoleculeOptions if is_table(name) else OwnDataOptions
    return find_source(name).Options


def make_options(name: str, given: Mapping[str, Any]) -> DatasetOptions:
    """Check the options given for a data set and complete them by the defaults.

    Args:
        name: Of the data set, or a path.
        given: Options by name.

    Returns:
        All options of the data set.

    Raises:
        DataError: If there is no such data set or option, or the option takes no such value.

    Example:
        >>> make_options("houses", {"graphs": 50}).model_dump()
        {'graphs': 50}
    """
    shown = "your own data" if is_own_data(name) else name
    return check_options(shown, options_type(name), given)


def describe_options(name: str) -> list[SettingInfo]:
    """List a data set's options with their types, defaults and meanings.

    Args:
        name: Of a data set, or a path.

    Returns:
        One entry per option, in the order of declaration.

    Example:
        >>> [option.name for option in describe_options("ba2motifs")]
        ['source', 'graphs']
    """
    return describe(options_type(name))


def recipe_family(name: str) -> str:
    """Return the name under which a data set's recipes are shipped."""
    if is_own_data(name):
        return "molecules" if is_table(name) else "default"
    return find_source(name).recipe or name


def default_backbone(name: str) -> str:
    """Return the name of the network that data is trained with where none is asked for."""
    if is_own_data(name):
        return "dmpnn" if is_table(name) else DatasetSource.backbone
    return find_source(name).backbone


def paper_match(name: str, matches_paper: str) -> str | None:
    """Say how data relates to the paper's, for people to read."""
    found = None if is_own_data(name) else _find_class(name)
    return matches_paper if found is not None and found.in_paper else None


def _find_class(name: str) -> type[DatasetSource] | None:
    """The class that answers to a name; only that one is imported."""
    # Built-in names first: plug-ins are looked up on the disk.
    if name in DATASETS.built_in() or name in DATASETS:
        return DATASETS.get(name)
    stem = name.rpartition("-")[0]
    if stem:
        for known in DATASETS.names():
            if known.rpartition("-")[0] == stem:
                found = DATASETS.get(known)
                pattern = getattr(found, "pattern", "")
                if pattern and re.fullmatch(pattern, name):
                    return found
    return None
