"""The verdict on explanations at the end of a training: a short audit of validation graphs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gsat.audit.audit import chosen_graphs
from gsat.audit.masks import unit_of
from gsat.audit.settings import AuditSettings
from gsat.core.errors import DataError
from gsat.datasets.registry import is_own_data
from gsat.graphs import GraphStore
from gsat.models import InterpretableModel

if TYPE_CHECKING:
    from gsat.training.run import Run
    from gsat.training.run_audit import AuditReport

SHARE: Final = 0.1  # of the training time that a short audit may take
LEAST: Final = 20  # graphs of an audit: fewer tell too little
PASSES: Final = 20.0  # cost of a quick audit, in evaluations of its graphs (measured: 6 to 26)


@dataclass(frozen=True)
class TrainingVerdict:
    """The verdict that a training ends with.

    Attributes:
        outcome: ``"passed"``, ``"mixed"`` or ``"failed"``.
        line: The verdict in one sentence.
        remedy: A setting that may lead to better explanations, as ``key=value``; None without one.
    """

    outcome: str
    line: str
    remedy: str | None = None

    @classmethod
    def of(cls, audit: Mapping[str, Any]) -> TrainingVerdict:
        """Read the verdict of an audit."""
        return cls(outcome_of(audit), str(audit["verdict"]), audit.get("remedy"))


def verdict_of_training(run: Run, *, progress: bool = False) -> TrainingVerdict | None:
    """Return the verdict on a run of the user's own data, by its last audit or by a short one."""
    name = run.recipe.data.name
    if not (is_own_data(name) or name == "planted") or not run.model.explains:
        return None
    audit = run.last_audit
    if audit is None:
        report = short_audit(run, progress=progress)
        audit = None if report is None else report.as_dict()
    return None if audit is None else TrainingVerdict.of(audit)


def short_audit(run: Run, *, share: float = SHARE, progress: bool = False) -> AuditReport | None:
    """Audit as many validation graphs of a run as a share of its training time allows."""
    quick = AuditSettings.quick()
    try:
        graphs = chosen_graphs(run.graphs("valid"), quick, unit_of(run.model))
    except DataError:  # no validation graphs, or none with two edges
        return None
    if len(graphs) < LEAST:
        return None
    count = affordable(run.model, graphs, share * run.result["seconds"] / PASSES)
    if count < LEAST:
        return None
    settings = quick.model_copy(update={"graphs": count})
    return run.audit(split="valid", progress=progress, **settings.model_dump())


def affordable(model: InterpretableModel, graphs: GraphStore, seconds: float) -> int:
    """Count the graphs that a model can evaluate in a given time.

    The time of an evaluation is measured on 20 graphs and on all of them, and is taken to grow
    evenly between the two.
    """
    few = _seconds(model, graphs.select(range(LEAST)))
    if few > seconds:
        return 0
    if len(graphs) == LEAST:
        return LEAST
    each = max(_seconds(model, graphs) - few, 0.0) / (len(graphs) - LEAST)
    more = (seconds - few) / each if each else float("inf")
    return len(graphs) if more >= len(graphs) - LEAST else LEAST + int(more)


def outcome_of(audit: Mapping[str, Any]) -> str:
    """Return the outcome of a stored audit; older ones hold only whether it passed."""
    return str(audit.get("outcome") or ("passed" if is_faithful(audit) else "failed"))


def is_faithful(audit: Mapping[str, Any]) -> bool:
    """Whether a stored audit passed; older files have the key ``believe``."""
    return bool(audit.get("faithful", audit.get("believe")))


def _seconds(model: InterpretableModel, graphs: GraphStore) -> float:
    """The time that a model needs for graphs, the shorter one of two."""
    taken = []
    for _ in range(2):
        start = time.perf_counter()
        model.score_edges(graphs)
        taken.append(time.perf_counter() - start)
    return min(taken)
