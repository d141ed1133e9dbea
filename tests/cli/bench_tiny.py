"""The command line with a study of its own, small enough to be run, killed and run again."""

from __future__ import annotations

import sys

from gsat.study import study, tables
from gsat.study.study import FigureStudy, TablePart, TableRow, TableStudy, Variant

SMALL = {"graphs": 40, "hidden": 8, "layers": 1, "batch_size": 16, "r_interval": 1}
VARIANTS = {"short": 13, "long": 30}


def add() -> None:
    """Put the studies ``tiny`` and ``tiny-curves`` among those of the paper."""
    for name, epochs in VARIANTS.items():
        study.VARIANTS[name] = Variant(f"-{name}", {**SMALL, "epochs": epochs})  # type: ignore[index]
    rows = tuple(TableRow("gsat", "gin", name, {"houses": (80.0, 2.0)}) for name in VARIANTS)
    part = TablePart("explanation_auc", rows)
    table = TableStudy("tiny", "A tiny table", ("houses",), (part,))
    curves = FigureStudy("tiny-curves", "Tiny curves", table.experiments, needs="curves")
    for made in (table, curves):
        tables.STUDIES[made.name] = made  # type: ignore[index]


def remove() -> None:
    """Take them out again."""
    for name in VARIANTS:
        study.VARIANTS.pop(name)  # type: ignore[attr-defined]
    for name in ("tiny", "tiny-curves"):
        tables.STUDIES.pop(name)  # type: ignore[attr-defined]


if __name__ == "__main__":
    from gsat.cli.app import run

    add()
    sys.exit(run(sys.argv[1:]))
