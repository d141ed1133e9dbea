"""Learning curves from the log of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gsat.metric_names import METRIC_TITLES


def curve_values(log: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Gather the values of each metric over the epochs.

    Args:
        log: One entry per epoch, as in ``metrics.jsonl``.

    Returns:
        ``epochs``, ``phases`` (one name per epoch) and ``curves``: for ``train`` and ``valid`` a
        list per metric, None where it was not measured.
    """
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


def shown_curves(log: Sequence[dict[str, Any]]) -> list[tuple[str, dict[str, list[float | None]]]]:
    """Choose the curves that people look at: the losses, then each metric.

    Args:
        log: One entry per epoch.

    Returns:
        Titles, and the values by part of the data.
    """
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
