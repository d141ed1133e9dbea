"""A plan holds the runs that are not recorded, the cheapest first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gsat.core.errors import GSATError
from gsat.study import plan as module
from gsat.study.cost import CostEstimates
from gsat.study.plan import RunRequest, make_plan, request_runs, select_experiments
from gsat.study.records import BenchFolders
from gsat.study.run import run_plan
from gsat.study.study import Experiment, find_study
from gsat.training.results import read_records, record_once
from study_harness import GSAT


def test_the_cheapest_runs_come_first(
    folders: BenchFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Costs come from recipes; no raw file is needed to estimate them."""
    monkeypatch.setattr(module, "check_here", lambda name, **options: None)
    plan = make_plan(
        request_runs([find_study("table1"), find_study("table3")], 2), folders, load=False
    )
    of_paper = [run for run in plan.to_run if run.recipe.method not in ("random", "degree")]
    assert len(of_paper) == 2 * (54 + 15)
    whole = [CostEstimates([]).seconds(run.recipe) for run in plan.to_run]
    assert whole == sorted(whole)
    assert plan.to_run[0].experiment.dataset == "ba2motifs"
    seconds = [run.seconds for run in plan.to_run]
    assert plan.seconds() == pytest.approx(sum(seconds))
    assert plan.seconds(jobs=1000) == pytest.approx(max(seconds))


def test_a_backbone_that_runs_share_is_pretrained_and_counted_once(folders: BenchFolders) -> None:
    requests = [
        RunRequest(Experiment("spmotif-0.5", method), 1) for method in ("gsat", "graphmask")
    ]
    star = [RunRequest(Experiment("spmotif-0.5", "gsat-star"), 1)]
    costs = CostEstimates([])
    erm = costs.seconds(Experiment("spmotif-0.5", "erm").recipe(0))
    plan = make_plan([*requests, *star], folders, load=False)
    spent = {run.recipe.method: run.seconds for run in plan.to_run}
    whole = {run.recipe.method: costs.seconds(run.recipe) for run in plan.to_run}
    assert spent == whole | {"gsat-star": pytest.approx(whole["gsat-star"] - erm)}
    # A step of a schedule finds what the steps before it have pre-trained.
    pretrained: set[str] = set()
    make_plan(requests, folders, load=False, pretrained=pretrained)
    (later,) = make_plan(star, folders, load=False, pretrained=pretrained).to_run
    assert later.seconds == spent["gsat-star"]


@pytest.mark.usefixtures("trained")
def test_runs_on_other_graphs_or_of_another_version_do_not_count(
    folders: BenchFolders, tmp_path: Path
) -> None:
    run_plan(make_plan([RunRequest(GSAT, 1)], folders), folders)
    (line,) = read_records(folders.record)

    def recorded(load: bool = True, **other: Any) -> int:
        name = f"{len(list(tmp_path.iterdir()))}"
        there = BenchFolders(folders.runs, tmp_path / name / "runs.jsonl")
        record_once(there.record, line | other)
        return len(make_plan([RunRequest(GSAT, 1)], there, load=load).recorded)

    assert recorded() == 1
    assert recorded(data_hash="0" * 16) == recorded(results_version=1) == 0
    assert recorded(processes=2) == 0
    # If the data is not loaded, it is assumed to be the same.
    assert recorded(load=False, data_hash="0" * 16) == 1


def test_unavailable_data_is_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folders: BenchFolders
) -> None:
    monkeypatch.setenv("GSAT_DATA", str(tmp_path))
    monkeypatch.setenv("GSAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GSAT_OFFLINE", "1")
    mutag = [RunRequest(Experiment("mutag", method), 2) for method in ("gsat", "erm")]
    plan = make_plan([*mutag, RunRequest(GSAT, 2)], folders)
    assert {run.experiment for run in plan.to_run} == {GSAT}
    assert list(plan.unavailable) == ["mutag"]
    assert "Mutagenicity.zip" in plan.unavailable["mutag"]
    unloaded = make_plan([*mutag, RunRequest(GSAT, 2)], folders, load=False)
    assert unloaded.unavailable == plan.unavailable
    assert len(unloaded.to_run) == 2
    assert not (tmp_path / "cache" / "datasets" / "mutag").exists()


def test_planning_downloads_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folders: BenchFolders
) -> None:
    from gsat.datasets.fetch import download

    def fetch(files: Any) -> None:
        raise AssertionError("planning must not download")

    monkeypatch.setattr(download, "fetch", fetch)
    monkeypatch.delenv("GSAT_DATA", raising=False)
    monkeypatch.delenv("GSAT_OFFLINE", raising=False)
    monkeypatch.setenv("GSAT_CACHE", str(tmp_path / "cache"))
    plan = make_plan(request_runs([find_study("table3")], 1), folders, load=False)
    assert len(plan.to_run) == 15
    assert plan.unavailable == {}


def test_a_filter_selects_by_data_set_method_and_backbone() -> None:
    experiments = find_study("table1").experiments
    chosen = select_experiments(experiments, "dataset=mutag, dataset=ba2motifs,backbone=pna")
    assert {(e.dataset, e.backbone) for e in chosen} == {("mutag", "pna"), ("ba2motifs", "pna")}
    assert select_experiments(experiments, "") == list(experiments)
    for wrong, message in (
        ("data=mutag", "with the keys dataset, method, backbone, variant, not 'data=mutag'"),
        ("mutag", "not 'mutag'"),
        ("dataset=mutag,method=irm", "there is no method 'irm' in this study: available: "),
        ("method=dir,backbone=pna", "no run of this study fits all of 'method=dir,backbone=pna'"),
    ):
        with pytest.raises(GSATError, match=message):
            select_experiments(experiments, wrong)


def test_a_filter_selects_by_variant() -> None:
    beyond = find_study("beyond").experiments
    (chosen,) = select_experiments(beyond, "variant=both-ways,dataset=spmotif-0.5,method=gsat")
    assert dict(chosen.settings)["data.undirected"] is True
    assert "members" not in dict(chosen.settings)
    plain = select_experiments(find_study("table5").experiments, "variant=plain,method=gsat")
    assert [e.settings for e in plain] == [()] * 3
    sweep = {e.variant for e in find_study("fig-regulariser").experiments}
    assert len(sweep) == 9 + 6
    assert "r_final=0.7" in sweep


def test_studies_share_runs_and_examples_need_one_seed() -> None:
    wants = request_runs([find_study("table5"), find_study("fig-regulariser")], 3)
    assert len(wants) == 15 + 45 - 3  # r = 0.7 is GSAT itself
    assert {(w.seeds, w.curves, w.model) for w in wants} == {(3, False, False)}
    examples = request_runs([find_study("fig-examples")], 3, "dataset=houses")
    assert [(w.experiment.method, w.seeds, w.model) for w in examples] == [
        ("gsat", 1, True), ("graphmask", 1, True)
    ]  # fmt: skip
    both = request_runs(
        [find_study("table1"), find_study("fig-posthoc"), find_study("fig-examples")], 3
    )
    (mutag,) = [w for w in both if w.experiment == Experiment("mutag", "gsat")]
    assert (mutag.seeds, mutag.curves, mutag.model) == (3, True, True)
