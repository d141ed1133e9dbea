"""The last audit of a run: ``audit.json`` in its directory."""

from __future__ import annotations

from typing import Any

from gsat.core.errors import GSATError, RunError
from gsat.core.files import is_regular
from gsat.core.json_files import read_json
from gsat.training.run_audit import AUDIT
from gsat.training.run_schemas import AuditFile
from gsat.training.run_verdict import outcome_of
from gsat.web.library import Entry
from gsat.web.requests import NotFoundError


def read_audit(entry: Entry) -> dict[str, Any]:
    """Read the audit of a run."""
    if not is_regular(entry.path / AUDIT):
        raise NotFoundError(f"the run '{entry.name}' has not been audited")
    return read_json(entry.path / AUDIT, AuditFile, error=RunError)


def shown_audit(entry: Entry) -> dict[str, Any] | None:
    """Return what pages show of an audit; None if there is none, or it can't be read."""
    try:
        values = read_audit(entry)
    except GSATError:
        return None
    outcome = outcome_of(values)
    return {
        "outcome": outcome,
        "verdict": values["verdict"].removeprefix(f"{outcome}: "),
        "reasons": values["reasons"],
        "against": values.get("against") or values["notes"],  # older files have notes
        "remedy": values.get("remedy"),
        "measures": values["measures"],
        "graphs": values["graphs"],
    }
