"""The section of docs/audit.md that is written from ``results/audit.jsonl``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gsat.audit.report import groups
from gsat.audit.verdict import OUTCOMES
from gsat.metric_names import METRIC_TITLES
from paper.audit_models import CHECKED_FROM
from paper.audit_study import (
    GOOD,
    correlation,
    correlation_within,
    is_good,
    outcome,
    passed,
    rates,
    separation,
)
from paper.pages import NOTHING_RECORDED

Record = dict[str, Any]
WEAK_CORRELATION = 0.3  # within data sets; weaker measures are listed


def audit_study_page(records: Sequence[Record]) -> str:
    """Compare the measures and the verdict with the truth."""
    if not records:
        return NOTHING_RECORDED
    parts = [
        [_counts(records)],
        _rate_table(records),
        [_missed(records)],
        [_cost(records)],
        ["### Measure by measure"],
        _measure_table(records),
        [_little(records)],
        ["### Model by model"],
        _model_table(records),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


def _counts(records: Sequence[Record]) -> str:
    bad, good = sum(bool(r["degenerate"]) for r in records), sum(map(is_good, records))
    sets = len({r["data"] for r in records})
    return (
        f"{len(records)} models on {sets} data sets with known truth: {bad} degenerate by "
        f"construction, {good} others with an explanation AUC of at least {GOOD}, and "
        f"{len(records) - bad - good} in between, for which no verdict is right or wrong."
    )


def _rate_table(records: Sequence[Record]) -> list[str]:
    halves = {
        "used to choose the limits": [r for r in records if r["seed"] < CHECKED_FROM],
        "trained afterwards as a test": [r for r in records if r["seed"] >= CHECKED_FROM],
        "all": list(records),
    }
    out = [
        f"| models | degenerate, not passed | AUC ≥ {GOOD}, passed | in between, passed |",
        "| --- | --- | --- | --- |",
    ]
    for name, some in halves.items():
        found = rates(some)
        between = [r for r in some if not r["degenerate"] and not is_good(r)]
        cells = [_share(*found["rejected"]), _share(*found["accepted"])]
        cells.append(_share(sum(map(passed, between)), len(between)))
        out.append(f"| {name} | {' | '.join(cells)} |")
    return out


def _missed(records: Sequence[Record]) -> str:
    """Name the models that the verdict gets wrong."""
    wrong = [r for r in records if (r["degenerate"] and passed(r))]
    lost = [r for r in records if is_good(r) and not passed(r)]
    parts = []
    for what, some in (("Degenerate and passed", wrong), ("Not passed with a good AUC", lost)):
        named = ", ".join(f"{_name(r)} (AUC {r['explanation_auc']:.2f})" for r in some)
        parts.append(f"{what}: {named or 'none'}.")
    return " ".join(parts)


def _cost(records: Sequence[Record]) -> str:
    spent = [r["evaluations"] for r in records]
    return (
        f"An audit costs as much as {np.median(spent):.0f} evaluations of the same graphs (median; "
        f"at most {max(spent):.0f})."
    )


def _measure_table(records: Sequence[Record]) -> list[str]:
    rows = []
    for group in groups():
        for measure in group.measures:
            told = separation(records, measure.name)
            values = (
                correlation(records, measure.name),
                correlation_within(records, measure.name),
                told,
            )
            if all(value is None for value in values):
                continue
            title = measure.title.format(metric="metric")
            shown = f"**{title}**" if measure.used else title
            cells = " | ".join(_number(value) for value in values)
            rows.append((abs((told or 0.5) - 0.5), f"| {group.title} | {shown} | {cells} |"))
    head = [
        "| question | measure | ρ across data sets | ρ within | good or degenerate (ROC AUC) |",
        "| --- | --- | --- | --- | --- |",
    ]
    return head + [row for _, row in sorted(rows, key=lambda item: -item[0])]


def _little(records: Sequence[Record]) -> str:
    """Name the measures that hardly correlate with the truth."""
    weak = []
    for group in groups():
        for measure in group.measures:
            value = correlation_within(records, measure.name)
            if value is not None and abs(value) < WEAK_CORRELATION:
                weak.append(measure.title.format(metric="metric"))
    named = ", ".join(weak) or "none"
    return (
        f"Within data sets, the absolute correlation with explanation AUC is below "
        f"{WEAK_CORRELATION} for: {named}."
    )


def _model_table(records: Sequence[Record]) -> list[str]:
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record["data"], record["setting"], record["backbone"]), []).append(
            record
        )
    out = [
        "| data | model | models | prediction | explanation AUC | rest resampled, gap "
        "| rest averaged, gap | passed, mixed, failed |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (data, setting, backbone), some in sorted(groups.items()):
        title = METRIC_TITLES[some[0]["metric"]]
        network = "" if backbone == "gin" else f", {backbone.upper()}"
        mark = " †" if some[0]["degenerate"] else ""
        cells = [
            f"{title} {_range([r['measures']['metric'] for r in some])}",
            _range([r["explanation_auc"] for r in some]),
            *(
                ", ".join(
                    _range([r["measures"].get(name) for r in some])
                    for name in (f"rest_{how}", f"{how}_gap")
                )
                for how in ("redrawn", "levelled")
            ),
            ", ".join(str(sum(outcome(r) == name for r in some)) for name in OUTCOMES),
        ]
        out.append(f"| {data} | {setting}{network}{mark} | {len(some)} | {' | '.join(cells)} |")
    return [*out, "", "† degenerate by construction."]


def _name(record: Record) -> str:
    return f"{record['data']} {record['setting']} seed {record['seed']}"


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.0%})" if whole else "–"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}".replace("-", "−")


def _range(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    low, high = _number(min(known)), _number(max(known))
    return low if low == high else f"{low} … {high}"
