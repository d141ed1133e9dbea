"""Molecules: SMILES and tables to graphs, and back."""

from gsat.molecules.smiles import SMILES, molecule_of

__all__ = ["SMILES", "molecule_of"]
