"""The audit of models with known explanations, and how well its measures agree with the truth."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import Field

from gsat.audit.audit import audit_model, chosen_graphs
from gsat.audit.perturbations import unit_of
from gsat.audit.stability import rank_correlation, score_graphs
from gsat.audit.verdict import Outcome, judge
from gsat.core.errors import DataNotFoundError, MissingExtraError
from gsat.core.files import read_lines
from gsat.core.parsing import FileModel
from gsat.core.writing import append_line
from gsat.launch.progress import Progress
from gsat.metrics import roc_auc, spearman
from gsat.models import InterpretableModel
from gsat.training.evaluation import evaluate
from gsat.training.loop import make_method
from gsat.training.recipe import load_data
from gsat.training.run import load
from gsat.training.run_audit import mean_stability
from gsat.training.run_directory import RunDirectory, environment
from paper.audit_models import SETTINGS, AuditedModel, audited_models, train_audited

GOOD: Final = 0.95  # explanation AUC from which a model should pass
FEWEST: Final = 5  # models of a data set, to correlate within it
TIMED: Final = 3  # evaluations, of which the fastest counts


class AuditRecord(FileModel):
    """A line of ``results/audit.jsonl``."""

    data: str
    setting: str
    backbone: str
    seed: int = Field(ge=0)
    degenerate: str
    explanation_auc: float | None
    metric: str
    graphs: int = Field(ge=1)
    measures: dict[str, float | None]
    believe: bool
    outcome: Outcome | None = None
    verdict: str
    evaluations: float = Field(gt=0)


def run_study(
    folder: Path,
    record: Path,
    *,
    progress: bool = False,
    warn: Callable[[str], None] = lambda _: None,
) -> int:
    """Train, audit and record all models of the study that are not recorded yet."""
    known = {_key(line) for line in read_audits(record)}
    left = [model for model in audited_models() if _identity(model) not in known]
    bar, count, missing = Progress("audits", quiet=not progress), 0, set()
    bar.start(len(left))
    try:
        for model in left:
            if model.data in missing:
                continue
            try:
                line = audit_one(model, folder)
            except (DataNotFoundError, MissingExtraError) as error:
                missing.add(model.data)
                warn(f"{model.data} is left out: {error}")
                continue
            count += append_line(record, line, unless=lambda: False)
            bar.advance(model.name)
    finally:
        bar.stop()
    return count


def audit_one(model: AuditedModel, folder: Path) -> dict[str, Any]:
    """Train and audit one model."""
    chosen, recipe = SETTINGS[model.setting], model.recipe
    data = load_data(recipe)
    path = train_audited(model, folder)
    trained = load(path) if chosen.epochs else make_method(recipe, data).model.eval()
    store = data.test
    measured = evaluate(trained, store)
    graphs = chosen_graphs(store, unit=unit_of(trained))
    once = min(_timed(lambda: evaluate(trained, graphs)) for _ in range(TIMED))
    started = time.process_time()
    audit = audit_model(trained, store)
    seconds = time.process_time() - started
    log = RunDirectory(path).read_log() if chosen.epochs else []
    fresh: InterpretableModel = make_method(recipe, data).model
    same = rank_correlation(score_graphs(trained, graphs), score_graphs(fresh, graphs))
    audit = audit.adding({"steady": mean_stability(log), "untrained_correlation": same})
    where = environment()
    return {
        "data": model.data,
        "setting": model.setting,
        "backbone": model.backbone,
        "seed": model.seed,
        "degenerate": chosen.degenerate,
        "explanation_auc": measured["explanation_auc"],
        "metric": audit.metric,
        "graphs": audit.graphs,
        "measures": {k: None if v is None else round(v, 6) for k, v in audit.measures.items()},
        "believe": audit.verdict.faithful,
        "outcome": audit.verdict.outcome,
        "verdict": audit.verdict.line,
        "evaluations": round(seconds / once, 2),
        "settings": audit.settings.model_dump(mode="json"),
        "recipe": recipe.tables(),
        "versions": where["versions"],
        "cpu": where["cpu"],
    }


def read_audits(path: Path) -> list[dict[str, Any]]:
    """Read the records of the study."""
    return read_lines(path, AuditRecord)


def is_good(record: dict[str, Any]) -> bool:
    """Whether the explanations of a recorded model are right, so that they should pass."""
    auc = record["explanation_auc"]
    return not record["degenerate"] and auc is not None and auc >= GOOD


def outcome(record: dict[str, Any]) -> Outcome:
    """The outcome of today's verdict on recorded measures."""
    return judge(record["measures"], record["metric"]).outcome


def passed(record: dict[str, Any]) -> bool:
    """Whether recorded measures pass today's verdict."""
    return outcome(record) == "passed"


def correlation(records: Sequence[dict[str, Any]], measure: str) -> float | None:
    """The rank correlation of a measure with explanation AUC over models; None where undefined."""
    pairs = [
        (record["measures"][measure], record["explanation_auc"])
        for record in records
        if record["measures"].get(measure) is not None and record["explanation_auc"] is not None
    ]
    return spearman(*zip(*pairs, strict=True)) if len(pairs) >= FEWEST else None


def correlation_within(records: Sequence[dict[str, Any]], measure: str) -> float | None:
    """The mean over data sets of the rank correlation with explanation AUC within each."""
    sets = {record["data"] for record in records}
    found = [correlation([r for r in records if r["data"] == name], measure) for name in sets]
    known = [value for value in found if value is not None]
    return float(np.mean(known)) if known else None


def separation(records: Sequence[dict[str, Any]], measure: str) -> float | None:
    """The ROC AUC of a measure at telling good models from degenerate ones."""
    chosen = [r for r in records if is_good(r) or r["degenerate"]]
    pairs = [(r["measures"].get(measure), is_good(r)) for r in chosen]
    known = [(value, good) for value, good in pairs if value is not None]
    return roc_auc(*zip(*known, strict=True)) if known else None


def rates(records: Iterable[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """Count the verdicts that are right."""
    listed = list(records)
    bad, good = [r for r in listed if r["degenerate"]], [r for r in listed if is_good(r)]
    return {
        "rejected": (sum(not passed(r) for r in bad), len(bad)),
        "accepted": (sum(passed(r) for r in good), len(good)),
    }


def _timed(call: Callable[[], Any]) -> float:
    """CPU seconds, since wall-clock time depends on other programs."""
    started = time.process_time()
    call()
    return time.process_time() - started


def _identity(model: AuditedModel) -> tuple[Any, ...]:
    return model.data, model.setting, model.backbone, model.seed


def _key(line: dict[str, Any]) -> tuple[Any, ...]:
    return line["data"], line["setting"], line["backbone"], line["seed"]
