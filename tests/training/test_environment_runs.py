"""Runs of IRM and V-REx: what they log, and where environments come from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gsat
from gsat.core.errors import DataError
from gsat.graphs import GraphStore, storage
from gsat.methods.erm import PlainModel
from gsat.training.recipe import make_recipe
from training_harness import epochs_logged


@pytest.mark.parametrize(("method", "environments"), [("irm", "random"), ("vrex", "base")])
def test_the_penalty_is_logged(method: str, environments: str, tmp_path: Path) -> None:
    settings = {"train_per_class": 30, "epochs": 2, "batch_size": 32, "hidden": 8}
    recipe = make_recipe(
        "spmotif-0.5", backbone="leconv", method=method,
        settings={**settings, "environments": environments},
    )  # fmt: skip
    run = gsat.train(recipe, tmp_path / "run")
    assert {frozenset(line["train"]) for line in run.log} == {
        frozenset({"loss", "penalty", "total"})
    }
    assert any(line["train"]["penalty"] > 0 for line in run.log)
    assert run.test["explanation_auc"] is None
    assert isinstance(gsat.load(tmp_path / "run"), PlainModel)


def test_data_without_environments_leave_no_run_behind(tmp_path: Path) -> None:
    wanted = make_recipe("ba2motifs", method="irm", settings={"graphs": 20, "environments": "base"})
    with pytest.raises(DataError, match="choose environments = 'random'"):
        gsat.train(wanted, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_user_graphs_may_name_their_environment(tmp_path: Path) -> None:
    """Also from several files: environments are those of the graphs, whichever file they are in."""
    store = gsat.load_dataset("ba2motifs", graphs=60).store
    named = GraphStore(
        {**store.arrays, "graph.environment": np.arange(60) % 3}, {"classes": ["cycle", "house"]}
    )
    settings = {"epochs": 1, "hidden": 8, "environments": "base"}
    results = []
    for folder, shard_bytes in (("one", 1 << 20), ("many", 40_000)):
        storage.save(named, tmp_path / folder, shard_bytes)
        path = str(tmp_path / folder)
        run = gsat.train(
            make_recipe(path, method="vrex", settings=settings), tmp_path / "run" / folder
        )
        results.append(epochs_logged(tmp_path / "run" / folder)[0]["train"])
        assert run.recipe.data.name == path
    assert len(list((tmp_path / "many").glob("*.safetensors"))) > 2
    assert results[0] == results[1]
    assert results[0]["penalty"] > 0
