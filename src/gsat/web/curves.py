"""Learning curves from the log of a run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from gsat.core.errors import RunError
from gsat.metric_names import METRIC_TITLES
from gsat.training.members import member_folders
from gsat.training.run import Run
from gsat.training.run_directory import RunDirectory

Curves = list[tuple[str, dict[str, list[float | None]]]]


def curve_values(log: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Gather the values of each metric over the epochs."""
    curves: dict[str, dict[str, list[float | None]]] = {"train": {}, "valid": {}}
    for part, found in curves.items():
        names = dict.fromkeys(name for line in log for name in line[part])
        for name in names:
            found[name] = [line[part].get(name) for line in log]
    return {
        "epochs": len(log),
        "phases": [line["phase"] for line in log],
        "selected": next((i for i, line in enumerate(log) if line.get("selected")), None),
        "curves": curves,
    }


def shown_curves(log: Sequence[dict[str, Any]]) -> Curves:
    """Choose the curves that people look at: the losses, then each metric."""
    made = curve_values(log)["curves"]
    total = "total" if "total" in made["train"] else "loss"
    charts = [
        ("loss", {"train": made["train"].get(total, []), "valid": made["valid"].get("loss", [])})
    ]
    for name, title in METRIC_TITLES.items():
        charts.append((title, {part: made[part].get(name, []) for part in ("train", "valid")}))
    defined = []
    for title, lines in charts:
        some = {
            part: values
            for part, values in lines.items()
            if any(value is not None for value in values)
        }
        if some:
            defined.append((title, some))
    return defined


def member_logs(run: Run) -> list[list[dict[str, Any]]]:
    """Read the logs of the members of an ensemble that have begun; none of any other run."""
    if run.path is None or run.recipe.members is None:
        return []
    logs = []
    for folder in member_folders(RunDirectory(run.path)):
        try:
            logs.append(RunDirectory(folder).read_log())
        except RunError:  # it has not begun
            continue
    return logs


def mean_curves(logs: Sequence[Sequence[dict[str, Any]]]) -> Curves:
    """Average the curves of several runs, epoch by epoch over those that have come as far."""
    made: dict[str, dict[str, list[list[float | None]]]] = {}
    for log in logs:
        for title, lines in shown_curves(log):
            for part, values in lines.items():
                made.setdefault(title, {}).setdefault(part, []).append(values)
    return [
        (title, {part: _mean(curves) for part, curves in parts.items()})
        for title, parts in made.items()
    ]


def _mean(curves: Sequence[Sequence[float | None]]) -> list[float | None]:
    out: list[float | None] = []
    for values in zip_longest(*curves):
        known = [value for value in values if value is not None]
        out.append(sum(known) / len(known) if known else None)
    return out
