"""Settings chosen by the audit of their explanations, among those that predict equally well.

Many settings reach the same accuracy with explanations of very different quality. The audit tells
them apart on validation graphs, without true explanations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gsat.datasets.load import Dataset
from gsat.launch.progress import Progress
from gsat.study.grids import Point
from gsat.training.run import open_run
from gsat.training.run_audit import outcome_of, read_audit
from gsat.training.selection import noise

SPLIT = "valid"


def as_accurate(points: Sequence[Point], best: Point, metric: str, data: Dataset) -> list[Point]:
    """List the points that predict as well as the best one, within a standard error.

    The error is that of the validation metric, where it is a share of graphs, or that of the best
    point's mean over seeds, whichever is larger.
    """
    assert best.mean is not None
    task = data.task
    error = noise(task, best.mean, data.valid.count(task.level)) if metric == task.metric else 0.0
    error = max(error, (best.std or 0.0) / math.sqrt(len(best.values)))
    least = best.merit(metric) - error  # type: ignore[operator]
    return [p for p in points if (merit := p.merit(metric)) is not None and merit >= least]


def audit_points(
    points: Sequence[Point], runs: Sequence[Sequence[Path]], progress: Progress
) -> list[Point]:
    """Audit the runs of each point on validation graphs; stored audits are read."""
    audited = []
    with progress.start(sum(map(len, runs))):
        for point, folders in zip(points, runs, strict=True):
            outcomes, gaps = [], []
            for folder in folders:
                outcome, gap = _audit(folder)
                outcomes.append(outcome)
                gaps.append(gap)
                progress.advance()
            passed = outcomes.count("passed") / len(outcomes)
            audited.append(
                replace(point, outcomes=outcomes, passed=passed, gap=sum(gaps) / len(gaps))
            )
    return audited


def most_faithful(points: Sequence[Point], metric: str) -> Point:
    """Choose the point that passed for most seeds; ties go to mixed outcomes, then to the gap."""

    def rank(point: Point) -> tuple[float, ...]:
        mixed = (point.outcomes or []).count("mixed")
        return point.passed or 0.0, mixed, point.gap or 0.0, point.merit(metric) or 0.0

    return max(points, key=rank)


def _audit(folder: Path) -> tuple[str, float]:
    """Return the outcome of a run's audit, and the gap that measures necessity."""
    run = open_run(folder)
    audit = read_audit(folder, run.result["best_epoch"])
    if audit is None or audit["split"] != SPLIT:
        run.audit(split=SPLIT)
        audit = read_audit(folder, run.result["best_epoch"])
        assert audit is not None
    gaps = [audit["measures"].get(f"{how}_gap") for how in ("redrawn", "levelled")]
    return outcome_of(audit), max((gap for gap in gaps if gap is not None), default=0.0)
