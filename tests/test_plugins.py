"""The method and the backbone of CONTRIBUTING.md as a user's files: trained, resumed, loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import gsat
from gsat.core.errors import GSATError, RecipeError, RunError
from gsat.core.registry import BACKBONES, METHODS
from gsat.training.recipe import Recipe, describe_settings, make_recipe
from source_tree import contributed
from training_harness import differing, one_line, outcome, stopping

SETTINGS = {"graphs": 60, "epochs": 4, "batch_size": 32, "hidden": 8}


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """The names of the method and the backbone on the command line."""
    # Under other names, as the package itself may hold the examples.
    method = contributed("register_method").replace('"sharp"', '"keen"')
    backbone = contributed("register_backbone").replace('"sum-net"', '"sum-file"')
    (tmp_path / "sharp.py").write_text(method, "utf-8")
    (tmp_path / "sum_net.py").write_text(backbone, "utf-8")
    return f"{tmp_path}/sharp.py:Sharp", f"{tmp_path}/sum_net.py:SumNet"


def recipe(files: tuple[str, str]) -> Recipe:
    method, backbone = METHODS.resolve(files[0]), BACKBONES.resolve(files[1])
    settings = {**SETTINGS, "sharpness": 0.2}
    return make_recipe("ba2motifs", method=method, backbone=backbone, settings=settings)


def test_they_are_trained_resumed_and_loaded(files: tuple[str, str], tmp_path: Path) -> None:
    made = recipe(files)
    assert (made.method, made.backbone.name) == ("keen", "sum-file")
    whole = gsat.train(made, tmp_path / "whole", checkpoint_seconds=0)
    assert whole.result["backbone"] == "sum-file"
    assert whole.test["explanation_auc"] is not None

    killed = tmp_path / "killed"
    with stopping(3), pytest.raises(KeyboardInterrupt):
        gsat.train(made, killed, checkpoint_seconds=0)
    # As in a new process where the files are not loaded.
    del METHODS["keen"]
    with pytest.raises(RecipeError, match="'keen'") as caught:
        gsat.resume(killed)
    assert "load_file" in one_line(caught.value)
    with pytest.raises(RunError, match="'keen'"):
        gsat.load(tmp_path / "whole")
    METHODS.resolve(files[0])
    del BACKBONES["sum-file"]
    with pytest.raises(RecipeError, match="'sum-file'"):
        gsat.resume(killed)
    BACKBONES.resolve(files[1])
    gsat.resume(killed)
    assert differing(outcome(killed), outcome(tmp_path / "whole")) == []

    loaded = gsat.load(tmp_path / "whole")
    graphs = gsat.load_dataset("ba2motifs", graphs=60).test
    assert torch.equal(loaded.predict(graphs).logits, whole.model.predict(graphs).logits)
    loaded.save(tmp_path / "saved")
    again = gsat.load(tmp_path / "saved")
    assert (again.method, again.config) == ("keen", loaded.config)


def test_a_run_never_imports_a_file(tmp_path: Path, files: tuple[str, str]) -> None:
    """Names in a recipe and files next to it are never imported."""
    made = recipe(files)
    path = tmp_path / "run"
    gsat.train(made, path)
    del METHODS["keen"]
    evil = tmp_path / "evil.py"
    evil.write_text("raise SystemExit('this file was imported')\n")
    text = (path / "recipe.toml").read_text()
    for name in (f"{evil}:Sharp", "evil.py:Sharp", "evil"):
        (path / "recipe.toml").write_text(text.replace('name = "keen"', f'name = "{name}"'))
        with pytest.raises(RecipeError, match="evil"):
            gsat.resume(path)
        with pytest.raises(RecipeError, match="evil"):
            make_recipe("ba2motifs", method=name)


def test_their_settings_are_listed_and_checked(files: tuple[str, str]) -> None:
    assert recipe(files).settings.sharpness == 0.2
    assert [info.name for info in describe_settings("keen")] == ["method.keen.sharpness"]
    assert [info.name for info in describe_settings("sum-file")] == [
        "backbone.hidden",
        "backbone.layers",
    ]
    with pytest.raises(RecipeError, match=r"method\.keen\.sharpness"):
        make_recipe("ba2motifs", method="keen", settings={"sharpness": -1})
    with pytest.raises(RecipeError, match="dropout"):
        make_recipe("ba2motifs", backbone="sum-file", settings={"dropout": 0.5})
    # Backbones without recipes use GIN's training settings.
    assert make_recipe("spmotif-0.5", backbone="sum-file").training == (
        make_recipe("spmotif-0.5", backbone="gin").training
    )


def test_a_model_from_outside_is_trained_in_python(files: tuple[str, str]) -> None:
    BACKBONES.resolve(files[1])
    data = gsat.load_dataset("ba2motifs", graphs=60)
    model = gsat.GSAT(BACKBONES["sum-file"].for_data(data, hidden=8))
    run = gsat.fit(model, data, epochs=2, batch_size=32)
    assert run.recipe.backbone.model_dump() == {"name": "sum-file", "hidden": 8, "layers": 2}


MODELS = {
    "InterpretableModel": """
    def __init__(self, backbone, ratio=0.3, *, seed=0):
        super().__init__(backbone)
        self.ratio = ratio
""",
    "GSAT": """
    def __init__(self, backbone, attention="edge", *, ratio=0.3, seed=0, **settings):
        super().__init__(backbone, attention, seed=seed, **settings)
        self.ratio = ratio
""",
}


@pytest.fixture(params=MODELS)
def ratio_method(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Makes a method whose model has the setting ``ratio``, with more code in its constructor."""
    made = []

    def make(code: str) -> str:
        gsat_model = request.param == "GSAT"
        base, basis = ("GSAT", "GSATMethod") if gsat_model else ("PlainModel", "ERMMethod")
        name = f"ratio-{len(made)}"
        file = tmp_path / f"ratio_{len(made)}.py"
        file.write_text(
            "from pydantic import Field\n"
            "from gsat.gsat import GSAT\n"
            "from gsat.methods.erm import ERMMethod, PlainModel\n"
            "from gsat.methods.gsat import GSATMethod\n"
            f"class Settings({basis}.Settings):\n"
            "    ratio: float = Field(0.3, description='A share.')\n"
            f"class Model({base}):\n{MODELS[request.param]}{code}"
            f"class Mine({basis}):\n"
            f"    name, title, summary, paper = '{name}', 'Mine', 'mine', 'none'\n"
            "    Settings, Model = Settings, Model\n"
        )
        made.append(METHODS.resolve(f"{file}:Mine"))
        return made[-1]

    yield make
    for name in made:
        del METHODS[name]


def test_a_setting_that_a_saved_model_would_lose_is_noticed(
    ratio_method: Callable[[str], str], tmp_path: Path
) -> None:
    def trained(method: str, **how: Any) -> gsat.Run:
        settings = {"graphs": 60, "epochs": 1, "hidden": 8, "ratio": 0.5}
        return gsat.train(make_recipe("ba2motifs", method=method, settings=settings), **how)

    forgetful = ratio_method("")
    with pytest.raises(GSATError, match="'ratio'"):
        trained(forgetful, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    in_memory = trained(forgetful)
    assert in_memory.model.ratio == 0.5
    with pytest.raises(GSATError, match="'ratio'"):
        in_memory.model.save(tmp_path / "saved")

    trained(ratio_method("        self.settings = {'ratio': ratio}\n"), out=tmp_path / "run")
    assert gsat.load(tmp_path / "run").ratio == 0.5
