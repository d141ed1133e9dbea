"""The paper's own numbers, as data: mean and standard deviation in per cent.

From tables 1 to 4 and 7 of "Interpretable and Generalizable Graph Learning via Stochastic
Attention Mechanism" (ICML 2022). Explainers and the rival methods of tables 1 and 2 run on GIN.
"""

from __future__ import annotations

Cell = tuple[float, float]
# (method, backbone, data set) → mean, std
Cells = dict[tuple[str, str, str], Cell]

_MOTIFS = "spmotif-0.5 spmotif-0.7 spmotif-0.9"


def _cells(columns: str, rows: str) -> Cells:
    """Lines of ``method backbone mean±std …``, a number for each column; ``-`` where there is
    none."""
    cells: Cells = {}
    for line in rows.strip().splitlines():
        method, backbone, *values = line.split()
        for column, value in zip(columns.split(), values, strict=True):
            if value != "-":
                mean, std = value.split("±")
                cells[method, backbone, column] = (float(mean), float(std))
    return cells


EXPLANATION_AUC: Cells = _cells(
    f"ba2motifs mutag mnist75sp {_MOTIFS}",
    """
    gnnexplainer gin 67.35±3.29  61.98±5.45  59.01±2.04 62.62±1.35  62.25±3.61  58.86±1.93
    pgexplainer  gin 84.59±9.09  60.91±17.10 69.34±4.32 69.54±5.64  72.33±9.18  72.34±2.91
    graphmask    gin 92.54±8.07  62.23±9.01  73.10±6.41 72.06±5.58  73.06±4.91  66.68±6.96
    ib-subgraph  gin 86.06±28.37 91.04±6.59  51.20±5.12 57.29±14.35 62.89±15.59 47.29±13.39
    dir          gin 82.78±10.97 64.44±28.81 32.35±9.39 78.15±1.32  77.68±1.22  49.08±3.66
    gsat         gin 98.74±0.55  99.60±0.51  83.36±1.02 78.45±3.12  74.07±5.28  71.97±4.41
    gsat-star    gin 97.43±1.77  97.75±0.92  83.70±1.46 85.55±2.57  85.56±1.93  83.59±2.56
    gsat         pna 93.77±3.90  99.07±0.50  84.68±1.06 83.34±2.17  86.94±4.05  88.66±2.44
    gsat-star    pna 89.04±4.92  96.22±2.08  88.54±0.72 90.55±1.48  89.79±1.91  89.54±1.78
    """,
)

# Accuracy; ROC AUC for the sets of OGBG-Mol.
PREDICTION: Cells = (
    _cells(
        f"ogbg-molhiv graph-sst2 mnist75sp {_MOTIFS}",
        """
        erm         gin 76.69±1.25 82.73±0.77 95.74±0.36 39.87±1.30 39.04±1.62 38.57±2.31
        ib-subgraph gin 76.43±2.65 82.99±0.67 93.10±1.32 54.36±7.09 48.51±5.76 46.19±5.63
        dir         gin 76.34±1.01 82.32±0.85 88.51±2.57 45.49±3.81 41.13±2.62 37.61±2.02
        gsat        gin 76.47±1.53 82.95±0.58 96.24±0.17 52.74±4.08 49.12±3.29 44.22±5.57
        gsat-star   gin 76.16±1.39 82.57±0.71 96.21±0.14 46.62±2.95 41.26±3.01 39.74±2.20
        erm         pna 78.91±1.04 79.87±1.02 87.20±5.61 68.15±2.39 66.35±3.34 61.40±3.56
        gsat        pna 80.24±0.73 80.92±0.66 93.96±0.92 68.74±2.24 64.38±3.20 57.01±2.95
        gsat-star   pna 80.67±0.95 82.81±0.56 92.38±1.44 69.72±1.93 67.31±1.86 61.49±3.46
        """,
    )
    | _cells(
        "ogbg-molbace ogbg-molbbbp ogbg-molclintox ogbg-moltox21 ogbg-molsider",
        """
        erm       pna 73.52±3.02 67.21±1.34 86.72±2.33 75.08±0.64 56.51±1.90
        gsat      pna 77.41±2.42 69.17±1.12 87.80±2.36 74.96±0.66 57.58±1.23
        gsat-star pna 73.61±1.59 66.30±0.79 89.26±1.66 75.71±0.48 59.19±1.03
        """,
    )
    | _cells(
        _MOTIFS,
        """
        erm       leconv 39.69±1.73 38.93±1.74 33.61±1.02
        vrex      leconv 39.43±2.69 39.08±1.56 34.81±2.04
        irm       leconv 41.30±1.28 40.16±1.74 35.12±2.71
        dir       leconv 45.50±2.15 43.36±1.64 39.87±0.56
        gsat      leconv 53.27±5.12 56.50±3.96 53.11±4.64
        gsat-star leconv 43.27±4.58 42.51±5.32 45.76±5.32
        """,
    )
)

PRECISION_AT_5: Cells = _cells(
    _MOTIFS,
    """
    gnnexplainer leconv 20.3±1.9 16.7±3.9 6.6±0.7
    dir          leconv 25.5±1.6 24.7±1.2 19.2±4.4
    gsat         leconv 51.9±2.2 50.3±3.4 41.6±8.1
    gsat-star    leconv 53.2±1.9 51.2±1.1 52.0±2.2
    """,
)
