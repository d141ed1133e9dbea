"""The section of docs/defaults.md that is written from ``results/defaults.jsonl``."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gsat.studies.defaults import (
    BEFORE,
    CANDIDATES,
    EXPLAINED,
    SEEDS,
    TOLERANCE,
    TRAINED,
    Candidate,
    Record,
    choose,
    complete_sets,
    mean_auc,
    mean_prediction,
)
from gsat.studies.pages import NOTHING_RECORDED


def defaults_page(records: Sequence[Record]) -> str:
    """Write what is chosen with each data set left out, and how every candidate explains.

    Args:
        records: The models of the study.

    Returns:
        Markdown.
    """
    data = complete_sets(records)
    if not records:
        return NOTHING_RECORDED
    if len(data) < 2:
        return (
            f"{len(records)} ways to train have been recorded; a comparison needs two data sets "
            "with all candidates.\n"
        )
    parts = [
        [_counts(records, data)],
        _left_out_table(records, data),
        [_choice(records, data)],
        [_ensembles(records, data)],
        ["### Candidate by candidate"],
        _candidate_table(records, data),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


def _counts(records: Sequence[Record], data: Sequence[str]) -> str:
    models = sum(len(record["models"]) for record in records if record["data"] in data)
    seeds = ", ".join(map(str, SEEDS))
    return (
        f"{models} models (GIN, seeds {seeds} on one split) on {len(data)} data sets with known "
        f"explanations; {len(TRAINED)} ways to train, {len(EXPLAINED)} ways to explain with each "
        f"model. Candidates whose mean prediction metric on validation graphs is more than "
        f"{100 * TOLERANCE:.0f} point below that of *{BEFORE}* are not chosen. Explanation AUC and "
        "prediction on the test set, in per cent."
    )


def _choice(records: Sequence[Record], data: Sequence[str]) -> str:
    """What is chosen on all data sets, and what would be if predictions did not count."""
    chosen, keenest = choose(records, data), choose(records, data, tolerance=math.inf)
    text = f"All {len(data)} data sets together choose: **{chosen}**."
    if keenest == chosen:
        return text
    predicted = (
        _mean([mean_prediction(records, way, name, "test") for name in data])
        for way in (keenest, chosen)
    )
    explained = _mean([mean_auc(records, keenest, name, "test") for name in data])
    return (
        f"{text} If predictions did not count, it would be *{keenest}*: its mean explanation AUC "
        f"is {explained}, and its mean prediction metric {' in place of '.join(predicted)}."
    )


def _ensembles(records: Sequence[Record], data: Sequence[str]) -> str:
    chosen = choose(records, data)
    one, several = (
        _mean([mean_auc(records, chosen, name, "test", ensemble) for name in data])
        for ensemble in (False, True)
    )
    return (
        f"With these settings the models of the {len(SEEDS)} seeds have a mean explanation AUC of "
        f"{one} each, and of {several} as an ensemble (`members={len(SEEDS)}`), which takes "
        f"{len(SEEDS)} trainings."
    )


def _left_out_table(records: Sequence[Record], data: Sequence[str]) -> list[str]:
    lines = [
        f"| left out | {BEFORE} | chosen on the others | after | prediction before, after |",
        "| --- | --- | --- | --- | --- |",
    ]
    before, after = [], []
    for name in data:
        chosen = choose(records, [other for other in data if other != name])
        before.append(mean_auc(records, BEFORE, name, "test"))
        after.append(mean_auc(records, chosen, name, "test"))
        predicted = [mean_prediction(records, way, name, "test") for way in (BEFORE, chosen)]
        metric = next(record["metric"] for record in records if record["data"] == name)
        cells = [name, _percent(before[-1]), str(chosen), _percent(after[-1])]
        cells.append(f"{_percent(predicted[0])}, {_percent(predicted[1])} ({metric})")
        lines.append(f"| {' | '.join(cells)} |")
    lines.append(f"| **mean** | **{_mean(before)}** | | **{_mean(after)}** | |")
    return lines


def _candidate_table(records: Sequence[Record], data: Sequence[str]) -> list[str]:
    lines = [
        f"| candidate | mean | {' | '.join(data)} |",
        f"| --- | --- |{' --- |' * len(data)}",
    ]

    def row(candidate: Candidate) -> tuple[float, str]:
        found = [mean_auc(records, candidate, name, "test") for name in data]
        cells = " | ".join(map(_percent, found))
        known = [value for value in found if value is not None]
        return float(np.mean(known)), f"| {candidate} | {_mean(found)} | {cells} |"

    return lines + [text for _, text in sorted(map(row, CANDIDATES), key=lambda item: -item[0])]


def _mean(values: Sequence[float | None]) -> str:
    return _percent(float(np.mean([value for value in values if value is not None])))


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"
