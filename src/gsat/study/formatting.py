"""Numbers of runs as short texts, the same in all tables and pages."""

from __future__ import annotations

from gsat.methods import METHODS
from gsat.study.records import RecordedRuns
from gsat.study.study import MeanStd

BACKBONE_TITLES = {"gin": "GIN", "pna": "PNA", "leconv": "LEConv", "dmpnn": "D-MPNN"}


def format_method(method: str, backbone: str) -> str:
    """Backbone and method as the paper prints them."""
    return f"{BACKBONE_TITLES.get(backbone, backbone)} + {METHODS[method].title}"


def format_mean_std(mean: float, std: float | None, count: int = 2) -> str:
    """Mean and standard deviation; a single run, or an unknown deviation, has the mean only."""
    return f"{mean:.2f}" + (f" ± {std:.2f}" if std is not None and count > 1 else "")


def format_paper(number: MeanStd | None) -> str:
    """The paper's number, or a dash where it has none."""
    return "–" if number is None else format_mean_std(*number)


def format_seeds(runs: RecordedRuns) -> str:
    """The number of seeds; which ones, if some are missing in between; and how many failed."""
    shown = str(len(runs.done))
    if runs.has_gap:
        some = "seed" if len(runs.done) == 1 else "seeds"
        shown = f"only {some} {', '.join(map(str, sorted(runs.done)))}"
    return shown + (f", {len(runs.failed)} failed" if runs.failed else "")


def format_signed(value: float, digits: int) -> str:
    """A number with its sign, and zero without one."""
    shown = f"{abs(value):.{digits}f}"
    return ("" if not float(shown) else "−" if value < 0 else "+") + shown
