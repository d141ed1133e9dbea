"""Settings written into a recipe file: the rest of the file stays."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from gsat.core.errors import RecipeError
from gsat.study.toml_edit import change_settings

TEXT = """\
# How we train.
[training]
lr = 1e-3  # slow
epochs = 10

# What we found.
[method.gsat]
r_final = 0.5
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(TEXT)
    return path


def test_lines_are_replaced_added_and_appended(file: Path) -> None:
    change_settings(
        file,
        {
            "training.epochs": 20,
            "training.batch_size": 64,
            "method.gsat.r_final": 0.7,
            "method.gsat-star.pretrain_ckpt": "best",
        },
    )
    assert (
        file.read_text()
        == """\
# How we train.
[training]
lr = 1e-3  # slow
epochs = 20
batch_size = 64

# What we found.
[method.gsat]
r_final = 0.7

[method.gsat-star]
pretrain_ckpt = "best"
"""
    )


def test_a_new_file_holds_the_settings_alone(tmp_path: Path) -> None:
    file = tmp_path / "new" / "recipe.toml"
    change_settings(file, {"method.irm.penalty": 1.0, "training.irm.lr": 0.01})
    assert file.read_text() == "[method.irm]\npenalty = 1.0\n\n[training.irm]\nlr = 0.01\n"


@pytest.mark.parametrize(
    "text",
    [
        "training = {lr = 1e-3, epochs = 10}\nmethod.gsat.r_final = 0.5\n",
        '[training]\nlr = 1e-3\nepochs = 10\n["method".gsat]\nr_final = 0.5\n',
        '[training]\nlr = 1e-3\nnested = [\n[1],\n]\n[method.gsat]\n"r_final" = 0.5\n',
        "[method.gsat]\nr_final = 0.5\n[training]\nlr = 1e-3\n[method.erm]\nplateau = 3\n",
    ],
    ids=["inline", "quoted", "multiline", "out of order"],
)
def test_a_file_written_in_another_way_keeps_its_settings(tmp_path: Path, text: str) -> None:
    file = tmp_path / "recipe.toml"
    file.write_text(f"{text}# the end\n")
    before = tomllib.loads(text)
    new = {"training.lr": 0.1, "training.erm.lr": 1e-5, "method.gsat.r_final": 0.7}
    change_settings(file, new)
    assert tomllib.loads(file.read_text()) == {
        **before,
        "training": {**before["training"], "lr": 0.1, "erm": {"lr": 1e-5}},
        "method": {**before["method"], "gsat": {"r_final": 0.7}},
    }
    assert "# the end\n" in file.read_text()


def test_invalid_recipes_stay_unchanged(file: Path, tmp_path: Path) -> None:
    file.write_text("[training\n")
    with pytest.raises(RecipeError, match="is not a TOML file"):
        change_settings(file, {"training.lr": 0.1})
    file.write_text("training = 3\n")
    with pytest.raises(RecipeError, match=r"'training' in .* is not a table"):
        change_settings(file, {"training.lr": 0.1})
    assert file.read_text() == "training = 3\n"
    assert list(tmp_path.iterdir()) == [file]
