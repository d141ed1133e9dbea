"""Numbers of runs as short texts, the same in all tables and pages."""

from __future__ import annotations

from gsat.methods import METHODS
from gsat.studies.records import RecordedRuns
from gsat.studies.study import MeanStd

BACKBONE_TITLES = {"gin": "GIN", "pna": "PNA", "leconv": "LEConv", "dmpnn": "D-MPNN"}


def format_method(method: str, backbone: str) -> str:
    """Backbone and method as the paper prints them.

    Example:
        >>> format_method("gsat-star", "pna")
        'PNA + GSAT*'
    """
    return f"{BACKBONE_TITLES.get(backbone, backbone)} + {METHODS[method].title}"


def format_mean_std(mean: float, std: float | None, count: int = 2) -> str:
    """Mean and standard deviation; a single run, or an unknown deviation, has the mean only.

    Example:
        >>> format_mean_std(98.434, 1.19), format_mean_std(98.434, 0.0, count=1)
        ('98.43 ± 1.19', '98.43')
    """
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
    """A number with its sign, and zero without one.

    Example:
        >>> format_signed(-1.25, 1), format_signed(0.04, 1), format_signed(2.0, 1)
        ('−1.2', '0.0', '+2.0')
    """
    shown = f"{abs(value):.{digits}f}"
    return ("" if not float(shown) else "−" if value < 0 else "+") + shown
