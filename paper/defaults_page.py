"""The section of docs/defaults.md that is written from ``results/defaults.jsonl``."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from paper.defaults import (
    GROUPS,
    TOLERANCE,
    Candidate,
    Group,
    Record,
    choose,
    complete_candidates,
    mean_auc,
    mean_prediction,
    measured_sets,
    of_group,
    seed_values,
)
from paper.pages import NOTHING_RECORDED


def defaults_page(records: Sequence[Record]) -> str:
    """Write the choices with each data set left out, and the results of every candidate."""
    if not records:
        return NOTHING_RECORDED
    sections = [_section(of_group(records, name), group) for name, group in GROUPS.items()]
    text = "\n\n".join(section for section in sections if section)
    return f"{text or _too_few(records)}\n"


def _too_few(records: Sequence[Record]) -> str:
    return f"{len(records)} records; a comparison needs two data sets with the former default."


def _section(records: Sequence[Record], group: Group) -> str:
    data = measured_sets(records, group)
    if len(data) < 2:
        return ""
    candidates = complete_candidates(records, group, data)
    parts = [
        [f"### {group.title}"],
        [_counts(records, group, data)],
        _left_out_table(records, group, data),
        [_choice(records, group, data)],
        [_ensembles(records, group, data)],
        [f"Every candidate on the test graphs of every data set ({len(candidates)} complete):"],
        _candidate_table(records, group, data),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts)


def _counts(records: Sequence[Record], group: Group, data: Sequence[str]) -> str:
    models = sum(len(record["models"]) for record in records)
    metric = {"explanation_auc": "explanation AUC", "atom_auc": "atom AUC"}[group.metric]
    hours = sum(record.get("cpu_seconds") or record["seconds"] for record in records) / 3600
    return (
        f"{models} models on {len(data)} data sets, {hours:.1f} CPU hours. Cells are the {metric} "
        "in per cent: the mean over the seeds of one split, and their standard deviation. The "
        f"former default is *{group.before}*. A candidate is not chosen if its mean prediction "
        f"metric on validation graphs is more than {100 * TOLERANCE:.0f} point lower."
    )


def _choice(records: Sequence[Record], group: Group, data: Sequence[str]) -> str:
    """The choice on all data sets, and the choice if predictions did not count."""
    chosen, keenest = choose(records, group, data), choose(records, group, data, math.inf)
    text = f"All {len(data)} data sets together choose **{chosen}**."
    if keenest == chosen:
        return text
    explained = _mean([mean_auc(records, keenest, name, "test") for name in data])
    predicted = _mean([mean_prediction(records, keenest, name, "test") for name in data])
    return (
        f"{text} Without the limit on predictions they would choose *{keenest}*, with {explained} "
        f"and a mean prediction metric of {predicted}."
    )


def _ensembles(records: Sequence[Record], group: Group, data: Sequence[str]) -> str:
    chosen = choose(records, group, data)
    one, several = (
        _mean([mean_auc(records, chosen, name, "test", ensemble) for name in data])
        for ensemble in (False, True)
    )
    seeds = max(len(r["models"]) for r in records if r["trained"] == chosen.trained)
    return (
        f"With these settings, single models have a mean of {one}, and ensembles of {seeds} "
        f"(`members={seeds}`, {seeds} trainings) one of {several}."
    )


def _left_out_table(records: Sequence[Record], group: Group, data: Sequence[str]) -> list[str]:
    lines = [
        "| left out | before | chosen on the others | after | lowest seed | prediction before, "
        "after |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    before, after, lowest = [], [], []
    among = complete_candidates(records, group, data)
    for name in data:
        others = [other for other in data if other != name]
        chosen = choose(records, group, others, among=among)
        before.append(mean_auc(records, group.before, name, "test"))
        after.append(mean_auc(records, chosen, name, "test"))
        lowest.append(min(seed_values(records, chosen, name, "test")))
        ways = (group.before, chosen)
        predicted = [mean_prediction(records, way, name, "test") for way in ways]
        metric = next(record["metric"] for record in records if record["data"] == name)
        cells = [
            name,
            _with_deviation(records, group.before, name),
            str(chosen),
            _with_deviation(records, chosen, name),
            _percent(lowest[-1]),
            f"{_percent(predicted[0])}, {_percent(predicted[1])} ({metric})",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines.append(
        f"| **mean** | **{_mean(before)}** | | **{_mean(after)}** | **{_percent(min(lowest))}** | |"
    )
    return lines


def _candidate_table(records: Sequence[Record], group: Group, data: Sequence[str]) -> list[str]:
    lines = [
        f"| candidate | mean | {' | '.join(data)} |",
        f"| --- | --- |{' --- |' * len(data)}",
    ]

    def row(candidate: Candidate) -> tuple[float, str]:
        found = [mean_auc(records, candidate, name, "test") for name in data]
        known = [value for value in found if value is not None]
        cells = " | ".join(_with_deviation(records, candidate, name) for name in data)
        mean = _mean(found) if len(known) == len(data) else "–"
        order = float(np.mean(known)) if len(known) == len(data) else -1.0
        return order, f"| {candidate} | {mean} | {cells} |"

    shown = [
        candidate
        for candidate in group.candidates
        if any(mean_auc(records, candidate, name, "test") is not None for name in data)
    ]
    return lines + [text for _, text in sorted(map(row, shown), key=lambda item: -item[0])]


def _with_deviation(records: Sequence[Record], candidate: Candidate, data: str) -> str:
    values = seed_values(records, candidate, data, "test")
    if len(values) < 2:
        return _percent(values[0] if values else None)
    return f"{_percent(float(np.mean(values)))} ± {_percent(float(np.std(values, ddof=1)))}"


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return _percent(float(np.mean(known)) if known else None)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"
