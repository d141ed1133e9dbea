"""Molecules: SMILES and tables of them to graphs, and back to molecules.

The names are loaded when first used: what only asks for the name of a table waits for no torch.
:func:`gsat.read_molecules` makes a data set of a table.
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
