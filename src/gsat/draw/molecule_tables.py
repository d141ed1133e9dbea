"""Explained molecules and patterns as CSV: a row per atom and per bond, a row per pattern."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from gsat.molecules.rejected import write_csv

if TYPE_CHECKING:
    from gsat.explain.molecules import ExplainedMolecule
    from gsat.explain.patterns import PatternGroup

SCORES: Final = (
    "molecule", "line", "id", "kind", "atom", "atom_2", "symbol", "score", "fragment",
    "fragment_smiles", "fragment_score", "in_explanation", "fragment_effect", "fragment_log_odds",
)  # fmt: skip
PATTERNS: Final = (
    "group", "rank", "pattern", "kind", "smiles", "molecules", "group_size", "occurs",
    "in_explanation", "in_explanation_of_group", "odds_ratio", "p_value", "q_value", "mean_effect",
    "effect_deviation", "mean_log_odds", "examples",
)  # fmt: skip


def scores_csv(molecules: Iterable[ExplainedMolecule]) -> str:
    """Write a row per atom and per bond of each molecule.

    Atoms have the numbers of the SMILES. The score of an atom is its own, where the model attends
    to nodes, or else the mean over its bonds. Each row names the best-scored fragment that
    contains the atom or bond.
    """
    return write_csv(SCORES, (row for molecule in molecules for row in _score_rows(molecule)))


def _score_rows(molecule: ExplainedMolecule) -> Iterator[list[str]]:
    explanation = molecule.explanation
    read = molecule.molecule
    line = "" if molecule.line is None else str(molecule.line)
    head = [str(molecule.number), line, molecule.name]
    bonds = np.zeros(read.GetNumBonds())
    atoms, degree = np.zeros(read.GetNumAtoms()), np.zeros(read.GetNumAtoms())
    pairs = zip(explanation.edge_index.T.tolist(), explanation.edge_mask.tolist(), strict=True)
    for (u, v), score in pairs:
        bond = read.GetBondBetweenAtoms(u, v).GetIdx()
        bonds[bond] = max(bonds[bond], score)
        atoms[v] += score
        degree[v] += 1
    atoms /= np.maximum(degree, 1)
    if explanation.get("node_mask") is not None:
        atoms = explanation.node_mask[:, 0].numpy(force=True)
    for atom in read.GetAtoms():
        i = atom.GetIdx()
        place = ["atom", str(i), "", atom.GetSymbol(), f"{atoms[i]:.6g}"]
        yield [*head, *place, *_fragment_cells(molecule, (i,))]
    for bond in read.GetBonds():
        ends = (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())
        place = ["bond", *map(str, ends), _BONDS.get(str(bond.GetBondType()), "~")]
        yield [*head, *place, f"{bonds[bond.GetIdx()]:.6g}", *_fragment_cells(molecule, ends)]


_BONDS: Final = {"SINGLE": "-", "DOUBLE": "=", "TRIPLE": "#", "AROMATIC": ":"}


def _fragment_cells(molecule: ExplainedMolecule, atoms: tuple[int, ...]) -> list[str]:
    """Name the fragment with the highest score that holds these atoms; empty if there is none."""
    for fragment in molecule.fragments:
        if set(atoms) <= set(fragment.atoms):
            return [
                fragment.name,
                fragment.smiles,
                f"{fragment.score:.6g}",
                str(int(fragment.used)),
                _number(molecule.effect(fragment)),
                _number(molecule.log_odds(fragment)),
            ]
    return [""] * 6


def patterns_csv(groups: Iterable[PatternGroup], molecules: Sequence[ExplainedMolecule]) -> str:
    """Write a row per pattern and group."""
    rows = (
        [
            group.name,
            rank,
            pattern.name,
            pattern.kind,
            pattern.smiles,
            group.total,
            group.size,
            pattern.occurs,
            pattern.used,
            pattern.used_in_group,
            "" if math.isnan(pattern.odds_ratio) else f"{pattern.odds_ratio:.6g}",
            f"{pattern.p_value:.6g}",
            f"{pattern.q_value:.6g}",
            _number(pattern.effect),
            _number(pattern.deviation),
            _number(pattern.log_odds),
            " ".join(_named(molecules[i]) for i in pattern.examples),
        ]
        for group in groups
        for rank, pattern in enumerate(group.patterns, 1)
    )
    return write_csv(PATTERNS, ([str(cell) for cell in row] for row in rows))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _named(molecule: ExplainedMolecule) -> str:
    return molecule.name or str(molecule.number if molecule.line is None else molecule.line)
