"""Runs of a user's own network: trained, stopped, resumed to the same bytes, loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch_geometric.nn import GCN, GIN

import gsat
from gsat.core.errors import GSATError
from gsat.training.run_directory import RunDirectory
from training_harness import differing, left_over, outcome, stopping

EPOCHS = 14


def dataset() -> gsat.Dataset:
    return gsat.load_dataset("ba2motifs", seed=0, graphs=60)


def make(seed: int = 0, **settings: Any) -> gsat.GSAT:
    """A GCN with dropout, as its owner makes it."""
    torch.manual_seed(seed)
    module = GCN(10, 8, num_layers=2, dropout=0.5, norm="batch_norm")
    return gsat.GSAT(gsat.wrap(module, task=dataset().task), **settings)


def fit(out: Path, model: gsat.GSAT | None = None, **settings: Any) -> gsat.Run:
    chosen = {"epochs": EPOCHS, "batch_size": 32, "r_interval": 1, **settings}
    return gsat.fit(model or make(), dataset(), out=out, checkpoint_seconds=0.0, **chosen)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run."""
    out = tmp_path_factory.mktemp("wrapped") / "run"
    torch.manual_seed(5)
    fit(out)
    return out


def test_stopped_and_resumed_to_the_same_bytes(whole: Path, run_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), stopping(8):
        fit(run_path)
    torch.manual_seed(77)  # torch's generator stands elsewhere in every process
    with pytest.raises(KeyboardInterrupt), stopping(3):
        gsat.resume(run_path, model=make(seed=4), checkpoint_seconds=0.0)
    gsat.resume(run_path, model=make(seed=9))  # weights come from the checkpoint
    assert differing(outcome(run_path), outcome(whole)) == []
    assert left_over(run_path) == []


def test_dropout_is_really_on(whole: Path, run_path: Path) -> None:
    model = make()
    model.backbone.module.dropout.p = 0.0  # type: ignore[union-attr]
    fit(run_path, model)
    assert "metrics.jsonl" in differing(outcome(run_path), outcome(whole))


def test_a_run_is_loaded_into_a_model_made_again(whole: Path) -> None:
    model = make(seed=3)
    found = gsat.load(whole, model=model)
    assert found is model
    assert not model.training
    assert model.r == pytest.approx(0.5)
    test = dataset().test
    logits = found.predict(test).logits
    accuracy = dataset().task.score(logits, torch.from_numpy(test.per_graph("y")))
    result = RunDirectory.open(whole).result
    assert accuracy == pytest.approx(result["test"]["accuracy"])
    assert result["backbone"] == "wrapped"
    opened = gsat.open_run(whole, model=make(seed=5), data=dataset())
    finished = gsat.resume(whole, model=make(seed=6))
    for run in (opened, finished):
        assert torch.equal(run.model.predict(test).logits, logits)


# -- without the network ---------------------------------------------------------------------------


def unfinished(path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), stopping(2):
        fit(path)


def test_the_network_is_asked_for(whole: Path, run_path: Path) -> None:
    unfinished(run_path)
    for use, path in ((gsat.load, whole), (gsat.resume, whole), (gsat.resume, run_path)):
        with pytest.raises(GSATError, match=r"your own module \(GCN\(10.*model="):
            use(path)


def test_no_recipe_can_make_it() -> None:
    recipe = gsat.make_recipe("ba2motifs", backbone="wrapped", settings={"graphs": 60})
    with pytest.raises(GSATError, match=r"gsat\.fit"):
        gsat.train(recipe)


def test_a_module_is_for_wrapped_networks_only() -> None:
    with pytest.raises(GSATError, match="no setting 'module'"):
        gsat.make_recipe("ba2motifs", settings={"module": "GCN"})
    assert "module" not in gsat.make_recipe("ba2motifs").tables()["backbone"]


def another(kind: type[nn.Module], **settings: Any) -> gsat.GSAT:
    torch.manual_seed(0)
    return gsat.GSAT(gsat.wrap(kind(10, num_layers=2, **settings), task=dataset().task))


def test_another_model_is_refused(whole: Path, run_path: Path) -> None:
    unfinished(run_path)
    wrong = {
        r"attention is 'node'": make(attention="node"),
        r"module is 'GCN\(10, 6": another(GCN, hidden_channels=6),
        r"module is 'GIN": another(GIN, hidden_channels=8),
    }
    for message, model in wrong.items():
        for use, path in ((gsat.load, whole), (gsat.resume, run_path)):
            with pytest.raises(GSATError, match=message):
                use(path, model=model)
    # The same by its description, but with weights of its own.
    other = make()
    other.backbone.module.extra = nn.Linear(2, 2)  # type: ignore[union-attr]
    with pytest.raises(GSATError, match=r"the weights in .* do not fit"):
        gsat.load(whole, model=other)
