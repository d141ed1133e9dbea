"""Settings chosen by the audit of their explanations, among those that predict equally well.

Accuracy does not tell explanations apart: many settings reach the same accuracy with explanations
of very different quality. The audit does, and needs no true explanations, only validation graphs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gsat.datasets.load import Dataset
from gsat.launch.progress import Progress
from gsat.metric_names import LOWER_IS_BETTER
from gsat.training.run import open_run
from gsat.training.run_audit import outcome_of, read_audit
from gsat.training.selection import noise

if TYPE_CHECKING:
    from gsat.study.tune import Point

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
    sign = -1.0 if metric in LOWER_IS_BETTER else 1.0
    return [p for p in points if p.mean is not None and sign * (p.mean - best.mean) >= -error]


def audit_points(
    points: Sequence[Point], runs: Callable[[Point], Sequence[Path]], progress: Progress
) -> list[Point]:
    """Audit the runs of points on validation graphs; what was audited before is read again."""
    folders = [runs(point) for point in points]
    progress.start(sum(map(len, folders)), 0)
    audited = []
    try:
        for point, own in zip(points, folders, strict=True):
            found = []
            for folder in own:
                found.append(_audited(folder))
                progress.advance()
            outcomes, gaps = [outcome for outcome, _ in found], [gap for _, gap in found]
            passed = outcomes.count("passed") / len(outcomes)
            mean = sum(gaps) / len(gaps)
            audited.append(replace(point, outcomes=outcomes, passed=passed, gap=mean))
    finally:
        progress.stop()
    return audited


def most_faithful(points: Sequence[Point], metric: str) -> Point:
    """Choose the point that passed for most seeds; of equals, mixed ones, then the widest gap."""
    sign = -1.0 if metric in LOWER_IS_BETTER else 1.0

    def rank(point: Point) -> tuple[float, ...]:
        mixed = (point.outcomes or []).count("mixed")
        return point.passed or 0.0, mixed, point.gap or 0.0, sign * (point.mean or 0.0)

    return max(points, key=rank)


def _audited(folder: Path) -> tuple[str, float]:
    """The outcome of the audit of a run, and by how much its explanations are necessary."""
    run = open_run(folder)
    known = read_audit(folder, run.result["best_epoch"])
    if known is None or known["split"] != SPLIT:
        run.audit(split=SPLIT)
        known = read_audit(folder, run.result["best_epoch"])
        assert known is not None
    gaps = [known["measures"].get(f"{how}_gap") for how in ("redrawn", "levelled")]
    return outcome_of(known), max((gap for gap in gaps if gap is not None), default=0.0)
