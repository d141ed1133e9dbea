"""Every method resumes to the same bytes, in whichever phase it was stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import gsat
from gsat.datasets.load import Dataset, load_dataset
from gsat.methods import METHODS
from gsat.training.checkpoint import read
from gsat.training.recipe import make_recipe
from own_data import make_graphs
from training_harness import differing, outcome, stopping
from training_toy import LastToy, Toy

SMALL: dict[str, Any] = {"graphs": 60, "batch_size": 32, "hidden": 8, "layers": 2}
EXPLAINED = {**SMALL, "epochs": 4, "training.lr": 0.02}  # before four epochs of explaining
STAR = {
    **SMALL, "epochs": 13, "training.lr": 0.02, "layers": 1, "r_interval": 1, "pretrain_epochs": 5
}  # fmt: skip
SPMOTIF = {"train_per_class": 30, "batch_size": 32, "hidden": 8, "epochs": 4}
NODES = {"epochs": 14, "hidden": 8, "layers": 2, "r_interval": 1}
KEPT = {
    **SMALL, "epochs": 14, "layers": 1, "r_interval": 1, "snapshots": 2, "selection": "stable",
    "batch_norm": "recalibrated",
}  # fmt: skip
TOY = {**SMALL, "epochs": 8, "layers": 1}

# Data set, method, backbone, settings, and the numbers of epochs after which it is stopped: in the
# first phase, between the phases, in the second.
CASES: dict[str, tuple[str, str, str, dict[str, Any], tuple[int, ...]]] = {
    "dir": ("ba2motifs", "dir", "gin", {**SMALL, "epochs": 5, "step": "batch"}, (2,)),
    "dir by epoch": ("ba2motifs", "dir", "gin", {**SMALL, "epochs": 5, "step": "epoch"}, (2,)),
    "ib-subgraph": (
        "ba2motifs", "ib-subgraph", "gin",
        {**SMALL, "epochs": 5, "inner_steps": 5, "patience": 50}, (2,),
    ),
    "irm": ("spmotif-0.5", "irm", "leconv", {**SPMOTIF, "environments": "random"}, (2,)),
    "vrex": ("spmotif-0.5", "vrex", "leconv", {**SPMOTIF, "environments": "base"}, (2,)),
    "gnnexplainer": ("ba2motifs", "gnnexplainer", "gin", {**EXPLAINED, "iterations": 4}, (4, 6)),
    "pgexplainer": ("ba2motifs", "pgexplainer", "gin", {**EXPLAINED, "explain_epochs": 4}, (2, 6)),
    "graphmask": ("ba2motifs", "graphmask", "gin", {**EXPLAINED, "epochs_per_layer": 2}, (4, 7)),
    "star, last": ("ba2motifs", "gsat-star", "gin", {**STAR, "pretrain_ckpt": "last"}, (2, 5)),
    "star, best": ("ba2motifs", "gsat-star", "gin", {**STAR, "pretrain_ckpt": "best"}, (5, 8)),
    "nodes": ("tree-cycles", "gsat", "gin", {**NODES, "motifs": 12}, (7,)),
    "numbers of nodes": ("motif-count", "gsat", "gin", {**NODES, "graphs": 40, "level": "node"},
                         (7,)),
    "snapshots": ("ba2motifs", "gsat", "gin", KEPT, (11, 12, 13)),
    "toy": ("ba2motifs", "toy", "gin", TOY, (1, 3, 7)),
    "toy, last epoch": ("ba2motifs", "toy-last", "gin", TOY, (4,)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_resumed_run_equals_the_uninterrupted_one(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for toy in (Toy, LastToy):
        monkeypatch.setitem(METHODS, toy.name, toy)
    data, method, backbone, settings, stops = CASES[case]
    recipe = make_recipe(data, method=method, backbone=backbone, settings=settings)
    gsat.train(recipe, tmp_path / "whole")
    expected = outcome(tmp_path / "whole")
    for epochs in stops:
        path = tmp_path / str(epochs)
        with stopping(epochs + 1), pytest.raises(KeyboardInterrupt):
            gsat.train(recipe, path, checkpoint_seconds=0)
        assert read(path / "ckpt")[0].epoch == epochs
        gsat.resume(path)
        assert differing(outcome(path), expected) == []


# -- models and data given in Python ---------------------------------------------------------------


def pna(data: Dataset) -> gsat.GSAT:
    scalers = ("identity", "attenuation")
    network = gsat.PNA.for_data(
        data, hidden=8, layers=1, aggregators=("max", "std"), scalers=scalers, mean_log_degree=3.0
    )
    return gsat.GSAT(network)


def gin(data: Dataset) -> gsat.GSAT:
    """Weights that no recipe makes: the seed of the run is 0."""
    return gsat.GSAT(gsat.GIN.for_data(data, hidden=8, layers=1, seed=5), seed=5)


@pytest.mark.parametrize(("make", "stopped"), [(gin, 1), (gin, 13), (pna, 4)])
def test_fit_resumes_a_model_with_weights_and_degrees_of_its_own(
    make: Any, stopped: int, tmp_path: Path
) -> None:
    """Also before the first checkpoint."""
    data = load_dataset("ba2motifs", graphs=60)
    settings: dict[str, Any] = {"epochs": 13, "r_interval": 1, "batch_size": 32}
    whole = gsat.fit(make(data), data, out=tmp_path / "whole", **settings)
    with stopping(stopped), pytest.raises(KeyboardInterrupt):
        gsat.fit(make(data), data, out=tmp_path / "run", checkpoint_seconds=0, **settings)
    again = gsat.resume(tmp_path / "run")
    assert differing(outcome(tmp_path / "run"), outcome(tmp_path / "whole")) == []
    if make is pna:
        assert whole.recipe.backbone.aggregators == ["max", "std"]
        for model in (again.model, gsat.load(tmp_path / "run")):
            assert isinstance(model.backbone, gsat.PNA)
            assert float(model.backbone.mean_log_degree) == 3.0


@pytest.mark.parametrize("split_seed", [3, 0])
def test_a_run_on_graphs_given_in_python_resumes_with_the_same_graphs(
    split_seed: int, tmp_path: Path
) -> None:
    def graphs() -> Dataset:
        return load_dataset(make_graphs(), seed=split_seed, split="random")

    def fit(path: Path) -> gsat.Run:
        data = graphs()
        return gsat.fit(gin(data), data, out=path, epochs=4, seed=3, checkpoint_seconds=0)

    whole = fit(tmp_path / "whole")
    with stopping(2), pytest.raises(KeyboardInterrupt):
        fit(tmp_path / "cut")
    run = gsat.resume(tmp_path / "cut", data=graphs())
    assert differing(outcome(tmp_path / "cut"), outcome(tmp_path / "whole")) == []
    assert run.recipe.data.name == "custom"
    # A finished run is read, with or without its data.
    assert gsat.resume(tmp_path / "cut").test == run.test == whole.test
    assert torch.isfinite(gsat.load(tmp_path / "cut").predict(graphs().test).logits).all()
