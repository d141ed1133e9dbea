"""Paths as users and files write them."""

from __future__ import annotations

from pathlib import Path

import pytest

import gsat
from gsat.core.errors import GSATError
from gsat.core.files import exists, full_path
from gsat.core.registry import load_file
from gsat.datasets.registry import full_name, is_path
from gsat.training.recipe import read_recipe

LONG = "a" * 3000


def test_a_path_is_absolute_and_begins_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert full_path("~/x.jsonl") == full_path("x.jsonl") == tmp_path / "x.jsonl"
    assert full_path("~nobody-of-this-name/x") == tmp_path / "~nobody-of-this-name" / "x"


def test_there_is_nothing_whose_name_is_too_long(tmp_path: Path) -> None:
    assert exists(tmp_path)
    assert not exists(tmp_path / LONG)
    assert not is_path(LONG)
    assert full_name(LONG) == LONG


@pytest.mark.parametrize("file", [f"{LONG}.py", "~nobody-of-this-name/m.py", "gone.py"])
def test_a_class_in_no_file_is_one_line(file: str) -> None:
    with pytest.raises(GSATError, match=r"^there is no file ") as caught:
        load_file(f"{file}:Class")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("table", ["data", "method", "backbone"])
def test_a_recipe_that_names_anything_is_refused_in_one_line(table: str, tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    recipe = gsat.make_recipe("ba2motifs").toml()
    heading = f"[{table}]\nname = "
    before, _, after = recipe.partition(heading)
    assert after
    path.write_text(before + heading + f'"{LONG}"\n' + after.partition("\n")[2])
    with pytest.raises(GSATError) as caught:
        read_recipe(path)
    assert len(str(caught.value)) < 700
    assert "\n" not in str(caught.value)
