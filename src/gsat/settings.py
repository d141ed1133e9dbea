"""The base of all settings: one typed declaration, from which recipes, ``--set``, help and docs
are made."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Literal

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined


class Settings(BaseModel):
    """Base of every table of settings.

    A field is declared once, with its type, default, range and description::

        r_final: float = Field(0.7, gt=0, lt=1, description="where r ends")

    Values are checked strictly: ``"3"`` is not 3 and 0.5 is not a number of epochs.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


@dataclass(frozen=True)
class SettingInfo:
    """One setting, as help texts and docs show it.

    Attributes:
        name: its key.
        type: its type in words, such as ``number`` or ``'edge' or 'node'``.
        default: its default as it is written in TOML, or ``required``; ``none`` where it is absent.
        range: its limits in words, such as ``from 0 to below 1``; empty where there are none.
        description: what it means.
    """

    name: str
    type: str
    default: str
    range: str
    description: str


def describe(settings: type[BaseModel]) -> list[SettingInfo]:
    """List the fields of a settings type.

    Args:
        settings: a subclass of :class:`Settings`.

    Returns:
        One entry per field, in the order of declaration.

    Example:
        >>> from pydantic import Field
        >>> class Sampling(Settings):
        ...     temperature: float = Field(1.0, gt=0, description="of the concrete samples")
        >>> describe(Sampling)[0].range
        'above 0'
    """
    return [
        SettingInfo(
            name,
            _type_in_words(field.annotation),
            _default_in_words(field),
            _range_in_words(field),
            field.description or "",
        )
        for name, field in settings.model_fields.items()
    ]


_WORDS: dict[Any, str] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
}


def _type_in_words(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type_in_words(arguments[0])
    if origin is Literal:
        return " or ".join(repr(choice) for choice in arguments)
    if origin in (UnionType, typing.Union):
        return " or ".join(_type_in_words(part) for part in arguments if part is not NoneType)
    if origin in (list, tuple):
        return f"list of {_type_in_words(arguments[0])}"
    return _WORDS.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _default_in_words(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if default is None or default is PydanticUndefined:
        return "none"
    if isinstance(default, bool):
        return str(default).lower()
    return repr(default)


def _range_in_words(field: FieldInfo) -> str:
    limits = list(field.metadata)
    for part in typing.get_args(field.annotation) or ():
        if typing.get_origin(part) is typing.Annotated:  # as in PositiveInt | None
            limits += typing.get_args(part)[1:]
    low = high = size = ""
    for limit in limits:
        match limit:
            case Gt(gt=value):
                low = f"above {value}"
            case Ge(ge=value):
                low = f"from {value}"
            case Lt(lt=value):
                high = f"below {value}"
            case Le(le=value):
                high = f"to {value}"
            case MinLen(min_length=value):
                size = f"at least {value}"
    if low.startswith("from") and high.startswith("below"):
        high = f"to {high}"
    elif low.startswith("above") and high:
        high = f"and {high.replace('to', 'up to', 1) if high.startswith('to') else high}"
    return " ".join(part for part in (low, high, size) if part)
