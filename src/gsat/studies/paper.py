"""The paper's own numbers, as data: mean and standard deviation in per cent.

From tables 1 and 2 of "Interpretable and Generalizable Graph Learning via Stochastic Attention
Mechanism" (ICML 2022).
"""

from __future__ import annotations

Cell = tuple[float, float]

# (method, backbone, data set) → mean, std
EXPLANATION_AUC: dict[tuple[str, str, str], Cell] = {
    ("gsat", "gin", "ba2motifs"): (98.74, 0.55),
    ("gsat", "gin", "mutag"): (99.60, 0.51),
    ("gsat", "gin", "spmotif-0.5"): (78.45, 3.12),
    ("gsat", "gin", "spmotif-0.7"): (74.07, 5.28),
    ("gsat", "gin", "spmotif-0.9"): (71.97, 4.41),
}
ACCURACY: dict[tuple[str, str, str], Cell] = {
    ("gsat", "gin", "spmotif-0.5"): (52.74, 4.08),
    ("gsat", "gin", "spmotif-0.7"): (49.12, 3.29),
    ("gsat", "gin", "spmotif-0.9"): (44.22, 5.57),
}
