"""Molecules whose labels follow from substructures: graphs and the truth of atoms and bonds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gsat.core.errors import DataError
from gsat.molecules.smiles import short

if TYPE_CHECKING:
    from gsat.graphs import GraphStore

Contribution = tuple[frozenset[int], float]  # the atoms of a match, and its weight in the label


def to_labelled_store(
    smiles: Sequence[str],
    contributions: Sequence[Sequence[Contribution]],
    y: NDArray[Any],
    *,
    label: str,
    classes: Sequence[str] = (),
    fields: Mapping[str, Any],
    columns: Mapping[str, str],
) -> GraphStore:
    """Make graphs of molecules whose truth is known."""
    from gsat.graphs import GraphStore
    from gsat.molecules.featuriser import to_store
    from gsat.molecules.parallel import read_many

    found, arrays = read_many(smiles)
    if found.problems:
        row, reason = found.problems[0]
        raise DataError(f"{short(smiles[row])} can't be used: {reason}; leave it out of the table")
    known = np.array([len(some) > 0 for some in contributions])
    given = {"smiles": found.smiles, "annotated": known, **fields}
    store = to_store(arrays, given, y.astype(np.float32)[:, None])
    table = {
        "labels": [label],
        "kind": "binary" if classes else "regression",
        "units": [""],
        "largest_fragment": False,
        **columns,
    }
    meta = {**store.meta, "table": table, **({"classes": list(classes)} if classes else {})}
    return GraphStore({**store.arrays, **truth(store, contributions)}, meta)


def truth(
    store: GraphStore, contributions: Sequence[Sequence[Contribution]]
) -> dict[str, NDArray[np.float32]]:
    """The truth of atoms and bonds.

    The weight of a match is shared equally by its atoms, and the sign of an atom is that of the sum
    of its shares. A bond is true if a match contains both of its ends.
    """
    node_ptr, edge_ptr = store.arrays["node_ptr"], store.arrays["edge_ptr"]
    src, dst = store.arrays["src"], store.arrays["dst"]
    share, total = np.zeros(node_ptr[-1]), np.zeros(node_ptr[-1])
    true = np.zeros(edge_ptr[-1], dtype=bool)
    for graph, matches in enumerate(contributions):
        nodes, edges = slice(*node_ptr[graph : graph + 2]), slice(*edge_ptr[graph : graph + 2])
        for atoms, weight in matches:
            inside = np.zeros(node_ptr[graph + 1] - node_ptr[graph], dtype=bool)
            inside[list(atoms)] = True
            share[nodes] += inside * (weight / len(atoms))
            total[nodes] += inside * abs(weight / len(atoms))
            true[edges] |= inside[src[edges]] & inside[dst[edges]]
    # Shares that cancel leave a rounding error.
    sign = np.where(np.abs(share) > 1e-9 * total, np.sign(share), 0).astype(np.float32)
    found = {"node_sign": sign, "node_truth": np.abs(sign)}
    return {**found, **({"edge_truth": true.astype(np.float32)} if true.any() else {})}
