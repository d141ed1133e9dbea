"""Base class of all settings: constructors, recipes, ``--set``, help and docs come from it."""

from __future__ import annotations

import difflib
import inspect
import re
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from gsat.core.errors import SHOWN_CHARACTERS, GSATError, RecipeError, shown
from gsat.core.parsing import ParseError, parse_toml

# ``json_schema_extra`` of a setting that came after recorded runs: recipe hashes leave out its
# default, which must be what those runs did.
ADDED_LATER: Final[JsonDict] = {"added_later": True}


class Settings(BaseModel):
    """Base class of settings.

    Each field declares its type, default, range and description once::

        r_final: float = Field(0.7, gt=0, lt=1, description="Final value of r.")

    Types are strict: ``"3"`` is not 3 and 0.5 is not a number of epochs.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


AnySettings = TypeVar("AnySettings", bound=Settings)


@dataclass(frozen=True)
class SettingInfo:
    """One setting as help texts and docs show it."""

    name: str
    type: str  # in words, such as "number" or "'edge' or 'node'"
    default: str  # in TOML, or "required" or "none"
    range: str  # in words, such as "from 0 to below 1"; may be empty
    description: str
    owner: str = ""  # method, backbone or data set; empty for common settings


def describe(settings: type[BaseModel]) -> list[SettingInfo]:
    """List the fields of a settings type."""
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


def validated(
    settings: type[AnySettings],
    values: Mapping[str, Any],
    *,
    table: str = "",
    owner: str = "this recipe",
    error: type[GSATError] = GSATError,
) -> AnySettings:
    """Make settings from plain values, with a one-line error for wrong ones."""
    try:
        return settings(**{name: _plain(value) for name, value in values.items()})
    except ValidationError as problem:
        raise error(_one_line(problem, table, owner, settings.model_fields)) from None


def parse_setting(text: str) -> tuple[str, Any]:
    """Parse a setting of the form ``key=value``."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not key:
        raise RecipeError(f"a setting is written key=value, not {shown(text)!r}")
    return key, parse_value(value)


def parse_value(text: str) -> Any:
    """Parse a value as TOML; anything that is not exactly one value is a text."""
    try:
        parsed = parse_toml(f"v = {text}")
    except ParseError:
        return text
    return parsed["v"] if len(parsed) == 1 else text


def signature(
    function: Any, settings: type[BaseModel], leave_out: Iterable[str] = ()
) -> inspect.Signature:
    """Replace ``**settings`` in a function's signature by the fields of a settings type."""
    own = inspect.signature(function)
    named = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
    hidden = {*own.parameters, *leave_out}
    fields = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty
            if field.is_required()
            else field.get_default(call_default_factory=True),
            annotation=field.annotation,
        )
        for name, field in settings.model_fields.items()
        if name not in hidden
    ]
    return own.replace(parameters=[*named, *fields])


def show_settings(cls: type, settings: type[BaseModel], leave_out: Iterable[str] = ()) -> None:
    """Put the fields of a settings type in the place of ``**settings``: in signature and docstring.

    The signature of a class whose constructor takes no ``**settings`` is that constructor's.
    """
    constructor: Any = cls.__init__  # type: ignore[misc]
    own = inspect.signature(constructor).parameters
    shown = inspect.signature(constructor)
    if "settings" in own:
        shown = signature(constructor, settings, leave_out)
        if cls.__doc__:
            lines = argument_lines(settings, leave_out=(*leave_out, *own))
            cls.__doc__ = re.sub(
                r"^ +\*\*settings:.*\n(?:     +.*\n)*",
                lambda _: f"{lines}\n",
                inspect.cleandoc(cls.__doc__),
                flags=re.MULTILINE,
            )
    parameters = [p for name, p in shown.parameters.items() if name != "self"]
    cls.__signature__ = shown.replace(parameters=parameters)  # type: ignore[attr-defined]


def argument_lines(settings: type[BaseModel], leave_out: Iterable[str] = ()) -> str:
    """List the fields of a settings type as a docstring's ``Args:`` section."""
    hidden = set(leave_out)
    return "\n".join(
        f"    {info.name}: {info.description.rstrip('.')}. (default: ``{info.default}``)"
        for info in describe(settings)
        if info.name not in hidden
    )


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    # Convert NumPy scalars without importing NumPy.
    return value.item() if hasattr(value, "item") and not getattr(value, "shape", 1) else value


def _one_line(
    problem: ValidationError, table: str, owner: str, fields: Mapping[str, FieldInfo]
) -> str:
    first = problem.errors()[0]
    prefix = f"{table}." if table else ""
    where = shown(prefix + ".".join(map(str, first["loc"])), 80)
    if first["type"] == "extra_forbidden":
        close = difflib.get_close_matches(str(first["loc"][0]), list(fields), n=1)
        hint = f": did you mean '{prefix}{close[0]}'?" if close else ""
        return f"there is no setting '{where}' in {owner}{hint}"
    count = problem.error_count() - 1
    more = f" (and {count} more)" if count else ""
    message = first["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    if first["type"] == "value_error":  # raised by our validators; already complete
        return f"setting '{where}': {message}{more}"
    value = first["input"]
    value = repr(value[:SHOWN_CHARACTERS]) if isinstance(value, str) else value
    return f"setting '{where}': {message}, not {shown(value)}{more}"


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
    return repr(default)  # numbers, texts and flat lists are valid TOML


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
