"""Models saved in a folder and loaded again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from torch_geometric.nn import GCN

import gsat
from gsat.core.errors import CheckpointError, GSATError, RunError
from gsat.core.files import checksum
from gsat.core.registry import METHODS
from gsat.models import BACKBONES
from gsat.models.saved import read_model
from gsat.tasks import Task
from gsat.training.recipe import make_recipe

TASK = Task("binary")
STARTED = {"gmt-classifier", "gsat-sc"}  # which begin with a trained model
MODELS = sorted(set(METHODS) - {"irm", "vrex"} - STARTED)  # those two have erm's model


def make(method: str, backbone: str = "gin") -> gsat.models.InterpretableModel:
    recipe = make_recipe("ba2motifs", method=method)
    network = BACKBONES[backbone](3, TASK, hidden=8, seed=1)
    return METHODS[method].create(network, recipe.settings, recipe.training, 1).model.eval()


@pytest.mark.parametrize("method", MODELS)
def test_a_saved_model_is_loaded_again(method: str, tmp_path: Path) -> None:
    model = make(method)
    model.save(tmp_path / "deep" / "folder")
    again = gsat.load(tmp_path / "deep" / "folder")
    assert type(again) is type(model)
    assert again.config == model.config
    assert again.method == method
    assert not again.training
    state = again.state_dict()
    assert list(state) == list(model.state_dict())
    for name, tensor in model.state_dict().items():
        assert torch.equal(state[name], tensor)


def test_the_format_is_that_of_a_runs_best_model(tmp_path: Path) -> None:
    settings = {"graphs": 60, "epochs": 1, "hidden": 8, "layers": 1}
    run = gsat.train(make_recipe("ba2motifs", settings=settings), tmp_path / "run")
    run.model.save(tmp_path / "saved")
    saved, best = tmp_path / "saved", tmp_path / "run" / "best"
    assert {f.name for f in saved.iterdir()} == {f.name for f in best.iterdir()}
    described = [json.loads((folder / "model.json").read_text()) for folder in (saved, best)]
    assert [d.pop("epoch") for d in described] == [None, 0]
    for one in described:
        del one["check"]  # of the epoch, too
    assert described[0] == described[1]
    assert gsat.GSAT.from_pretrained(saved).config["backbone"] == run.model.config["backbone"]


def test_saving_again_replaces_the_model(tmp_path: Path) -> None:
    make("gsat").save(tmp_path)
    make("gsat", "pna").save(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    assert isinstance(gsat.load(tmp_path).backbone, gsat.PNA)


def test_a_wrapped_network_is_given_again(tmp_path: Path) -> None:
    def fresh() -> gsat.GSAT:
        return gsat.GSAT(gsat.wrap(GCN(3, 8, num_layers=2), task=TASK))

    model = fresh()
    model.save(tmp_path)
    with pytest.raises(GSATError, match="your own module"):
        gsat.load(tmp_path)
    again = gsat.load(tmp_path, fresh())
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor)


def test_invalid_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a run or a saved model"):
        gsat.load(tmp_path)
    make("gsat").save(tmp_path)
    (weights,) = tmp_path.glob("*.safetensors")
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(CheckpointError, match="wrong checksum"):
        gsat.load(tmp_path)
    weights.unlink()
    with pytest.raises(CheckpointError, match="can't be read"):
        read_model(tmp_path)


MOLECULES = Path(__file__).parents[1] / "data" / "runs-0.1" / "molecules" / "best"
DAMAGES: list[tuple[str, object]] = [
    ("surprise", 1),
    ("config.surprise", 1),
    ("config.input", "SMILES"),
    ("config.input", []),
    ("config.input.surprise", 1),
    ("config.input.features", {"version": 1}),
    ("config.input.features.version", "1"),
    ("config.input.features.atoms.element", 0),
    ("config.input.table", {}),
    ("config.input.table.labels", 3),
    ("config.input.table.smiles", None),
    ("config.input.table.surprise", 1),
    ("config.input.table.kind", "regression"),
    ("config.input.table.largest_fragment", "no"),
    ("config.input.classes", {}),
    ("config.input.classes", ["one"]),
    ("config.input.classes", ["a", "b", "c"]),
    ("config.input.classes", [0, 1]),
    ("config.model.backbone.task.surprise", 1),
    ("config.model.backbone.task.level", "node"),
    ("config.model.backbone.task.kind", "multilabel"),
]


def damaged(folder: Path, key: str, value: object) -> Path:
    """Change a value of a saved model, and its checksum with it."""
    described = json.loads((folder / "model.json").read_text())
    *parents, last = key.split(".")
    place = described
    for parent in parents:
        place = place[parent]
    place[last] = value
    del described["check"]
    content = {**described, "check": checksum(described)}
    (folder / "model.json").write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize(("key", "value"), DAMAGES)
def test_a_description_with_other_keys_or_types_is_refused(
    key: str, value: object, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(MOLECULES, tmp_path / "model"))
    assert gsat.load(folder).input["classes"] == ["0", "1"]
    with pytest.raises(CheckpointError):
        gsat.load(damaged(folder, key, value))
