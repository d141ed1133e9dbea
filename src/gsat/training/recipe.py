"""Recipes: every setting of a run, typed, in TOML.

A recipe is put together from the settings' own defaults, the shipped file for the data set and
backbone (``recipes/``), the user's file, then single ``key=value`` settings. In a file,
``[training.NAME]`` goes over ``[training]`` when the method is NAME. A key is written in
full (``method.gsat.r_final``) or, where only one setting has that name, by its last part.
"""

from __future__ import annotations

import copy
import difflib
import hashlib
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any, Final

import tomlkit
from pydantic import ConfigDict, Field, NonNegativeInt, PositiveInt, SerializeAsAny

from gsat.core.errors import GSATError, RecipeError, shown
from gsat.core.files import read_toml
from gsat.core.registry import BACKBONES, DATASETS, METHODS
from gsat.core.settings import (
    ADDED_LATER,
    SettingInfo,
    Settings,
    describe,
    parse_setting,
    validated,
)
from gsat.datasets.load import Dataset, load_dataset
from gsat.datasets.registry import (
    add_default_source,
    dataset_names,
    default_backbone,
    describe_options,
    full_name,
    is_known,
    is_path,
    make_options,
    recipe_family,
)
from gsat.methods.base import TrainingSettings
from gsat.models import BackboneSettings

Tables = dict[str, Any]

MOST_MEMBERS: Final = 1000  # of an ensemble
MOST_NAMED: Final = 6  # settings that describe_origin lists
_FAMILIES: Final = {
    "default": "the defaults for data without a recipe",
    "molecules": "the defaults for molecules",
}


class RunSettings(Settings):
    """The top of a recipe, above its tables."""

    seed: NonNegativeInt = Field(0, description="Decides the split and the training.")
    members: PositiveInt | None = Field(
        None,
        le=MOST_MEMBERS,
        description="Models of an ensemble, trained on one split with seeds of their own; absent: "
        "a single model.",
    )


class DataSettings(Settings):
    """``[data]``: the data set; its own options stand beside the name."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    name: str = Field(description="Name or path of the data set.")
    data_seed: NonNegativeInt = Field(0, description="Decides generated data.")
    split_seed: NonNegativeInt | None = Field(
        None, description="Decides the split; absent: the run's seed."
    )

    @property
    def options(self) -> dict[str, Any]:
        """The data set's own options."""
        return dict(self.model_extra or {})

    @property
    def label(self) -> str:
        """A short name: that of the file or folder, where the data is at a path."""
        return Path(self.name).name.split(".")[0] if is_path(self.name) else self.name


class Recipe(RunSettings):
    """Every setting of a run.

    Attributes:
        seed: Decides the split and the training.
        members: How many models an ensemble has; None for a single model.
        data: The data set and its options.
        backbone: The settings of the backbone, with its ``name``.
        training: The settings all methods share.
        method: The name of the method.
        settings: The method's own settings.
    """

    data: DataSettings
    backbone: SerializeAsAny[BackboneSettings]
    training: TrainingSettings
    method: str
    settings: Any  # of the type the method declares

    @property
    def split_seed(self) -> int:
        """The seed that splits the data."""
        return self.seed if self.data.split_seed is None else self.data.split_seed

    def tables(self) -> Tables:
        """Plain values in the shape of a recipe file."""
        return {
            "seed": self.seed,
            **({} if self.members is None else {"members": self.members}),
            "data": self.data.model_dump(exclude_none=True),
            "backbone": self.backbone.model_dump(),
            "training": self.training.model_dump(),
            "method": {"name": self.method, self.method: self.settings.model_dump()},
        }

    def toml(self) -> str:
        """The recipe as a TOML document."""
        return to_toml(self.tables())

    def hash(self) -> str:
        """A hash of everything but the seed: runs with the same hash differ by seed alone."""
        # Without absent values, so that a new optional setting leaves earlier hashes as they are.
        tables = _without_none(self.tables())
        del tables["seed"]
        for name, field in type(self.settings).model_fields.items():
            if (
                field.json_schema_extra == ADDED_LATER
                and getattr(self.settings, name) == field.default
            ):
                tables["method"][self.method].pop(name, None)
        if tables["training"].get("selection") == "stable":
            tables["training"]["selection"] = "settledness"  # its name in earlier hashes
        return hashlib.sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()[:16]


def make_recipe(
    dataset: str,
    *,
    backbone: str = "",
    method: str = "gsat",
    seed: int | None = None,
    file: str | Path | None = None,
    settings: Mapping[str, Any] | Iterable[str] = (),
    look_for_files: bool = True,
) -> Recipe:
    """Make the recipe for a data set.

    Args:
        dataset: Its name, or the path of your own.
        backbone: The name of the backbone. (default: that of the data set, such as
            ``"dmpnn"`` for tables of molecules and ``ibench-*``, else ``"gin"``)
        method: The name of the method. (default: ``"gsat"``)
        seed: Decides the split and the training. (default: that of ``file``, or ``0``)
        file: A TOML file whose settings go over the shipped ones. (default: none)
        settings: Single settings over those, as a mapping or as ``"key=value"`` texts.
            (default: none)
        look_for_files: Whether a data set without options may be read from files that are on this
            machine, where it is generated on others. Without, the recipe is the same everywhere.
            (default: ``True``)

    Returns:
        The recipe.

    Raises:
        GSATError: If a name or a key is unknown, a type is wrong or a value is out of range.

    Example:
        >>> make_recipe("ba2motifs", settings={"epochs": 5}).training.epochs
        5
    """
    METHODS.check(method)
    dataset = full_name(dataset)
    backbone = backbone or default_backbone(dataset)
    BACKBONES.check(backbone)
    tables: Tables = {
        **({} if seed is None else {"seed": seed}),
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
            written = _table(over, table).get("name", name)
            if written != name:
                raise RecipeError(
                    f"{file} has {table}.name = {shown(repr(written), 60)}, not {name!r}"
                )
        for name in _table(over, "method"):
            if name != "name" and name not in METHODS:
                raise RecipeError(f"there is no setting 'method.{shown(name, 80)}' in this recipe")
        _merge(tables, over if seed is None else {**over, "seed": seed})
    # Only the chosen method's table is part of the recipe; one built on another takes its settings.
    own = _table(tables["method"], method, "method.")
    if basis := METHODS[method].based_on:
        own = {**_table(tables["method"], basis, "method."), **own}
    tables["method"] = {"name": method, method: own}
    tables["backbone"], tables["training"] = _table(tables, "backbone"), _table(tables, "training")
    pairs = settings.items() if isinstance(settings, Mapping) else map(parse_setting, settings)
    for key, value in pairs:
        _place(tables, key, value)
    if look_for_files:
        given = {k: v for k, v in tables["data"].items() if k not in DataSettings.model_fields}
        data_seed = tables["data"].get("data_seed", 0)
        tables["data"] |= add_default_source(dataset, given, data_seed)
    return from_tables(tables)


def from_tables(tables: Tables) -> Recipe:
    """Make a checked recipe from plain tables."""
    tables = copy.deepcopy(tables)
    data, backbone = _table(tables, "data"), _table(tables, "backbone")
    training, chosen = _table(tables, "training"), _table(tables, "method")
    method = str(chosen.get("name", "gsat"))
    METHODS.check(method)
    BACKBONES.check(str(backbone.setdefault("name", "gin")))
    for key in tables:
        if key not in (*RunSettings.model_fields, "data", "backbone", "training", "method"):
            raise RecipeError(f"there is no setting '{shown(key, 80)}' in this recipe")
    if "training" not in tables:
        raise RecipeError("setting 'training': a table of settings was needed")
    if not isinstance(data.get("name"), str):
        raise RecipeError("setting 'data.name': the name of a data set was needed")
    options = {k: v for k, v in data.items() if k not in DataSettings.model_fields}
    data |= make_options(data["name"], options).model_dump()
    own = _table(chosen, method, "method.")

    def checked(kind: type[Any], values: Tables, table: str) -> Any:
        return validated(kind, values, table=table, error=RecipeError)

    parts = {
        "data": checked(DataSettings, data, "data"),
        "backbone": checked(BACKBONES[backbone["name"]].Settings, backbone, "backbone"),
        "training": checked(TrainingSettings, training, "training"),
        "method": method,
        "settings": checked(METHODS[method].Settings, own, f"method.{method}"),
    }
    top = {key: value for key, value in tables.items() if key in RunSettings.model_fields}
    return checked(Recipe, {**top, **parts}, "")


def with_settings(recipe: Recipe, settings: Mapping[str, Any]) -> Recipe:
    """Change some settings of a recipe."""
    tables = recipe.tables()
    for key, value in settings.items():
        _place(tables, key, value)
    return from_tables(tables)


def read_recipe(path: Path) -> Recipe:
    """Read the recipe of a run directory."""
    tables = _read(path)
    for option, registry in (("method", METHODS), ("backbone", BACKBONES), ("dataset", DATASETS)):
        name = _table(tables, "data" if option == "dataset" else option).get("name")
        known = is_known if option == "dataset" else registry.__contains__
        if isinstance(name, str) and not known(name):
            # Never imported because a run names it: only its user may do that.
            raise RecipeError(
                f"{path} needs the {registry.kind} '{shown(name, 80)}', which is unknown here; if "
                f"it is declared in a file of your own, give --{option} file.py:Class, in Python "
                "gsat.core.registry.load_file('file.py:Class')"
            )
    return from_tables(tables)


def load_data(recipe: Recipe) -> Dataset:
    """Load the data set of a recipe, split as the recipe says."""
    data, seed = recipe.data, recipe.split_seed
    return load_dataset(data.name, seed=seed, data_seed=data.data_seed, **data.options)


def complete_recipe(recipe: Recipe, data: Dataset) -> Recipe:
    """Add settings inferred from users' own data: its hash, task, classes and split."""
    inferred = {**recipe.data.model_dump(exclude_none=True), **data.options}
    tables = recipe.tables()
    return recipe if inferred == tables["data"] else from_tables({**tables, "data": inferred})


def describe_origin(recipe: Recipe) -> str:
    """Name the shipped recipe that the settings come from, and the settings that differ."""
    try:
        family = recipe_family(recipe.data.name)
        shipped = make_recipe(
            recipe.data.name, backbone=recipe.backbone.name, method=recipe.method, seed=recipe.seed
        )
    except GSATError:  # the data set, method or backbone is not installed here
        return "of its own"
    expected, own = dict(_flat(shipped.tables())), dict(_flat(recipe.tables()))
    changed = [
        f"{key.rpartition('.')[2]}={shown(value)}"
        for key, value in own.items()
        if key != "members" and not key.startswith("data.") and value != expected.get(key)
    ]
    if len(changed) > MOST_NAMED:
        changed[MOST_NAMED:] = [f"and {len(changed) - MOST_NAMED} others"]
    origin = _FAMILIES.get(family, f"the recipe for {family}")
    if (family, recipe.backbone.name) == ("default", "gin"):
        origin += " (compared with others where explanations are known: docs/defaults.md)"
    return f"{origin}, with {', '.join(changed)}" if changed else origin


def to_toml(tables: Mapping[str, Any]) -> str:
    """Plain tables as a TOML document, without values that are None."""
    return tomlkit.dumps(_values_first(_without_none(dict(tables))))


def _values_first(tables: Tables) -> Tables:
    """The same with values before tables, or they would belong to the last table."""
    ordered = sorted(tables.items(), key=lambda item: isinstance(item[1], Mapping))
    return {k: _values_first(dict(v)) if isinstance(v, Mapping) else v for k, v in ordered}


def _without_none(tables: Tables) -> Tables:
    return {
        key: _without_none(value) if isinstance(value, dict) else value
        for key, value in tables.items()
        if value is not None
    }


# -- putting it together --------------------------------------------------------------------------


def _shipped(dataset: str, backbone: str) -> Tables:
    family = recipe_family(dataset)
    folder = resources.files("gsat") / "recipes"
    for name in (f"{family}-{backbone}.toml", f"default-{backbone}.toml"):
        file = folder / name
        if file.is_file():
            return tomllib.loads(file.read_text(encoding="utf-8"))
    # No recipe for this backbone: use GIN's training settings.
    return {k: v for k, v in _shipped(dataset, "gin").items() if k != "backbone"}


def _for_method(tables: Tables, method: str) -> Tables:
    """Merge ``[training.NAME]`` of this method, or of its base, into ``[training]``."""
    if "training" not in tables:
        return tables
    training = _table(tables, "training")
    basis = METHODS[method].based_on
    own = {name: value for name, value in training.items() if name not in METHODS}
    for name in (basis, method):
        own |= _table(training, name, "training.") if name else {}
    return {**tables, "training": own}


def _read(path: Path) -> Tables:
    # Links are allowed in a path given by the user; a run is checked for links when it is opened.
    return read_toml(path, error=RecipeError, links=True)


def _table(tables: Tables, name: str, within: str = "") -> Tables:
    """One of the tables below ``tables``; an absent one is empty."""
    table = tables.get(name, {})
    if not isinstance(table, Mapping):
        raise RecipeError(
            f"setting '{within}{name}': a table of settings was needed, not {shown(table)}"
        )
    return dict(table)


def _merge(into: Tables, over: Tables) -> None:
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], dict(value))
        else:
            into[key] = copy.deepcopy(value)


def full_key(tables: Tables, key: str) -> str:
    """Find the full key of a setting, which may be given by its last part."""
    known = keys_of(*(str(tables[table]["name"]) for table in ("data", "backbone", "method")))
    full = [k for k in known if k == key] or [k for k in known if k.rsplit(".", 1)[-1] == key]
    if len(full) > 1:
        raise RecipeError(f"the setting '{key}' could be {' or '.join(full)}: write it in full")
    if not full:
        raise RecipeError(f"there is no setting '{shown(key, 80)}'{suggest(key, known)}")
    return full[0]


def _place(tables: Tables, key: str, value: Any) -> None:
    *path, last = full_key(tables, key).split(".")
    table = tables
    for part in path:
        table = table.setdefault(part, {})
    table[last] = value


def _flat(tables: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{within}{key}.")
        else:
            yield f"{within}{key}", value


# -- all settings by key ---------------------------------------------------------------------------


def keys_of(dataset: str, backbone: str, method: str) -> list[str]:
    """The keys of all settings of a recipe."""
    infos = [*_common(), *_of_data(dataset), *_of_backbone(backbone), *_of_method(method)]
    first = ("seed", "members", "data")  # in the order of a recipe file
    return sorted((info.name for info in infos), key=lambda key: not key.startswith(first))


def describe_settings(name: str | None = None) -> list[SettingInfo]:
    """List settings with their types, defaults, ranges and meanings."""
    if name in METHODS:
        return _of_method(str(name))
    if name in BACKBONES:
        return _of_backbone(str(name))
    if name in dataset_names():
        return [info for info in _common() if info.name.startswith("data.")] + _of_data(str(name))
    infos = [
        *_common(),
        *(info for backbone in BACKBONES for info in _of_backbone(backbone)),
        *(info for method in METHODS for info in _of_method(method)),
        *(info for dataset in dataset_names() for info in _of_data(dataset)),
    ]
    if name is None:
        return infos
    matches = [info for info in infos if info.name == name]
    matches = matches or [info for info in infos if info.name.startswith(f"{name}.")]
    matches = matches or [info for info in infos if info.name.rsplit(".", 1)[-1] == name]
    if not matches:
        hint = suggest(name, [info.name for info in infos])
        raise RecipeError(f"there is no setting '{name}'{hint}")
    return matches


def suggest(name: str, keys: Iterable[str]) -> str:
    """The end of a message: the key, in full or by its last part, that is closest to a name."""
    known = list(dict.fromkeys(keys))
    close = difflib.get_close_matches(name, known + [k.rsplit(".", 1)[-1] for k in known], n=1)
    return f": did you mean '{close[0]}'?" if close else f": known: {', '.join(known)}"


def _common() -> list[SettingInfo]:
    data = [info for info in describe(DataSettings) if info.name != "name"]
    training = describe(TrainingSettings)
    return [
        *describe(RunSettings),
        *_prefixed("data", "", data),
        *_prefixed("training", "", training),
    ]


def _of_data(dataset: str) -> list[SettingInfo]:
    return _prefixed("data", dataset, describe_options(dataset))


def _of_backbone(backbone: str) -> list[SettingInfo]:
    infos = describe(BACKBONES[backbone].Settings)
    return _prefixed("backbone", backbone, [info for info in infos if info.name != "name"])


def _of_method(method: str) -> list[SettingInfo]:
    return _prefixed(f"method.{method}", method, describe(METHODS[method].Settings))


def _prefixed(table: str, owner: str, infos: list[SettingInfo]) -> list[SettingInfo]:
    return [replace(info, name=f"{table}.{info.name}", owner=owner) for info in infos]
