"""The explanations of a run, audited; what is kept of it in the run directory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gsat.audit.audit import Audit, Measures, audit_model, chosen_graphs
from gsat.audit.settings import AuditSettings
from gsat.audit.stability import (
    Scores,
    common_unit,
    rank_correlation,
    score_graphs,
    stability,
)
from gsat.audit.verdict import Verdict
from gsat.audit.words import GROUPS, fill
from gsat.core import writing
from gsat.core.errors import GSATError, RunError
from gsat.core.files import is_regular, read_json
from gsat.core.settings import validated
from gsat.draw.audit_page import audit_page
from gsat.draw.files import check_suffix, write
from gsat.graphs import GraphStore
from gsat.models import InterpretableModel
from gsat.models.wrapping.settings import WrappedSettings
from gsat.training.recipe import Recipe, from_tables
from gsat.training.run_schemas import AuditFile
from gsat.training.shuffled import shuffle_labels
from gsat.training.train import make_method, train

if TYPE_CHECKING:
    from gsat.training.run import Data, Run

AUDIT: Final = "audit.json"
REPORTS: Final = (".html", ".json")
LAST_EPOCHS: Final = 10  # over which steadiness is averaged
SHORT: Final = 20  # epochs of the training on shuffled labels, at most


@dataclass(frozen=True)
class AuditReport:
    """An audit of a run, which writes itself to files.

    Attributes:
        audit: What was measured.
        title: What was audited.
        about: Lines on the model and the graphs.
    """

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
        """Write the audit to a file."""
        if check_suffix(path, REPORTS) == ".html":
            page = audit_page(self.audit, _groups(self.audit), title=self.title, about=self.about)
            return write(path, page.encode())
        text = json.dumps(self.as_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        return write(path, f"{text}\n".encode())


def audit_run(
    run: Run,
    data: Data | None = None,
    *,
    split: str = "test",
    others: Sequence[str | Path | Run] = (),
    sanity: bool = False,
    top: float | None = None,
    above: float | None = None,
    progress: bool = False,
    **settings: Any,
) -> AuditReport:
    """Audit the explanations of a run; see :meth:`Auditing.audit`."""
    chosen = validated(AuditSettings, settings, owner="the audit")
    store = run.graphs(data, split)
    audit = audit_model(run.model, store, top=top, above=above, settings=chosen, progress=progress)
    graphs = chosen_graphs(store, chosen, audit.unit)
    more: Measures = {"steady": steadiness(run.log)}
    if others:
        models = [run.model, *(_model(other) for other in others)]
        unit = common_unit(models)
        more |= stability([score_graphs(model, graphs, unit) for model in models])
    if sanity:
        own = score_graphs(run.model, graphs)
        more |= _sanity(run, own, graphs, progress)
    audit = audit.adding(more)
    report = AuditReport(audit, _title(run, data, split), _about(run, audit, len(others)))
    if data is None and split in ("valid", "test") and run.path is not None and run.finished:
        _keep(
            run.path, {**report.as_dict(), "split": split, "best_epoch": run.result["best_epoch"]}
        )
    return report


def report_lines(report: AuditReport, *, whole: bool = True) -> list[str]:
    """Write an audit as text."""
    verdict = report.verdict
    lines = [verdict.line, *(f"against: {finding}" for finding in verdict.against)]
    if verdict.remedy is not None:
        lines.append(f"may help: train with the setting {verdict.remedy}")
    lines += report.about
    for group in _groups(report.audit) if whole else ():
        lines += ["", group["title"], group["about"]]
        for row in group["rows"]:
            mark = "*" if row["used"] else " "
            lines.append(f"{mark} {row['title']:<26} {row['value']:>7}  {row['meaning']}")
    return [*lines, "", "* the verdict rests on these"] if whole else lines


def steadiness(log: Sequence[dict[str, Any]]) -> float | None:
    """How steady an explanation was in the last epochs of a training."""
    known = [
        line["settledness"] for line in log[-LAST_EPOCHS:] if line.get("settledness") is not None
    ]
    return float(np.mean(known)) if known else None


def read_audit(path: Path, best_epoch: int) -> dict[str, Any] | None:
    """Read the audit that is kept in a run directory."""
    if not is_regular(path / AUDIT):
        return None
    values = read_json(path / AUDIT, AuditFile, error=RunError)
    return values if values["best_epoch"] == best_epoch else None


class Auditing:
    """What a run can say about its own explanations."""

    def audit(self: Run, data: Data | None = None, **options: Any) -> AuditReport:  # type: ignore[misc]
        """Audit the explanations: are they sufficient, necessary, robust, consistent?

        Measured without ground truth, on held-out graphs. An audit of the run's own validation or
        test graphs is kept in the run directory; explanations carry its verdict from then on.
        """
        return audit_run(self, data, **options)

    @property
    def last_audit(self: Run) -> dict[str, Any] | None:  # type: ignore[misc]
        """What ``audit.json`` of the run directory holds; None without one."""
        if self.path is None or not self.finished:
            return None
        return read_audit(self.path, self.result["best_epoch"])


def _groups(audit: Audit) -> list[dict[str, Any]]:
    """The measures of an audit in words; those that were not measured are left out."""

    def filled(text: str) -> str:
        return fill(text, audit.settings, audit.metric, audit.unit)

    groups = []
    for group in GROUPS:
        rows = [
            {
                "title": filled(row.title),
                "value": f"{value:.3f}".replace("-", "−"),
                "meaning": filled(row.text),
                "used": row.used,
            }
            for row in group.measures
            if (value := audit.measures.get(row.name)) is not None
        ]
        if rows:
            groups.append({"title": group.title, "about": filled(group.about), "rows": rows})
    return groups


def _model(other: str | Path | Run) -> InterpretableModel:
    """The model of another run, which has to explain."""
    from gsat.training.train import load

    model: InterpretableModel = load(other) if isinstance(other, str | Path) else other.model
    if not model.explains:
        raise GSATError(f"the method of {other} gives no explanations to compare with")
    return model


def _sanity(run: Run, own: Scores, graphs: GraphStore, progress: bool) -> Measures:
    """Compare with an untrained model, and with one trained on shuffled labels."""
    recipe = run.recipe
    if isinstance(recipe.backbone, WrappedSettings):
        raise GSATError(
            "a network of your own can't be trained again here: leave out the sanity check"
        )
    data = run.dataset
    untrained = make_method(recipe, data).model
    shuffled = train(_short(recipe), data=shuffle_labels(data, recipe.seed), progress=progress)
    return {
        "untrained_correlation": rank_correlation(own, score_graphs(untrained, graphs)),
        "shuffled_correlation": rank_correlation(own, score_graphs(shuffled.model, graphs)),
    }


def _short(recipe: Recipe) -> Recipe:
    """The same recipe with fewer epochs."""
    tables = recipe.tables()
    tables["training"]["epochs"] = min(tables["training"]["epochs"], SHORT)
    return from_tables(tables)


def _keep(path: Path, values: dict[str, Any]) -> None:
    """Write ``audit.json``; a run directory that can't be written to is left as it is."""
    try:
        writing.write_json(path / AUDIT, values)
    except OSError:
        return


def _title(run: Run, data: Data | None, split: str) -> str:
    what = run.recipe.data.label
    if isinstance(data, str | Path):
        what = Path(str(data)).name
    return f"Audit of {run.recipe.method} on {what}" + (f", {split} set" if data is None else "")


def _about(run: Run, audit: Audit, others: int) -> tuple[str, ...]:
    some = f"{audit.graphs}" if audit.graphs == audit.available else (
        f"{audit.graphs} of {audit.available}"
    )  # fmt: skip
    lines = [
        f"Model: {run.recipe.method} with {run.recipe.backbone.name}, trained on "
        f"{run.recipe.data.label}, seed {run.recipe.seed}",
        f"Graphs: {some} · explanation: {audit.explanation}",
    ]
    if others:
        lines.append(f"Compared with {others} other run{'s' if others != 1 else ''}")
    return tuple(lines)
