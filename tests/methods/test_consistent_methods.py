"""Self-consistency fine-tuning of a run, and distillation of an ensemble."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import gsat
from gsat.core.errors import GSATError
from gsat.methods import Context
from gsat.methods.distilled import edge_places, taught_scores
from gsat.ops import Draws
from gsat.training.loop import make_method
from gsat.training.recipe import load_data, make_recipe

SMALL = {"graphs": 60, "epochs": 13, "batch_size": 32, "hidden": 8, "layers": 2, "r_interval": 1}


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("start") / "run"
    gsat.train(make_recipe("ba2motifs", settings=SMALL), path)
    return path


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ensemble") / "run"
    gsat.train(make_recipe("ba2motifs", settings={**SMALL, "members": 2}), path)
    return path


def consistent(start: Path, **settings: object) -> gsat.Recipe:
    own = {**SMALL, "epochs": 8, "start": str(start), **settings}
    return make_recipe("ba2motifs", method="gsat-sc", settings=own)


def inconsistency(model: gsat.GSAT, data: gsat.Dataset) -> float:
    store = data.train
    first, second = (part.score_edges(store)[1] for part in (model, model.refined(1)))
    return float((first - second).abs().mean())


def test_fine_tuning_makes_explanations_consistent(start: Path, tmp_path: Path) -> None:
    before = gsat.open_run(start)
    tuned = gsat.train(consistent(start, consistency=20.0, lr=0.01), tmp_path / "run")
    assert inconsistency(tuned.model, tuned.dataset) < inconsistency(before.model, tuned.dataset)
    old, new = before.model.state_dict(), tuned.model.state_dict()
    changed = {name.split(".")[0] + "." + name.split(".")[1]
               for name in old if not torch.equal(old[name], new[name])}  # fmt: skip
    # The layers are frozen, with the statistics of their batch norm.
    assert changed == {"extractor.second", "extractor.first", "extractor.last", "backbone.head"}
    assert gsat.open_run(tmp_path / "run").evaluate()["loss"] > 0


def test_the_loss_is_that_of_gsat_and_the_inconsistency(start: Path) -> None:
    recipe = consistent(start, consistency=3.0)
    data = load_data(recipe)
    method = make_method(recipe, data)
    method.begin("train")
    parts = method.step(data.train.batch(), Context("train", 0, Draws(1)))
    expected = parts["loss"] + parts["info"] + 3 * parts["inconsistency"]
    torch.testing.assert_close(parts["total"], expected)
    assert 0 < float(parts["inconsistency"]) < 1


def test_starts_that_do_not_fit_are_refused(start: Path) -> None:
    with pytest.raises(GSATError, match="runs/x"):
        gsat.train(make_recipe("ba2motifs", method="gsat-sc"))
    with pytest.raises(GSATError, match="'sampling' is 'concrete'"):
        gsat.train(consistent(start, sampling="none"))


def test_targets_are_the_teachers_scores_of_the_training_graphs(ensemble: Path) -> None:
    run = gsat.open_run(ensemble)
    data = run.dataset
    taught = taught_scores(run.model, data.train, data.store.num_edges)
    first = torch.from_numpy(data.store.arrays["edge_ptr"].copy())
    batch = data.train.batch([5, 0])
    with run.model.evaluating():
        expected = run.model(batch).edge_weight
    torch.testing.assert_close(taught[edge_places(batch, first)], expected)
    other = data.test.batch([1])
    assert float(taught[edge_places(other, first)].abs().max()) == 0


def test_a_student_comes_closer_to_its_teacher(ensemble: Path, tmp_path: Path) -> None:
    own = {**SMALL, "epochs": 14, "lr": 0.01}
    teacher = gsat.open_run(ensemble)
    wanted = teacher.model.score_edges(teacher.graphs())[1]
    distances = []
    for weight in (0.0, 10.0):
        settings = {**own, "teacher": str(ensemble), "distill_coef": weight}
        recipe = make_recipe("ba2motifs", method="distilled", settings=settings)
        run = gsat.train(recipe)
        actual = run.model.score_edges(teacher.graphs())[1]
        distances.append(float((actual - wanted).abs().mean()))
    assert distances[1] < 0.75 * distances[0]


def test_distill_takes_the_recipe_of_the_teacher(ensemble: Path, tmp_path: Path) -> None:
    teacher = gsat.open_run(ensemble).recipe
    run = gsat.distill(ensemble, tmp_path / "one", settings={"epochs": 2})
    assert (run.recipe.method, run.recipe.members) == ("distilled", None)
    assert run.recipe.split_seed == teacher.split_seed
    assert run.recipe.backbone == teacher.backbone
    assert run.recipe.settings.r_interval == teacher.settings.r_interval
    assert gsat.open_run(tmp_path / "one").evaluate()["loss"] > 0
    with pytest.raises(GSATError, match="is not a run"):
        gsat.distill(tmp_path / "nothing")


def test_teachers_that_do_not_explain_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "erm"
    own = {k: v for k, v in SMALL.items() if k != "r_interval"}
    gsat.train(make_recipe("ba2motifs", method="erm", settings={**own, "epochs": 1}), path)
    for teacher, reason in (("", "needs a teacher"), (str(path), "no explanations to learn")):
        settings = {**SMALL, "teacher": teacher}
        with pytest.raises(GSATError, match=reason):
            gsat.train(make_recipe("ba2motifs", method="distilled", settings=settings))
