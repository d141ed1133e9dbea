"""A schedule: steps in their order, each run once, and when tables would be complete."""

from __future__ import annotations

from pathlib import Path

import pytest
from paper.__main__ import run
from paper.schedule import Step, completion, plan_steps, read_schedule

from gsat.core.errors import GSATError
from gsat.study import plan as plan_module
from gsat.study.plan import PlannedRun, RunPlan
from gsat.study.records import BenchFolders
from gsat.study.study import find_study, study_names

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def every_data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """No raw file is needed to make a plan."""
    monkeypatch.setattr(plan_module, "check_here", lambda name, **options: None)


@pytest.fixture
def folders(tmp_path: Path) -> BenchFolders:
    return BenchFolders(tmp_path / "runs", tmp_path / "results" / "runs.jsonl")


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "schedule.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_steps_keep_their_order_and_no_run_is_planned_twice(
    folders: BenchFolders, tmp_path: Path
) -> None:
    file = write(
        tmp_path,
        """
        [[step]]
        studies = ["table1"]
        only = "dataset=mutag,method=gsat"
        [[step]]
        studies = ["table1", "table2"]
        only = "dataset=ba2motifs,dataset=mutag,method=gsat"
        seeds = 2
        """,
    )
    plan, (first, second) = plan_steps(read_schedule(file), folders, load=False)
    assert {run.recipe.data.name for run in first.to_run} == {"mutag"}
    assert {run.recipe.seed for run in first.to_run} == {0}
    assert plan.to_run == [*first.to_run, *second.to_run]
    names = [run.name for run in plan.to_run]
    assert len(set(names)) == len(names)
    # Slower runs come first where the schedule says so.
    assert plan.to_run[0].seconds > min(run.seconds for run in second.to_run)
    backbones = {run.recipe.backbone.name for run in plan.to_run}
    assert len(plan.to_run) == 2 * 2 * len(backbones)


def test_a_cell_is_complete_with_its_first_seed(folders: BenchFolders) -> None:
    steps = [Step(studies=["table1"], only="dataset=ba2motifs,backbone=gin", seeds=2)]
    plan, _ = plan_steps(steps, folders, load=False)
    timed = RunPlan([PlannedRun(r.experiment, r.recipe, 10.0, r.name) for r in plan.to_run])
    found, total, last = completion(timed, set(), jobs=1)["table1"]
    experiments = {run.experiment.hash for run in plan.to_run}
    assert (found, total) == (
        len(experiments),
        len({e.hash for e in find_study("table1").experiments}),
    )
    assert 10.0 * len(experiments) <= last < 10.0 * len(plan.to_run)
    assert completion(timed, experiments, jobs=1)["table1"] == (found, total, 0.0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "'step': field required"),
        ("step = 3", "'step'"),
        ("[[step]]\nseeds = 1", "'step.0.studies': field required"),
        ('[[step]]\nstudies = ["table1"]\nseeds = 0', "'step.0.seeds'"),
        ('[[step]]\nstudies = ["table1"]\nonce = true', "'step.0.once'"),
        ('[[step]]\nstudies = ["table99"]', "step 1 of"),
        ('[[step]]\nstudies = ["table1"]\nonly = "dataset=nowhere"', "no dataset 'nowhere'"),
        ("[[step", "is not a TOML file"),
    ],
)
def test_a_wrong_schedule_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(GSATError) as refused:
        read_schedule(write(tmp_path, text))
    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_projects_own_schedule_covers_every_table() -> None:
    steps = read_schedule(ROOT / "results/schedule.toml")
    named = {name for step in steps for name in step.studies}
    assert {name for name in study_names() if name.startswith("table")} <= named | {"table6"}


def test_the_dry_run_prints_when_tables_are_complete(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path, '[[step]]\nstudies = ["table1"]\nonly = "dataset=ba2motifs"')
    with pytest.raises(SystemExit):
        run(["schedule", str(file), "--dry-run", "--record", f"{tmp_path}/r.jsonl"])
    first = capsys.readouterr().out.splitlines()[0]
    assert "table1 (dataset=ba2motifs)" in first
    assert "done after" in first
