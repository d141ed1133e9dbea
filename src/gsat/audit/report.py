"""The report of an audit: the verdict and every measure with its meaning."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final, NamedTuple

from gsat.audit.audit import Audit
from gsat.audit.measures import Measures
from gsat.audit.verdict import Verdict
from gsat.core.writing import check_suffix, write_output
from gsat.metric_names import METRIC_TITLES

FILES: Final = (".html", ".json")


class Meaning(NamedTuple):
    """A measure in words, with settings in braces."""

    name: str  # its key
    title: str
    text: str
    used: bool  # by the verdict


class Group(NamedTuple):
    """Measures that answer one question."""

    title: str
    about: str
    measures: tuple[Meaning, ...]


@cache
def groups() -> tuple[Group, ...]:
    """List all measures in the order of a report, from ``measures.toml``."""
    text = (resources.files("gsat.audit") / "measures.toml").read_text(encoding="utf-8")
    return tuple(
        Group(
            group["title"],
            group["about"],
            tuple(
                Meaning(name, title, meaning, name in group.get("used", ()))
                for name, (title, meaning) in group["measures"].items()
            ),
        )
        for group in tomllib.loads(text)["group"]
    )


@dataclass(frozen=True)
class AuditReport:
    """An audit with a title and lines on the model and the graphs."""

    audit: Audit
    title: str
    about: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """Whether the explanations are faithful, with the evidence."""
        return self.audit.verdict

    @property
    def measures(self) -> Measures:
        """Numbers by name, None where undefined."""
        return self.audit.measures

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"title": self.title, "about": list(self.about), **self.audit.as_dict()}

    def save(self, path: str | Path) -> Path:
        """Write the audit as a page (``.html``) or as JSON."""
        if check_suffix(path, FILES) == ".html":
            from gsat.draw.pages import audit_page

            return write_output(path, audit_page(self).encode())
        text = json.dumps(self.as_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        return write_output(path, f"{text}\n".encode())

    def groups(self) -> list[dict[str, Any]]:
        """Describe the measures that are defined, group by group."""
        audit, out = self.audit, []
        names = {**audit.settings.model_dump(), "unit": audit.unit}
        names["metric"] = METRIC_TITLES[audit.metric]
        for group in groups():
            rows = [
                {
                    "title": row.title.format(**names),
                    "value": f"{value:.3f}".replace("-", "−"),
                    "meaning": row.text.format(**names),
                    "used": row.used,
                }
                for row in group.measures
                if (value := audit.measures.get(row.name)) is not None
            ]
            if rows:
                about = group.about.format(**names)
                out.append({"title": group.title, "about": about, "rows": rows})
        return out

    def lines(self, *, whole: bool = True) -> list[str]:
        """Write the audit as text; without ``whole``, leave out the measures."""
        verdict = self.verdict
        lines = [verdict.line, *(f"against: {finding}" for finding in verdict.against)]
        if verdict.remedy is not None:
            lines.append(f"may help: train with the setting {verdict.remedy}")
        lines += self.about
        if not whole:
            return lines
        for group in self.groups():
            lines += ["", group["title"], group["about"]]
            for row in group["rows"]:
                mark = "*" if row["used"] else " "
                lines.append(f"{mark} {row['title']:<26} {row['value']:>7}  {row['meaning']}")
        return [*lines, "", "* the verdict rests on these"]
