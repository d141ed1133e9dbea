"""Molecules: from SMILES and tables to graphs, and from graphs to molecules.

Names are imported lazily, so that recognising the file name of a table does not import numpy.
:func:`gsat.read_molecules` makes a data set from a table.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gsat.molecules.featuriser import featurise
    from gsat.molecules.smiles import SMILES, molecule_of

_HOMES = {"SMILES": "smiles", "featurise": "featuriser", "molecule_of": "smiles"}

__all__ = ["SMILES", "featurise", "molecule_of"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gsat.molecules' has no attribute {name!r}")
    return getattr(importlib.import_module(f"gsat.molecules.{_HOMES[name]}"), name)
