"""Ensembles as runs: one directory, one split, exact resume."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

import gsat
from gsat.core.errors import GSATError
from gsat.training.many_runs import train_each
from gsat.training.members import copy_members, member_recipes
from training_harness import differing, outcome, small_recipe, stopping

MEMBERS = {"members": 2}


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ensemble") / "run"
    gsat.train(small_recipe(**MEMBERS), path)
    return path


def folders(path: Path) -> list[Path]:
    return sorted((path / "members").iterdir())


def test_members_share_the_split_and_nothing_else() -> None:
    recipes = list(member_recipes(small_recipe(seed=3, members=4)).values())
    assert [recipe.seed for recipe in recipes] == [12, 13, 14, 15]
    assert {recipe.split_seed for recipe in recipes} == {3}
    assert {recipe.members for recipe in recipes} == {None}
    other = small_recipe(seed=1, members=2, split_seed=0)
    assert {r.split_seed for r in member_recipes(other).values()} == {0}


def test_a_member_is_the_run_it_would_be_alone(ensemble: Path, run_path: Path) -> None:
    gsat.train(small_recipe(seed=1, split_seed=0), run_path)
    assert differing(outcome(run_path), outcome(ensemble / "members" / "seed-1")) == []


def test_an_opened_ensemble_is_the_mean_of_its_members(ensemble: Path) -> None:
    run, members = gsat.open_run(ensemble), [gsat.open_run(path) for path in folders(ensemble)]
    table, each = run.predict(), [member.predict() for member in members]
    sure = torch.stack([own.probabilities for own in each])
    torch.testing.assert_close(table.probabilities, sure.mean(dim=0))
    assert table.spread is not None
    torch.testing.assert_close(table.spread, sure.std(dim=0, correction=0))
    masks = torch.stack([member.explain(graph=1).edge_mask for member in members])
    torch.testing.assert_close(run.explain(graph=1).edge_mask, masks.mean(dim=0))
    assert run.evaluate() == pytest.approx(run.test)
    assert run.evaluate(refine=1) != run.evaluate()
    assert [one["test"] for one in run.result["members"]] == [own.test for own in members]


def test_several_runs_are_an_ensemble_too(ensemble: Path, run_path: Path) -> None:
    run = gsat.open_run(folders(ensemble))
    assert run.evaluate() == pytest.approx(gsat.open_run(ensemble).test)
    gsat.train(small_recipe(seed=5), run_path)
    with pytest.raises(GSATError, match="what one was trained on would test another"):
        gsat.open_run([*folders(ensemble), run_path])
    with pytest.raises(GSATError, match="at least one run directory"):
        gsat.open_run([])


def test_a_resumed_ensemble_is_the_uninterrupted_one(ensemble: Path, run_path: Path) -> None:
    with stopping(20), pytest.raises(KeyboardInterrupt):  # in the second member
        gsat.train(small_recipe(**MEMBERS), run_path, checkpoint_seconds=0)
    assert not (run_path / "result.json").exists()
    with pytest.raises(GSATError, match="is not finished; resume it with"):
        gsat.open_run(run_path).evaluate()
    resumed = gsat.resume(run_path)
    for one, other in zip(folders(ensemble), folders(run_path), strict=True):
        # When checkpoints are written differs; what they hold does not.
        assert differing(outcome(one), outcome(other)) == []
    assert resumed.test == gsat.open_run(ensemble).test
    again = gsat.resume(run_path)
    assert again.result == resumed.result


@pytest.mark.usefixtures("in_process")
def test_members_train_in_worker_processes(ensemble: Path, run_path: Path) -> None:
    ended: list[str] = []
    recipe = small_recipe(**MEMBERS)
    run = gsat.train(recipe, run_path, jobs=2, done=lambda name, _: ended.append(name))
    assert sorted(ended) == ["seed-0", "seed-1"]
    assert run.test == gsat.open_run(ensemble).test


def test_an_ensemble_in_memory_is_the_same(ensemble: Path) -> None:
    assert gsat.train(small_recipe(**MEMBERS)).test == gsat.open_run(ensemble).test


def test_the_recipe_is_written_and_counts(ensemble: Path) -> None:
    run = gsat.open_run(ensemble)
    assert run.recipe.members == 2
    assert run.recipe.hash() != small_recipe().hash()
    assert "members = 2" in (ensemble / "recipe.toml").read_text()
    assert [summary.path for summary in gsat.list_runs(ensemble.parent)] == [ensemble]


def test_links_in_an_ensemble_are_refused(ensemble: Path, tmp_path: Path) -> None:
    hostile = shutil.copytree(ensemble, tmp_path / "hostile")
    member = hostile / "members" / "seed-1"
    shutil.rmtree(member)
    member.symlink_to(folders(ensemble)[0])
    with pytest.raises(GSATError, match="is a symbolic link"):
        gsat.open_run(hostile)


def test_a_changed_member_is_refused(ensemble: Path, tmp_path: Path) -> None:
    hostile = shutil.copytree(ensemble, tmp_path / "hostile")
    recipe = (hostile / "recipe.toml").read_text()
    (hostile / "recipe.toml").write_text(recipe.replace("members = 2", "members = 900"))
    with pytest.raises(GSATError, match="there is no"):
        gsat.open_run(hostile).evaluate()
    (hostile / "recipe.toml").write_text(recipe.replace("members = 2", "members = 2000000"))
    with pytest.raises(GSATError, match="members"):
        gsat.open_run(hostile).evaluate()
    (hostile / "recipe.toml").write_text(recipe)
    (hostile / "result.json").unlink()
    own = hostile / "members" / "seed-0" / "recipe.toml"
    own.write_text(own.read_text().replace("lr = 0.001", "lr = 0.1"))
    with pytest.raises(GSATError, match="another recipe"):
        gsat.resume(hostile)


@pytest.mark.usefixtures("in_process")
def test_members_that_are_trained_already_are_copied(ensemble: Path, tmp_path: Path) -> None:
    """As `gsat bench` finds them, beside the ensemble under the names of their recipes."""
    recipe = small_recipe(**MEMBERS)
    single = small_recipe(seed=1, split_seed=0)
    known = tmp_path / f"single-{single.hash()}-data-1" / "seed-1"
    gsat.train(single, known)
    marked = known / "metrics.jsonl"
    marked.write_text(marked.read_text().replace('"selected": true', '"selected":  true'))
    train_each({"ensemble/seed-0": recipe}, tmp_path)
    copied = tmp_path / "ensemble" / "seed-0" / "members" / "seed-1"
    assert marked.read_bytes() == (copied / "metrics.jsonl").read_bytes()
    run = gsat.open_run(tmp_path / "ensemble" / "seed-0")
    assert run.test == gsat.open_run(ensemble).test


def test_runs_of_other_recipes_are_not_copied(ensemble: Path, tmp_path: Path) -> None:
    other = gsat.train(small_recipe(seed=1, split_seed=0, lr=0.01), tmp_path / "other")
    recipes = member_recipes(small_recipe(**MEMBERS))
    copy_members([tmp_path / "other"], recipes, tmp_path / "members", other.result["data_hash"])
    assert not (tmp_path / "members").exists()
    same = [folders(ensemble)[1]]
    copy_members(same, recipes, tmp_path / "members", "another")
    assert not (tmp_path / "members").exists()
    copy_members(same, recipes, tmp_path / "members", other.result["data_hash"])
    assert differing(outcome(same[0]), outcome(tmp_path / "members" / "seed-1")) == []


def test_the_time_of_an_ensemble_is_that_of_its_members(ensemble: Path) -> None:
    members = [json.loads(file.read_text()) for file in ensemble.glob("members/*/result.json")]
    whole = json.loads((ensemble / "result.json").read_text())
    for name in ("seconds", "cpu_seconds"):
        assert whole[name] == pytest.approx(sum(one[name] for one in members), abs=0.002)
    assert len(members) > 1
