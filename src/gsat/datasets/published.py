"""Published figures of the data sets, from the paper, its code and the makers of the data.

Shares are fractions; edges are counted as stored, in both directions where both are.
"""

from __future__ import annotations

from typing import Final

# Figures by their place in a card: the value, and whether it was read in the source itself.
_Figures = dict[str, dict[str, float | bool]]


def _figures(figures: dict[str, float], unverified: dict[str, float] | None = None) -> _Figures:
    return {
        place: {"value": value, "verified": verified}
        for group, verified in ((figures, True), (unverified or {}, False))
        for place, value in group.items()
    }


def _spurious_motif(nodes: float, edges: float, truth: float) -> _Figures:
    """Spurious-Motif, whose means over the training graphs depend on the bias."""
    return _figures(
        {
            "graphs": 18000,
            "undirected": 0,
            "features": 4,
            "edge_features": 1,
            "task.classes": 3,
            "splits.train.size": 9000,
            "splits.train.nodes": nodes,
            "splits.train.edges": edges,
            "splits.train.truth": truth,
            "splits.valid.size": 3000,
            "splits.valid.nodes": 26.2,
            "splits.valid.edges": 36.3,
            "splits.valid.truth": 0.156,
            "splits.test.size": 6000,
            "splits.test.nodes": 90.6,
            "splits.test.edges": 132.9,
            "splits.test.truth": 0.043,
        }
    )


def _molecules(graphs: float, nodes: float, edges: float, classes: int) -> _Figures:
    """A set of OGB; the sizes are those of OGB's paper."""
    return _figures(
        {"features": 9, "edge_features": 0, "undirected": 1, "task.classes": classes},
        {"graphs": graphs, "nodes.mean": nodes, "edges.mean": edges},
    )


PUBLISHED: Final[dict[str, _Figures]] = {
    "ba2motifs": _figures(
        {
            "graphs": 1000,
            "nodes.mean": 25,
            "edges.mean": 50.96,
            "undirected": 1,
            "features": 10,
            "edge_features": 0,
            "task.classes": 2,
            "truth": 0.2166,
            "splits.train.size": 800,
            "splits.valid.size": 100,
            "splits.test.size": 100,
        }
    ),
    "mutag": _figures(
        {
            "graphs": 2951,
            "nodes.mean": 30.13,
            "nodes.max": 417,
            "edges.mean": 60.91,
            "undirected": 1,
            "features": 14,
            "edge_features": 0,
            "task.classes": 2,
            "splits.train.size": 2360,
            "splits.valid.size": 591,
            "splits.test.size": 1015,
            "splits.test.nodes": 27.55,
            "splits.test.edges": 57.40,
            "splits.test.truth": 0.098,
        }
    ),
    "spmotif-0.5": _spurious_motif(22.3, 32.2, 0.176),
    "spmotif-0.7": _spurious_motif(24.0, 33.9, 0.167),
    "spmotif-0.9": _spurious_motif(25.3, 35.3, 0.161),
    "mnist75sp": _figures(
        {
            "graphs": 70000,
            "undirected": 1,
            "features": 5,
            "edge_features": 1,
            "task.classes": 10,
            "splits.train.size": 20000,
            "splits.valid.size": 5000,
            "splits.test.size": 10000,
        },
        {"nodes.mean": 70.6, "edges.mean": 590},
    ),
    "graph-sst2": _figures(
        {"undirected": 1, "features": 768, "edge_features": 1, "task.classes": 2},
        {
            "graphs": 70042,
            "nodes.mean": 10.2,
            "splits.train.size": 28327,
            "splits.valid.size": 3147,
            "splits.test.size": 12305,
        },
    ),
    "ogbg-molhiv": {
        **_molecules(41127, 25.5, 54.9, classes=2),
        **_figures(
            {},
            {"splits.train.size": 32901, "splits.valid.size": 4113, "splits.test.size": 4113},
        ),
    },
    "ogbg-molbace": _molecules(1513, 34.1, 73.7, classes=2),
    "ogbg-molbbbp": _molecules(2039, 24.1, 51.9, classes=2),
    "ogbg-molclintox": _molecules(1477, 26.2, 55.8, classes=2),
    "ogbg-moltox21": _molecules(7831, 18.6, 38.6, classes=12),
    "ogbg-molsider": _molecules(1427, 33.6, 70.7, classes=27),
}
