"""Untrusted JSON and TOML: harmless values are parsed, others are refused in one line."""

from __future__ import annotations

import json
import math
import time

import pytest
from pydantic import Field

from gsat.core.errors import GSATError, printable, shown
from gsat.core.parsing import DEPTH, FileModel, ParseError, check_model, parse_json, parse_toml
from gsat.core.settings import parse_value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 100_000, "nested more than"),
        ("[" * (DEPTH + 1) + "]" * (DEPTH + 1), "nested more than"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "nested more than"),
        ('{"b": 0, "a": 1, "a": 2}', "'a'"),
        ("[1e999]", "must be finite"),
        ("[NaN]", "must be finite"),
        (f"[1{'0' * 30}]", "too large"),
        (f"[{2**64}]", "too large"),
        (f'{{"a": {2**64}}}', "too large"),
        (f"[{-(2**63) - 1}]", "too large"),
        (f"{-(2**63) - 1}", "too large"),
        (f"[{'1' * 5000}]", "not JSON"),
        ('"\\ud800"', "control characters"),
        ('{"\\u001b[2J": 1}', "control characters"),
        ('"\\u202e"', "control characters"),
        (b"\xff", "not UTF-8: byte 0"),
        ("", "not JSON"),
        ("{", "not JSON"),
    ],
)
def test_unusual_json_is_refused(text: str | bytes, why: str) -> None:
    with pytest.raises(ParseError, match=why) as caught:
        parse_json(text)
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()


def test_other_json_is_parsed_as_by_the_standard_library() -> None:
    values = {"a": [1, -2.5, None, True, "ü\n\t"], "b": {"c": [[]]}, "n": -(2**63), "m": 2**64 - 1}
    assert parse_json(json.dumps(values)) == values
    deepest = "[" * DEPTH + "]" * DEPTH
    assert parse_json(deepest) == json.loads(deepest)
    assert math.isinf(parse_json("[Infinity]", infinite=True)[0])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a = " + "[" * 100_000, "nested more than"),
        ("a = " + "{a=" * 10_000, "nested more than"),
        ("a." * 400_000 + "a = 1", "more than 32 parts"),
        ("x = {" + '"a".' * 100_000 + "a = 1}", "more than 32 parts"),
        ("[" + "a . " * 1000 + "a]", "more than 32 parts"),
        (f"a = {'1' * 5000}", "not TOML"),
        ("a = inf", "must be finite"),
        ("a = 1\na = 2", "not TOML"),
        ('a = "\\u001b"', "control characters"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_unusual_toml_is_refused_at_once(text: str | bytes, why: str) -> None:
    started = time.process_time()
    with pytest.raises(ParseError, match=why):
        parse_toml(text)
    assert time.process_time() - started < 5  # tomllib alone takes hours for a key of many parts


def test_dots_in_values_are_allowed() -> None:
    values = ", ".join(f"{n}.5" for n in range(100))
    assert len(parse_toml(f"a = [{values}]")["a"]) == 100
    assert parse_toml("a.b.c = 1") == {"a": {"b": {"c": 1}}}


@pytest.mark.parametrize("text", ["[" * 50_000, "{" + "a." * 50_000 + "a=1}", "1e999"])
def test_a_setting_that_is_not_a_value_is_a_text(text: str) -> None:
    assert parse_value(text) == text


class Example(FileModel):
    epoch: int = Field(ge=0)
    name: str = ""
    loss: float = 0.0


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([], "a table of values was needed"),
        (None, "a table of values was needed"),
        ({}, "'epoch': field required"),
        ({"epoch": "3"}, "'epoch': input should be a valid integer, not 3"),
        ({"epoch": True}, "'epoch': input should be a valid integer"),
        ({"epoch": -1}, "'epoch': input should be greater"),
        ({"epoch": 1, "loss": math.inf}, "'loss'"),
        ({"epoch": 1, "name": ["x" * 10_000]}, "'name': input should be a valid string"),
    ],
)
def test_errors_of_a_schema_are_short_lines(values: object, why: str) -> None:
    with pytest.raises(ParseError, match=why) as caught:
        check_model(Example, values)
    assert len(str(caught.value)) < 300


def test_a_schema_allows_keys_of_later_versions() -> None:
    assert check_model(Example, {"epoch": 3, "later": 1}).epoch == 3


def test_untrusted_values_are_escaped_and_cut() -> None:
    assert printable("a\x1b[2Jb\u202e\ud800\n") == r"a\x1b[2Jb\u202e\ud800\n"
    assert printable("Größe → 1") == "Größe → 1"
    assert shown("x" * 1000) == "x" * 200 + "…"
    assert shown(10**5000) == "a number of hundreds of digits"
    assert shown(["x" * 10] * 10**6) == "a list of 1000000 values"
    assert len(shown(b"\x00" * 10_000)) < 300
    shared: list[object] = []
    for _ in range(60):
        shared = [shared, shared]  # its repr has 2⁶⁰ parts
    assert shown(shared).startswith("[[[")
    assert str(GSATError("a\x1b[2J")) == r"a\x1b[2J"
