"""Molecules whose true atoms are known: parts of several data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gsat.core.errors import DataError
from gsat.molecules.smiles import import_rdkit, short
from gsat.molecules.substructures import find_matches, read_smarts

if TYPE_CHECKING:
    from gsat.graphs import GraphStore

Matches = list[list[frozenset[int]]]  # the atoms of each match of each SMARTS
Contribution = tuple[frozenset[int], float]  # the atoms of a match, and its weight in the label
Truth = dict[str, NDArray[np.float32]]


def match_smarts(
    smiles: Iterable[str], smarts: Sequence[str], source: str
) -> Iterator[tuple[Any, Matches]]:
    """Yield each molecule with its matches of each SMARTS."""
    chem = import_rdkit("reading molecules")
    from rdkit import rdBase

    queries = list(zip(read_smarts(smarts), smarts, strict=True))
    for text in smiles:
        with rdBase.BlockLogs():
            molecule = chem.MolFromSmiles(text)
        if molecule is None:
            raise DataError(f"{source}: {short(text)} is not a molecule; correct the table")
        yield molecule, [find_matches(molecule, query, text) for query, text in queries]


def labelled_store(
    smiles: Sequence[str],
    y: NDArray[Any],
    truth: Callable[[GraphStore], Truth],
    *,
    label: str,
    classes: Sequence[str] = (),
    fields: Mapping[str, Any],
    columns: Mapping[str, str] | None = None,
) -> GraphStore:
    """Make graphs of molecules: one label, the name of its column, and the truth of atoms."""
    from gsat.graphs import GraphStore
    from gsat.molecules.featuriser import to_store
    from gsat.molecules.parallel import read_many

    found, arrays = read_many(smiles)
    if found.problems:
        row, reason = found.problems[0]
        raise DataError(f"{short(smiles[row])} can't be used: {reason}; leave it out of the table")
    store = to_store(arrays, {"smiles": found.smiles, **fields}, y.astype(np.float32)[:, None])
    table = {
        "labels": [label],
        "kind": "binary" if classes else "regression",
        "units": [""],
        "largest_fragment": False,
        **(columns or {"smiles": "smiles", "id": ""}),
    }
    meta = {**store.meta, "table": table, **({"classes": list(classes)} if classes else {})}
    return GraphStore({**store.arrays, **truth(store)}, meta)


def truth_of_matches(store: GraphStore, contributions: Sequence[Sequence[Contribution]]) -> Truth:
    """The truth of atoms and bonds.

    The atoms of a match share its weight equally, and the sign of an atom is the sign of the sum of
    its shares. A bond is true if a match contains both of its ends.
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
    nodes_only = {"node_sign": sign, "node_truth": np.abs(sign)}
    return {**nodes_only, "edge_truth": true.astype(np.float32)} if true.any() else nodes_only
