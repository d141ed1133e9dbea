"""Evidence for and against the explanations of a run: its weaknesses, and its audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gsat.core.errors import GSATError
from gsat.explain.trust import model_notes
from gsat.training.run_verdict import is_faithful

if TYPE_CHECKING:
    from gsat.training.run import Run


def weaknesses(run: Run) -> list[str]:
    """Say where the model of a run is weak on its validation data."""
    if not run.finished:
        return ["the training of this model has not ended"]
    return model_notes(run.valid, majority(run))


def majority(run: Run) -> float | None:
    """The share of the most frequent class in the validation data, where accuracy is measured."""
    if run.model.task.metric != "accuracy":
        return None
    try:
        labels = run.dataset.valid.labels(run.model.task.level)
    except (GSATError, OSError):
        return None
    known = labels[~np.isnan(labels.astype(np.float64))]
    _, counts = np.unique(known, return_counts=True)
    return float(counts.max() / counts.sum()) if len(counts) else None


def doubts(run: Run) -> list[str]:
    """List the evidence against the explanations of a run: weaknesses, then a bad audit."""
    audit = _audit(run)
    bad = isinstance(audit, str) or (audit is not None and not is_faithful(audit))
    return [*weaknesses(run), *([audit_line(run)] if bad else [])]


def support(run: Run) -> str:
    """The verdict of an audit that the explanations of a run passed; empty without one."""
    audit = _audit(run)
    return audit_line(run) if isinstance(audit, dict) and is_faithful(audit) else ""


def audit_line(run: Run) -> str:
    """The verdict of the last audit of a run, with the evidence against it; empty without one."""
    audit = _audit(run)
    if audit is None:
        return ""
    if isinstance(audit, str):
        return audit
    against = "; ".join(audit.get("against", []))
    line = f"audit: {audit['verdict']}"
    return f"{line} (evidence against: {against})" if against and is_faithful(audit) else line


def _audit(run: Run) -> dict[str, Any] | str | None:
    """The last audit; None without one, and the reason where it can't be read."""
    try:
        return run.last_audit
    except GSATError as error:
        return str(error)
