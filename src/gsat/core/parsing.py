"""JSON and TOML from strangers: parsed strictly, so that what is returned is harmless.

What was parsed is nested at most :data:`DEPTH` deep, has no key twice, no number that neither a
64-bit integer nor a finite float can hold, and no text that a terminal would obey. Everything else
is a :class:`ParseError`, which is a ``ValueError``.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from typing import Any, Final

from gsat.core.errors import escape_controls, shown

DEPTH: Final = 32
# A key such as a.b.c; tomllib takes the square of the number of its parts.
_PART: Final = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
_LONG_KEY: Final = re.compile(rf"""(?<![\w"'-])(?:{_PART}\.[ \t]*+){{{DEPTH}}}""")


class ParseError(ValueError):
    """A text is not JSON or TOML, or holds what no file of ours does."""


def parse_json(text: str | bytes, *, infinite: bool = False, any_text: bool = False) -> Any:
    """Parse a JSON document."""
    try:
        found = json.loads(_decoded(text), object_pairs_hook=unique_keys)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise ParseError(f"it is not JSON: {shown(str(error))}") from None
    check_plain(found, infinite=infinite, any_text=any_text)
    return found


def parse_toml(text: str | bytes) -> dict[str, Any]:
    """Parse a TOML document."""
    decoded = _decoded(text)
    if _LONG_KEY.search(decoded):
        raise ParseError(f"a key has more than {DEPTH} parts")
    try:
        found = tomllib.loads(decoded)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:  # also a number of 4301 digits, a date that does not exist
        raise ParseError(f"it is not TOML: {shown(str(error))}") from None
    check_plain(found)
    return found


def check_plain(value: Any, *, infinite: bool = False, any_text: bool = False) -> None:
    """Raise unless plain values are harmless; see the head of this module."""
    left: list[tuple[Any, int]] = [(value, 0)]  # not by recursion, which deep values would break
    while left:
        one, depth = left.pop()
        if isinstance(one, str) and any_text:
            continue
        if isinstance(one, str):
            plain = one.translate(_LINES)
            if escape_controls(plain) != plain:
                raise ParseError(f"a text contains control characters: {shown(one, 40)}")
        elif isinstance(one, float):
            if not infinite and not math.isfinite(one):
                raise ParseError(f"a number is {one}, it must be finite")
        elif isinstance(one, int):
            if not -(2**63) <= one < 2**64:
                raise ParseError(f"a number is too large: {shown(one, 40)}")
        elif isinstance(one, (dict, list)):
            if depth == DEPTH:
                raise _too_deep()
            if isinstance(one, dict):
                left.extend((key, depth + 1) for key in one)
            elif _plain_numbers(one):
                continue
            left.extend((item, depth + 1) for item in _items(one))


_LINES: Final = {ord("\n"): " ", ord("\t"): " ", ord("\r"): " "}


def _plain_numbers(values: list[Any]) -> bool:
    """Whether these are numbers that nothing is wrong with: most of a graph is such rows."""
    if not values or set(map(type, values)) - {int, float}:
        return False
    try:
        finite = all(map(math.isfinite, values))
    except OverflowError:  # of a whole number that no float can hold
        return False
    return finite and min(values) >= -(2**63) and max(values) < 2**64


def _items(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict of the pairs of a JSON object; a key that is there twice is an error."""
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ParseError(f"the key '{shown(twice, 40)}' is there twice")
    return made


def _decoded(text: str | bytes) -> str:
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
