"""Post-hoc explainers as runs: the frozen network, the log, the reported metrics."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import gsat
from gsat.methods import Context
from gsat.methods.post_hoc import PostHocMethod
from gsat.training.checkpoint import Tensors
from gsat.training.evaluation import evaluate
from gsat.training.recipe import Recipe, load_data, make_recipe
from training_harness import epochs_logged

PRETRAIN, EXPLAIN = 4, 4
LENGTH = {"gnnexplainer": "iterations", "pgexplainer": "explain_epochs"}
NAMES = ["gnnexplainer", "pgexplainer", "graphmask"]


def recipe(method: str, backbone: str = "gin", **settings: Any) -> Recipe:
    chosen = {
        "graphs": 60, "epochs": PRETRAIN, "batch_size": 32, "hidden": 8, "layers": 2,
        "training.lr": 0.02,
    }  # fmt: skip
    length = {"epochs_per_layer": 2} if method == "graphmask" else {LENGTH[method]: EXPLAIN}
    return make_recipe(
        "ba2motifs", method=method, backbone=backbone, settings={**chosen, **length, **settings}
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``whole(method)``: an uninterrupted run."""

    @functools.cache
    def run(method: str) -> Path:
        out = tmp_path_factory.mktemp(method) / "run"
        gsat.train(recipe(method), out)
        return out

    return run


def test_the_log_has_the_course_of_the_explanations(whole: Callable[[str], Path]) -> None:
    for method in NAMES:
        lines = epochs_logged(whole(method))
        assert [(line["phase"], line["epoch"]) for line in lines] == [
            *(("pretrain", e) for e in range(PRETRAIN)), *(("explain", e) for e in range(EXPLAIN))
        ]  # fmt: skip
        for line in lines[:PRETRAIN]:
            assert line["train"].keys() == {"loss"}
            assert line["valid"]["explanation_auc"] is None
        for line in lines[PRETRAIN:]:
            for split in ("train", "valid"):
                assert {"loss", "answer"} <= line[split].keys()
                assert 0 <= line[split]["explanation_auc"] <= 1
            assert not line["selected"]
        result = json.loads((whole(method) / "result.json").read_text())
        assert (result["selected"], result["best_epoch"]) == ("last", PRETRAIN + EXPLAIN - 1)
        assert result["valid"] == lines[-1]["valid"]


def test_the_trace_measures_the_training_set(
    whole: Callable[[str], Path],
) -> None:
    for method in NAMES:
        data = load_data(recipe(method))
        traced = epochs_logged(whole(method))[-1]["train"]
        again = evaluate(gsat.load(whole(method)), data.train, batch_size=32)
        assert traced["explanation_auc"] == pytest.approx(again["explanation_auc"], abs=1e-6)


@pytest.mark.parametrize("method", NAMES)
def test_without_a_trace_the_training_set_is_left_alone(method: str, run_path: Path) -> None:
    gsat.train(recipe(method, trace=False), run_path)
    for line in epochs_logged(run_path):
        assert "explanation_auc" not in line["train"]


@pytest.mark.parametrize(
    ("method", "backbone"),
    [("gnnexplainer", "pna"), ("pgexplainer", "gin"), ("graphmask", "leconv")],
)
def test_the_best_network_is_explained_and_stays_the_same(
    method: str, backbone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Tensors] = []
    finish = PostHocMethod.finish_epoch

    def note(self: PostHocMethod, context: Context, valid: dict[str, Any]) -> None:
        if context.phase == "pretrain":
            valid["accuracy"] = 1.0 if len(seen) == 1 else 0.5  # the last epoch is not the best
            state = self.model.backbone.state_dict()
            seen.append({name: tensor.clone() for name, tensor in state.items()})
        finish(self, context, valid)

    monkeypatch.setattr(PostHocMethod, "finish_epoch", note)
    run = gsat.train(recipe(method, backbone))
    assert run.result["pretrained"]["epoch"] == 1
    found = run.model.backbone.state_dict()
    assert found.keys() == seen[1].keys()
    for name, tensor in found.items():  # weights, and the statistics of batch norms
        assert torch.equal(tensor, seen[1][name]), name
    data = load_data(run.recipe)
    alone = type(run.model.backbone).for_data(data, hidden=8, layers=2).eval()
    alone.load_state_dict(seen[1])
    batch = data.test.batch()
    with torch.no_grad():
        assert torch.equal(run.model(batch).logits, alone(batch))


@pytest.mark.parametrize("method", NAMES)
def test_a_loaded_model_gives_the_reported_metrics(
    method: str, whole: Callable[[str], Path]
) -> None:
    model, data = gsat.load(whole(method)), load_data(recipe(method))
    reported = json.loads((whole(method) / "result.json").read_text())["test"]
    measured = evaluate(model, data.test, batch_size=32)
    for name in ("accuracy", "explanation_auc", "precision_at_5"):
        assert measured[name] == pytest.approx(reported[name], abs=1e-6), name
    explanations = model.explain(data.test)
    scores = torch.cat([e.edge_mask for e in explanations])
    torch.testing.assert_close(scores, model.score_edges(data.test)[1])
    assert not model.train().backbone.training  # it stays frozen
