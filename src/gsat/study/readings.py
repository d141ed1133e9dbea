"""Other readings of the paper and of the published code, run where our numbers differ from theirs.

Each row changes one thing of the default, which is the reading of the published code. A reading is
the explanation of a difference if its numbers are the paper's, and ruled out if they are not.
"""

from __future__ import annotations

from gsat.study.study import PREDICTION, TablePart, TableStudy, parse_rows

_COLUMNS = "spmotif-0.5 spmotif-0.7 spmotif-0.9"
_TREES = ("/same-trees", "/same-trees-train", "/same-trees-valid")
_READINGS = ("", "/info-on-p", *_TREES, "/last-epoch")
_DRAWS = ("/draw-1", "/draw-2")
# By the published recipes, r falls to 0.5 every 20 epochs on LEConv, and to 0.7 every 10 on GIN.
# Where our numbers are the paper's already, other trees in the training set must not spoil them.
_OF = {
    "gsat leconv": (*_READINGS, "/undirected", "/r-final-0.7", "/r-interval-10", *_DRAWS),
    "gsat gin": (*_READINGS, "/r-final-0.5", *_DRAWS),
    "gsat-star gin": ("", "/same-trees-train"),
    "erm gin": ("", "/same-trees-train"),
    "gsat pna": ("", "/same-trees-train"),
}
# The columns where our numbers differ. Other graphs are tried on all.
_DIFFERS = {"gsat leconv": (0,), "gsat gin": (1, 2)}
_ON_ALL = ("", *_TREES, *_DRAWS)


def _rows(model: str, numbers: str) -> str:
    """All readings of a method on a backbone, each beside the same numbers of the paper."""
    method, backbone = model.split()
    every = numbers.split()
    some = [number if at in _DIFFERS.get(model, ()) else "-" for at, number in enumerate(every)]
    return "\n".join(
        f"{method}{reading} {backbone} {' '.join(every if reading in _ON_ALL else some)}"
        for reading in _OF[model]
    )


def _part(metric: str, *rows: str) -> TablePart:
    return TablePart(metric, parse_rows(_COLUMNS, "\n".join(rows)))


READINGS = TableStudy(
    "readings",
    "Where our numbers differ: other readings of the paper",
    tuple(_COLUMNS.split()),
    (
        _part(
            "explanation_auc",
            _rows("gsat gin", "78.45±3.12 74.07±5.28 71.97±4.41"),
            _rows("gsat-star gin", "85.55±2.57 85.56±1.93 83.59±2.56"),
            _rows("gsat pna", "83.34±2.17 86.94±4.05 88.66±2.44"),
        ),
        _part("precision_at_5", _rows("gsat leconv", "51.9±2.2 50.3±3.4 41.6±8.1")),
        _part(
            PREDICTION,
            _rows("gsat leconv", "53.27±5.12 56.50±3.96 53.11±4.64"),
            _rows("gsat gin", "52.74±4.08 49.12±3.29 44.22±5.57"),
            _rows("gsat-star gin", "46.62±2.95 41.26±3.01 39.74±2.20"),
            _rows("erm gin", "39.87±1.30 39.04±1.62 38.57±2.31"),
            _rows("gsat pna", "68.74±2.24 64.38±3.20 57.01±2.95"),
        ),
    ),
    note="The first row of each model is the default, the reading of the published code; every "
    "other row changes one thing of it. All seeds, of the paper's runs too, share graphs that were "
    "drawn once, and no deviation shows what another draw changes. For GIN + GSAT it changes the "
    "mean accuracy by some ten points; at 0.7 and 0.9 the paper's number is between those of three "
    "draws. LEConv's accuracy at 0.7 and its precision@5 at 0.5 are below the paper's on all of "
    "them, which is not explained. "
    "In DIR's generator, trees are equally tall for all classes and in the validation set; in the "
    "published one, those of the first class and of the validation set are taller. With DIR's "
    "trees in the training set alone, GIN + GSAT is within one of the paper's standard deviations "
    "too, but GIN + GSAT* is much more accurate than in the paper, which speaks against such "
    "graphs. GIN with edges both ways: table beyond.",
    later=True,
)
