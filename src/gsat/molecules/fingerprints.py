"""Search for similar molecules, by Tanimoto similarity of Morgan fingerprints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from gsat.molecules.smiles import import_rdkit, read_smiles

RADIUS: Final = 2
BITS: Final = 2048


class Neighbour(NamedTuple):
    """A molecule found by a search."""

    position: int  # among the searched molecules
    smiles: str  # canonical, without explicit hydrogens
    similarity: float  # Tanimoto, from 0 to 1


class NearestMolecules:
    """Fingerprints of molecules, to be searched for those similar to a query."""

    def __init__(self, smiles: Sequence[str]) -> None:
        self._chem = import_rdkit("the similarity of molecules")
        from rdkit.Chem import rdFingerprintGenerator

        self._generator = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=BITS)
        self._smiles = smiles
        self._canonical: dict[int, str] = {}
        read = {place: read_smiles(text) for place, text in enumerate(smiles)}
        read = {place: molecule for place, molecule in read.items() if molecule is not None}
        self._places = list(read)
        self._fingerprints = list(self._generator.GetFingerprints([*read.values()], numThreads=0))

    def __len__(self) -> int:
        return len(self._fingerprints)

    def nearest(self, smiles: str, count: int = 3) -> list[Neighbour]:
        """Find the most similar molecules."""
        from rdkit.DataStructs import BulkTanimotoSimilarity

        molecule = read_smiles(smiles)
        if molecule is None or not self._fingerprints:
            return []
        fingerprint = self._generator.GetFingerprint(molecule)
        similarity = np.array(BulkTanimotoSimilarity(fingerprint, self._fingerprints))
        neighbours = []
        for row in np.argsort(-similarity, kind="stable")[:count].tolist():
            place = self._places[row]
            if place not in self._canonical:
                self._canonical[place] = self._chem.MolToSmiles(read_smiles(self._smiles[place]))
            neighbours.append(Neighbour(place, self._canonical[place], float(similarity[row])))
        return neighbours
