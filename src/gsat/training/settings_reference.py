"""Every setting of a recipe by its key, such as ``training.lr`` or ``method.gsat.r_final``."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, NonNegativeInt, PositiveInt

from gsat.core.errors import RecipeError
from gsat.core.registry import BACKBONES, METHODS
from gsat.core.settings import SettingInfo, Settings, describe
from gsat.datasets.registry import dataset_names, describe_options, is_path
from gsat.methods.base import TrainingSettings

# Names that select a settings class.
_NAMES = (("data", "name"), ("backbone", "name"))
MOST_MEMBERS = 1000  # of an ensemble


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
    return [
        *describe(RunSettings),
        *_prefixed("data", "", describe(DataSettings)),
        *_prefixed("training", "", describe(TrainingSettings)),
    ]


def _of_data(dataset: str) -> list[SettingInfo]:
    return _prefixed("data", dataset, describe_options(dataset))


def _of_backbone(backbone: str) -> list[SettingInfo]:
    return _prefixed("backbone", backbone, describe(BACKBONES[backbone].Settings))


def _of_method(method: str) -> list[SettingInfo]:
    return _prefixed(f"method.{method}", method, describe(METHODS[method].Settings))


def _prefixed(table: str, owner: str, infos: list[SettingInfo]) -> list[SettingInfo]:
    return [
        replace(info, name=f"{table}.{info.name}", owner=owner)
        for info in infos
        if (table, info.name) not in _NAMES
    ]
