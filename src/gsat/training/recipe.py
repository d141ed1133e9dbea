"""Recipes: every setting of a run, typed, in TOML.

A recipe is put together from the settings' own defaults, the shipped file for the data set and
backbone (``recipes/``), the caller's file, then single ``key=value`` settings. In a file,
``[training.NAME]`` goes over ``[training]`` when the method is NAME. A key is written in
full (``method.gsat.r_final``) or, where only one setting has that name, by its last part.
"""

from __future__ import annotations

import copy
import difflib
import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import Field, NonNegativeInt, ValidationError

from gsat.datasets.registry import full_name, make_options, options_type, recipe_family
from gsat.errors import RecipeError
from gsat.methods import METHODS, TrainingSettings
from gsat.training.settings import (
    BACKBONE_SETTINGS,
    DataSettings,
    GINSettings,
    LEConvSettings,
    PNASettings,
    Settings,
    WrappedSettings,
)

Tables = dict[str, Any]


class Recipe(Settings):
    """Every setting of a run.

    Attributes:
        seed: decides the split and the training. data, backbone, training: see their types.
        method: name of the method. settings: the method's own settings.
    """

    seed: NonNegativeInt = 0
    data: DataSettings
    backbone: GINSettings | PNASettings | LEConvSettings | WrappedSettings = Field(
        discriminator="name"
    )
    training: TrainingSettings
    method: str
    settings: Any

    @property
    def split_seed(self) -> int:
        """The seed that splits the data."""
        return self.seed if self.data.split_seed is None else self.data.split_seed

    def tables(self) -> Tables:
        """Plain values in the shape of a recipe file."""
        return {
            "seed": self.seed,
            "data": self.data.model_dump(exclude_none=True),
            "backbone": self.backbone.model_dump(),
            "training": self.training.model_dump(),
            "method": {"name": self.method, self.method: self.settings.model_dump()},
        }

    def toml(self) -> str:
        """The recipe as a TOML document."""
        return to_toml(self.tables())

    def hash(self) -> str:
        """A name for everything but the seed: runs with the same hash differ by seed alone."""
        # What is absent is left out, so that a new optional setting leaves old names as they are.
        tables = _without_none(self.tables())
        del tables["seed"]
        return hashlib.sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()[:16]


def make_recipe(
    dataset: str,
    *,
    backbone: str = "gin",
    method: str = "gsat",
    seed: int | None = None,
    file: str | Path | None = None,
    settings: Mapping[str, Any] | Iterable[str] = (),
) -> Recipe:
    """The recipe for a data set.

    Args:
        dataset: its name, or the path of your own. backbone, method, seed: as on the command line.
        file: a TOML file whose settings go over the shipped ones; a ``seed`` goes over its own.
        settings: single settings over those, as a mapping or as ``"key=value"`` texts.
    """
    dataset = full_name(dataset)
    tables: Tables = {
        "seed": 0 if seed is None else seed,
        "data": {"name": dataset},
        "backbone": {"name": backbone},
        "training": {},
        "method": {"name": method, method: {}},
    }
    _merge(tables, _for_method(_shipped(dataset, backbone), method))
    if file is not None:
        over = _for_method(_read(Path(file)), method)
        if isinstance(_table(over, "data").get("name"), str):
            over["data"]["name"] = full_name(over["data"]["name"])
        for table, name in (("data", dataset), ("backbone", backbone), ("method", method)):
            said = _table(over, table).get("name", name)
            if said != name:
                raise RecipeError(
                    f"{file} says {table}.name = {said!r}, but {name!r} was asked for"
                )
        for name in _table(over, "method"):
            if name != "name" and name not in METHODS:
                raise RecipeError(f"there is no setting 'method.{name}' in this recipe")
        _merge(tables, over if seed is None else {**over, "seed": seed})
    # Only the chosen method's table is part of the recipe; one built on another takes its settings.
    own = _table(tables["method"], method, "method.")
    basis = METHODS[method].based_on if method in METHODS else None
    if basis:
        own = {**_table(tables["method"], basis, "method."), **own}
    tables["method"] = {"name": method, method: own}
    tables["backbone"], tables["training"] = _table(tables, "backbone"), _table(tables, "training")
    pairs = settings.items() if isinstance(settings, Mapping) else map(_parse_pair, settings)
    for key, value in pairs:
        _place(tables, key, value)
    return from_tables(tables)


def from_tables(tables: Tables) -> Recipe:
    """A checked recipe from plain tables; unknown keys and wrong types are errors."""
    tables = copy.deepcopy(tables)
    chosen, data = _table(tables, "method"), _table(tables, "data")
    method = chosen.get("name", "gsat")
    net = _table(tables, "backbone")
    _check_known("method", method, METHODS)
    _check_known("backbone", net.setdefault("name", "gin"), BACKBONE_SETTINGS)
    if "settings" in tables:  # a field of Recipe, not a table of the file
        raise RecipeError("there is no setting 'settings' in this recipe")
    if not isinstance(data.get("name"), str):
        raise RecipeError("setting 'data.name': the name of a data set was needed")
    given = {k: v for k, v in data.items() if k not in DataSettings.model_fields}
    settings = METHODS[method].Settings
    try:
        return Recipe.model_validate(
            {
                **tables,
                "data": {**data, **make_options(data["name"], given).model_dump()},
                "backbone": net,
                "method": method,
                "settings": settings(**_table(chosen, method, "method.")),
            }
        )
    except ValidationError as error:
        raise RecipeError(_one_line(error)) from None


def with_settings(recipe: Recipe, settings: Mapping[str, Any]) -> Recipe:
    """The recipe with some settings changed; keys as in :func:`make_recipe`."""
    tables = recipe.tables()
    for key, value in settings.items():
        _place(tables, key, value)
    return from_tables(tables)


def read_recipe(path: Path) -> Recipe:
    """A recipe as a run directory holds it."""
    return from_tables(_read(path))


def to_toml(tables: Mapping[str, Any], prefix: str = "") -> str:
    """Plain tables as TOML: values first, then the tables below them."""
    lines = [
        # JSON's numbers, strings, booleans and flat lists are valid TOML.
        f"{key} = {json.dumps(value, ensure_ascii=False)}"
        for key, value in tables.items()
        if not isinstance(value, Mapping) and value is not None
    ]
    for key, value in tables.items():
        if isinstance(value, Mapping):
            body = to_toml(value, f"{prefix}{key}.")
            lines.append(f"\n[{prefix}{key}]\n{body}".rstrip())
    return "\n".join(lines) + "\n"


def _without_none(tables: Tables) -> Tables:
    return {
        key: _without_none(value) if isinstance(value, dict) else value
        for key, value in tables.items()
        if value is not None
    }


# -- putting it together --------------------------------------------------------------------------


def _shipped(dataset: str, backbone: str) -> Tables:
    if backbone == "wrapped":  # how to train on the data is known, if not with which network
        return {k: v for k, v in _shipped(dataset, "gin").items() if k != "backbone"}
    family = recipe_family(dataset)
    folder = resources.files("gsat") / "recipes"
    for name in (f"{family}-{backbone}.toml", f"default-{backbone}.toml"):
        file = folder / name
        if file.is_file():
            return tomllib.loads(file.read_text(encoding="utf-8"))
    return {}


def _for_method(tables: Tables, method: str) -> Tables:
    """``[training.NAME]`` of this method, or else of the one it is based on, over ``[training]``;
    those of others are left out."""
    if "training" not in tables:
        return tables
    training = _table(tables, "training")
    basis = METHODS[method].based_on if method in METHODS else None
    own = {name: value for name, value in training.items() if name not in METHODS}
    for name in (basis, method):
        own |= _table(training, name, "training.") if name else {}
    return {**tables, "training": own}


def _read(path: Path) -> Tables:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecipeError(f"can't read the recipe {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path} is not a TOML file: {error}") from None


def _table(tables: Tables, name: str, within: str = "") -> Tables:
    """One of the tables below ``tables``; an absent one is empty."""
    found = tables.get(name, {})
    if not isinstance(found, Mapping):
        raise RecipeError(
            f"setting '{within}{name}': a table of settings was needed, not {found!r}"
        )
    return dict(found)


def _merge(into: Tables, over: Tables) -> None:
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], dict(value))
        else:
            into[key] = copy.deepcopy(value)


def _parse_pair(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise RecipeError(f"a setting is written key=value, not {text!r}")
    try:
        parsed = tomllib.loads(f"v = {value.strip()}")
    except tomllib.TOMLDecodeError:
        parsed = {}
    # A bare word is a text, and so is what holds more than one value.
    return key.strip(), parsed["v"] if len(parsed) == 1 else value.strip()


def _check_known(what: str, name: Any, known: Iterable[str]) -> None:
    if str(name) not in known:
        raise RecipeError(f"there is no {what} '{name}': there are {', '.join(known)}")


def _known_keys(tables: Tables) -> list[str]:
    method, backbone = tables["method"]["name"], tables["backbone"]["name"]
    _check_known("method", method, METHODS)
    _check_known("backbone", backbone, BACKBONE_SETTINGS)
    return [
        "seed",
        "data.data_seed",
        "data.split_seed",
        *(f"data.{name}" for name in options_type(tables["data"]["name"]).model_fields),
        *(
            f"backbone.{name}"
            for name in BACKBONE_SETTINGS[backbone].model_fields
            if name != "name"
        ),
        *(f"training.{name}" for name in TrainingSettings.model_fields),
        *(f"method.{method}.{name}" for name in METHODS[method].Settings.model_fields),
    ]


def full_key(tables: Tables, key: str) -> str:
    """The full name of a setting of a recipe, which may be given by its last part."""
    known = _known_keys(tables)
    full = [k for k in known if k == key] or [k for k in known if k.rsplit(".", 1)[-1] == key]
    if len(full) != 1:
        if full:
            raise RecipeError(f"the setting '{key}' could be {' or '.join(full)}: write it in full")
        names = known + [k.rsplit(".", 1)[-1] for k in known]
        close = difflib.get_close_matches(key, names, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(known)}"
        raise RecipeError(f"there is no setting '{key}': {hint}")
    return full[0]


def _place(tables: Tables, key: str, value: Any) -> None:
    *path, last = full_key(tables, key).split(".")
    table = tables
    for part in path:
        table = table.setdefault(part, {})
    table[last] = value


def _one_line(error: ValidationError) -> str:
    first = error.errors()[0]
    loc = first["loc"]
    if loc[0] == "backbone":
        loc = (loc[0], *loc[2:])  # pydantic names the kind of backbone in between
    where = ".".join(str(part) for part in loc)
    if first["type"] == "extra_forbidden":
        return f"there is no setting '{where}' in this recipe"
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"setting '{where}': {first['msg'].lower()}, not {first['input']!r}{more}"
