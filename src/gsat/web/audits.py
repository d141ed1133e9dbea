"""The last audit of a run: ``audit.json`` in its directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field

from gsat.core.errors import GSATError, RunError
from gsat.core.files import is_regular, read_json
from gsat.core.parsing import FileModel

FILE: Final = "audit.json"


class AuditFile(FileModel):
    """The part of ``audit.json`` that pages show; older files have no outcome."""

    faithful: bool | None = None
    believe: bool | None = None  # former name
    outcome: Literal["passed", "mixed", "failed"] | None = None
    verdict: str = ""
    reasons: list[str] = Field(default_factory=list)
    against: list[str] = Field(default_factory=list)
    remedy: str | None = None
    notes: list[str] = Field(default_factory=list)
    measures: dict[str, float | None] = Field(default_factory=dict)
    graphs: int | None = None

    @property
    def result(self) -> str:
        """The outcome; older files say only whether it passed."""
        return self.outcome or ("passed" if self.faithful or self.believe else "failed")

    @property
    def evidence_against(self) -> list[str]:
        """Evidence against the explanations; older files have it as notes."""
        return self.against or self.notes


def read_audit(run: Path) -> dict[str, Any] | None:
    """Read the audit of a run."""
    if not is_regular(run / FILE):
        return None
    return read_json(run / FILE, AuditFile, error=RunError)


def audit_summary(run: Path) -> AuditFile | None:
    """Read what the page shows of an audit; None if there is none that can be read."""
    try:
        values = read_audit(run)
    except GSATError:
        return None
    return None if values is None else AuditFile.model_validate(values)
