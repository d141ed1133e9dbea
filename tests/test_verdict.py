"""The short audit at the end of a training: its size, and what it says."""

from __future__ import annotations

from typing import Any

import pytest

import gsat
from gsat.cli.output import short_audit
from gsat.core.errors import GSATError
from gsat.datasets import registry
from gsat.training import run_audit as module
from gsat.training.run_audit import affordable, outcome_of

SMALL = {"graphs": 240, "epochs": 1, "hidden": 8, "layers": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> gsat.Run:
    recipe = gsat.make_recipe("ba2motifs", settings=SMALL)  # 24 validation graphs
    return gsat.train(recipe, tmp_path_factory.mktemp("verdict") / "run")


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """An evaluation takes 0.1 s and 0.01 s for each graph; the numbers of timed graphs."""
    asked: list[int] = []

    def seconds(model: Any, graphs: gsat.GraphStore) -> float:
        asked.append(len(graphs))
        return 0.1 + 0.01 * len(graphs)

    monkeypatch.setattr(module, "_seconds", seconds)
    return asked


@pytest.mark.parametrize(
    ("seconds", "count"), [(0.29, 0), (0.301, 20), (0.301 + 0.5, 70), (1.11, 100), (9.0, 100)]
)
@pytest.mark.usefixtures("timed")
def test_as_many_graphs_are_audited_as_there_is_time_for(
    seconds: float, count: int, run: gsat.Run
) -> None:
    graphs = run.graphs("train").select(range(100))
    assert affordable(run.model, graphs, seconds) == count
    assert affordable(run.model, graphs.select(range(20)), seconds) == min(count, 20)


@pytest.mark.usefixtures("timed")
def test_a_short_audit_is_kept_if_time_and_graphs_suffice(run: gsat.Run) -> None:
    time = run.result["seconds"]
    assert run.short_audit(share=0.29 * module.PASSES / time) is None
    assert run.last_audit is None
    report = run.short_audit(share=0.335 * module.PASSES / time)
    assert report is not None
    assert report.audit.graphs == 23
    assert report.verdict.outcome in ("passed", "mixed", "failed")
    assert run.last_audit is not None
    assert (run.last_audit["split"], run.last_audit["graphs"]) == ("valid", 23)
    assert run.explain(graph=0).get("doubt") or run.explain(graph=0).get("support")


def test_few_graphs_are_not_audited() -> None:
    small = gsat.train(gsat.make_recipe("ba2motifs", settings={**SMALL, "graphs": 190}))
    assert small.short_audit(share=1e6) is None  # 19 validation graphs


def test_a_model_that_does_not_explain_has_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = gsat.train(gsat.make_recipe("ba2motifs", method="erm", settings=SMALL))
    monkeypatch.setattr(registry, "is_own_data", lambda name: True)
    assert short_audit(plain, quiet=True) is None
    with pytest.raises(GSATError):
        plain.short_audit(share=1e6)


def test_verdicts_of_older_audits_are_read() -> None:
    assert outcome_of({"faithful": True}) == "passed"
    assert outcome_of({"believe": True}) == "passed"
    assert outcome_of({"believe": False}) == "failed"
    assert outcome_of({"believe": False, "outcome": "mixed"}) == "mixed"
