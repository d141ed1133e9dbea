"""Strict parsing of untrusted JSON and TOML, and validation against schemas.

Parsed values are nested at most :data:`DEPTH` deep and contain no duplicate keys, no number beyond
64-bit integers and finite floats, and no control characters. Anything else raises
:class:`ParseError`, a ``ValueError``.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from gsat.core.errors import escape_controls, shown

DEPTH: Final = 32
# A dotted key such as a.b.c; tomllib takes quadratic time in the number of its parts.
_PART: Final = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
_LONG_KEY: Final = re.compile(rf"""(?<![\w"'-])(?:{_PART}\.[ \t]*+){{{DEPTH}}}""")
_WHITESPACE: Final = {ord("\n"): " ", ord("\t"): " ", ord("\r"): " "}


class ParseError(ValueError):
    """A text is not JSON or TOML, or contains values that are not allowed."""


def parse_json(text: str | bytes, *, infinite: bool = False, any_text: bool = False) -> Any:
    """Parse a JSON document."""
    try:
        values = json.loads(_decode(text), object_pairs_hook=unique_keys)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise ParseError(f"it is not JSON: {shown(str(error))}") from None
    check_plain(values, infinite=infinite, any_text=any_text)
    return values


def parse_toml(text: str | bytes) -> dict[str, Any]:
    """Parse a TOML document."""
    decoded = _decode(text)
    if _LONG_KEY.search(decoded):
        raise ParseError(f"a key has more than {DEPTH} parts")
    try:
        values = tomllib.loads(decoded)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:  # also for numbers of 4301 digits and impossible dates
        raise ParseError(f"it is not TOML: {shown(str(error))}") from None
    check_plain(values)
    return values


def check_plain(value: Any, *, infinite: bool = False, any_text: bool = False) -> None:
    """Raise unless plain values keep to the limits in this module's docstring."""
    pending: list[tuple[Any, int]] = [(value, 0)]  # no recursion: deep values would overflow it
    while pending:
        item, depth = pending.pop()
        if isinstance(item, str):
            text = item.translate(_WHITESPACE)
            if not any_text and escape_controls(text) != text:
                raise ParseError(f"a text contains control characters: {shown(item, 40)}")
        elif isinstance(item, float):
            if not infinite and not math.isfinite(item):
                raise ParseError(f"a number is {item}, it must be finite")
        elif isinstance(item, int):
            if not -(2**63) <= item < 2**64:
                raise ParseError(f"a number is too large: {shown(item, 40)}")
        elif isinstance(item, (dict, list)):
            if depth == DEPTH:
                raise _too_deep()
            if isinstance(item, list) and _are_plain_numbers(item):
                continue
            keys, values = (item, item.values()) if isinstance(item, dict) else ((), item)
            pending.extend((inner, depth + 1) for inner in (*keys, *values))


def _are_plain_numbers(values: list[Any]) -> bool:
    """Whether a list holds valid numbers only: a fast path for the rows of graphs."""
    if not values or set(map(type, values)) - {int, float}:
        return False
    try:
        finite = all(map(math.isfinite, values))
    except OverflowError:  # an integer beyond the range of floats
        return False
    return finite and min(values) >= -(2**63) and max(values) < 2**64


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict of the pairs of a JSON object; a duplicate key is an error."""
    values = dict(pairs)
    if len(values) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ParseError(f"the key '{shown(key, 40)}' occurs twice")
            seen.add(key)
    return values


class FileModel(BaseModel):
    """Base class of file schemas: exact types and finite numbers; additional keys are allowed.

    Files of later versions may contain keys that this version does not know.
    """

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False, extra="allow")


AnyModel = TypeVar("AnyModel", bound=BaseModel)


def check_model(model: type[AnyModel], values: Any) -> AnyModel:
    """Validate plain values against a schema."""
    if not isinstance(values, Mapping):
        raise ParseError(f"a table of values was needed, not {shown(values, 40)}")
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        what = first["msg"][:1].lower() + first["msg"][1:]
        raise ParseError(
            f"'{shown(where, 60)}': {shown(what, 100)}, not {shown(first['input'], 40)}"
        ) from None


def _decode(text: str | bytes) -> str:
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ParseError(
            f"it is not UTF-8: byte {error.start} is {text[error.start]:#04x}"
        ) from None


def _too_deep() -> ParseError:
    return ParseError(f"it is nested more than {DEPTH} deep")
