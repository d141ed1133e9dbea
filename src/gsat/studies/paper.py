"""The paper's own numbers, as data: mean and standard deviation in per cent.

From tables 1, 2 and (LEConv) 4 of "Interpretable and Generalizable Graph Learning via Stochastic
Attention Mechanism" (ICML 2022).
"""

from __future__ import annotations

Cell = tuple[float, float]

# (method, backbone, data set) → mean, std
EXPLANATION_AUC: dict[tuple[str, str, str], Cell] = {
    ("gsat", "gin", "ba2motifs"): (98.74, 0.55),
    ("gsat", "gin", "mutag"): (99.60, 0.51),
    ("gsat", "gin", "mnist75sp"): (83.36, 1.02),
    ("gsat", "gin", "spmotif-0.5"): (78.45, 3.12),
    ("gsat", "gin", "spmotif-0.7"): (74.07, 5.28),
    ("gsat", "gin", "spmotif-0.9"): (71.97, 4.41),
    ("gsat-star", "gin", "ba2motifs"): (97.43, 1.77),
    ("gsat-star", "gin", "mutag"): (97.75, 0.92),
    ("gsat-star", "gin", "mnist75sp"): (83.70, 1.46),
    ("gsat-star", "gin", "spmotif-0.5"): (85.55, 2.57),
    ("gsat-star", "gin", "spmotif-0.7"): (85.56, 1.93),
    ("gsat-star", "gin", "spmotif-0.9"): (83.59, 2.56),
    ("gsat", "pna", "ba2motifs"): (93.77, 3.90),
    ("gsat", "pna", "mutag"): (99.07, 0.50),
    ("gsat", "pna", "mnist75sp"): (84.68, 1.06),
    ("gsat", "pna", "spmotif-0.5"): (83.34, 2.17),
    ("gsat", "pna", "spmotif-0.7"): (86.94, 4.05),
    ("gsat", "pna", "spmotif-0.9"): (88.66, 2.44),
    ("gsat-star", "pna", "ba2motifs"): (89.04, 4.92),
    ("gsat-star", "pna", "mutag"): (96.22, 2.08),
    ("gsat-star", "pna", "mnist75sp"): (88.54, 0.72),
    ("gsat-star", "pna", "spmotif-0.5"): (90.55, 1.48),
    ("gsat-star", "pna", "spmotif-0.7"): (89.79, 1.91),
    ("gsat-star", "pna", "spmotif-0.9"): (89.54, 1.78),
}
ACCURACY: dict[tuple[str, str, str], Cell] = {
    ("gsat", "gin", "mnist75sp"): (96.24, 0.17),
    ("gsat", "gin", "spmotif-0.5"): (52.74, 4.08),
    ("gsat", "gin", "spmotif-0.7"): (49.12, 3.29),
    ("gsat", "gin", "spmotif-0.9"): (44.22, 5.57),
    ("gsat-star", "gin", "mnist75sp"): (96.21, 0.14),
    ("gsat-star", "gin", "spmotif-0.5"): (46.62, 2.95),
    ("gsat-star", "gin", "spmotif-0.7"): (41.26, 3.01),
    ("gsat-star", "gin", "spmotif-0.9"): (39.74, 2.20),
    ("erm", "gin", "mnist75sp"): (95.74, 0.36),
    ("erm", "gin", "spmotif-0.5"): (39.87, 1.30),
    ("erm", "gin", "spmotif-0.7"): (39.04, 1.62),
    ("erm", "gin", "spmotif-0.9"): (38.57, 2.31),
    ("gsat", "pna", "mnist75sp"): (93.96, 0.92),
    ("gsat", "pna", "spmotif-0.5"): (68.74, 2.24),
    ("gsat", "pna", "spmotif-0.7"): (64.38, 3.20),
    ("gsat", "pna", "spmotif-0.9"): (57.01, 2.95),
    ("gsat-star", "pna", "mnist75sp"): (92.38, 1.44),
    ("gsat-star", "pna", "spmotif-0.5"): (69.72, 1.93),
    ("gsat-star", "pna", "spmotif-0.7"): (67.31, 1.86),
    ("gsat-star", "pna", "spmotif-0.9"): (61.49, 3.46),
    ("erm", "pna", "mnist75sp"): (87.20, 5.61),
    ("erm", "pna", "spmotif-0.5"): (68.15, 2.39),
    ("erm", "pna", "spmotif-0.7"): (66.35, 3.34),
    ("erm", "pna", "spmotif-0.9"): (61.40, 3.56),
    ("gsat", "leconv", "spmotif-0.5"): (53.27, 5.12),
    ("gsat", "leconv", "spmotif-0.7"): (56.50, 3.96),
    ("gsat", "leconv", "spmotif-0.9"): (53.11, 4.64),
    ("gsat-star", "leconv", "spmotif-0.5"): (43.27, 4.58),
    ("gsat-star", "leconv", "spmotif-0.7"): (42.51, 5.32),
    ("gsat-star", "leconv", "spmotif-0.9"): (45.76, 5.32),
    ("erm", "leconv", "spmotif-0.5"): (39.69, 1.73),
    ("erm", "leconv", "spmotif-0.7"): (38.93, 1.74),
    ("erm", "leconv", "spmotif-0.9"): (33.61, 1.02),
}
