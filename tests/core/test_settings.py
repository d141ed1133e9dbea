"""Settings: errors, signatures and listings are generated from one declaration."""

from __future__ import annotations

import inspect
from typing import Any, Literal

import numpy as np
import pytest
from pydantic import Field, PositiveInt

import gsat
from gsat.core.errors import GSATError, RecipeError
from gsat.core.registry import BACKBONES, METHODS
from gsat.core.settings import Settings, describe, signature, validated
from gsat.methods import TrainingSettings
from gsat.tasks import Task
from gsat.training.recipe import describe_settings, make_recipe

TASK = Task("binary")


class Example(Settings):
    hidden: PositiveInt = Field(64, description="Width.")
    share: float = Field(0.5, ge=0, lt=1, description="A share.")
    kind: Literal["a", "b"] = Field("a", description="A kind.")
    names: list[str] = Field(["x"], min_length=1, description="Names.")
    limit: PositiveInt | None = Field(None, description="A limit.")
    on: bool = Field(True, description="A switch.")


def test_every_field_is_described_in_words() -> None:
    shown = {info.name: (info.type, info.default, info.range) for info in describe(Example)}
    assert shown == {
        "hidden": ("whole number", "64", "above 0"),
        "share": ("number", "0.5", "from 0 to below 1"),
        "kind": ("'a' or 'b'", "'a'", ""),
        "names": ("list of text", "['x']", "at least 1"),
        "limit": ("whole number", "none", "above 0"),
        "on": ("true or false", "true", ""),
    }
    assert describe(Example)[0].description == "Width."


def test_tuples_and_numbers_of_numpy_are_plain_values() -> None:
    given = {"hidden": np.int64(3), "share": np.float64(0.25), "names": ("a", "b")}
    made = validated(Example, given)
    assert (made.hidden, made.share, made.names) == (3, 0.25, ["a", "b"])
    assert type(made.hidden) is int


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        ({"hiden": 3}, ["net.hiden", "GIN", "net.hidden"]),  # with the closest setting
        ({"zzz": 3}, ["net.zzz", "GIN"]),
        ({"hidden": 0}, ["net.hidden", "greater than 0", "not 0"]),
        ({"hidden": "3"}, ["net.hidden", "integer", "'3'"]),
        ({"hidden": 0, "share": 2.0}, ["net.hidden", "1 more"]),
        ({"share": float("nan")}, ["net.share"]),
    ],
)
def test_an_error_is_one_line_with_the_setting_and_its_value(
    values: dict[str, Any], parts: list[str]
) -> None:
    with pytest.raises(RecipeError) as caught:
        validated(Example, values, table="net", owner="GIN", error=RecipeError)
    assert all(part in str(caught.value) for part in parts)
    assert "\n" not in str(caught.value)


def test_a_signature_shows_the_settings() -> None:
    def make(first: int, *, hidden: int = 1, **settings: Any) -> None: ...

    shown = signature(make, Example, leave_out=["on"])
    assert list(shown.parameters) == ["first", "hidden", "share", "kind", "names", "limit"]
    assert shown.parameters["share"].default == 0.5


@pytest.mark.parametrize("name", ["gin", "pna", "leconv"])
def test_the_constructor_of_a_backbone_is_made_from_its_settings(name: str) -> None:
    kind = BACKBONES[name]
    shown = inspect.signature(kind).parameters
    for info in describe(kind.Settings):
        if info.name in ("name", "edge_features"):
            continue
        assert shown[info.name].kind is inspect.Parameter.KEYWORD_ONLY
        assert shown[info.name].default == kind.Settings.model_fields[info.name].default
        assert kind.__doc__ is not None
        assert f"    {info.name}: {info.description}" in kind.__doc__
    assert "name" not in shown
    network = kind(3, TASK, hidden=8)
    assert network.settings == kind.Settings(name=name, hidden=8, edge_features=False)
    with pytest.raises(GSATError, match="hiden"):
        kind(3, TASK, hiden=8)
    with pytest.raises(GSATError, match="layers"):
        kind(3, TASK, layers=0)


def test_the_arguments_of_gsat_are_settings_of_its_method() -> None:
    shown, declared = inspect.signature(gsat.GSAT).parameters, METHODS["gsat"].Settings.model_fields
    for name in ("attention", "extractor_dropout", "temperature", "sampling"):
        assert shown[name].default == declared[name].default


@pytest.mark.parametrize("name", [*METHODS, *BACKBONES])
def test_every_setting_has_a_meaning(name: str) -> None:
    for info in describe_settings(name):
        assert info.description.endswith("."), info
        assert info.owner == name


def test_settings_are_listed_by_any_of_their_names() -> None:
    def names(name: str | None) -> list[str]:
        return [info.name for info in describe_settings(name)]

    assert names("training") == [f"training.{name}" for name in TrainingSettings.model_fields]
    assert names("training.lr") == names("lr") == ["training.lr"]
    assert names("gsat")[0] == "method.gsat.attention"
    assert {"data.split_seed", "data.graphs"} <= set(names("ba2motifs"))
    for setting, parts in (("hidden", BACKBONES), ("r_final", METHODS)):
        owners = {i.owner: i.default for i in describe_settings(setting)}
        fields = {name: part.Settings.model_fields for name, part in parts.items()}
        assert owners.keys() == {name for name in parts if setting in fields[name]}
        for owner, default in owners.items():
            assert default == repr(fields[owner][setting].default)
    every = set(names(None))
    for method in METHODS:
        recipe = make_recipe("ba2motifs", method=method)
        keys = {"seed"}
        for table, values in recipe.tables().items():
            if table == "method":
                keys |= {f"method.{method}.{key}" for key in values[method]}
            elif table != "seed":
                keys |= {f"{table}.{key}" for key in values if key != "name"}
        assert keys <= every


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"epohcs.*epochs"):
        describe_settings("epohcs")
