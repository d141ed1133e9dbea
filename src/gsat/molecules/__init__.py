"""Molecules: SMILES and tables of them to graphs, and back to molecules.

:func:`gsat.read_molecules` makes a data set of a table.
"""

from gsat.molecules.featuriser import featurise
from gsat.molecules.smiles import SMILES, molecule_of

__all__ = ["SMILES", "featurise", "molecule_of"]
