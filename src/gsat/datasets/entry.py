"""What the registry knows of a data set: its name, its options, its files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gsat.datasets.fetch.raw_files import RawFile
from gsat.errors import DataError


@dataclass(frozen=True)
class Option:
    """A choice a data set offers, with its default; no ``choices`` means any value of its type."""

    default: Any
    help: str
    choices: tuple[Any, ...] = ()

    def check(self, name: str, value: Any) -> Any:
        """The value in the default's type, or an error."""
        wanted = type(self.default)
        if wanted is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is not wanted:
            raise DataError(f"data option '{name}' takes {wanted.__name__}, not {value!r}")
        if self.choices and value not in self.choices:
            allowed = ", ".join(map(str, self.choices))
            raise DataError(f"data option '{name}' is one of {allowed}, not {value!r}")
        return value


@dataclass(frozen=True)
class Entry:
    """A data set: its name (or a pattern of names), its module and what it needs.

    The module offers ``build(name, options) -> GraphStore``, ``split(store, seed, options) ->
    dict of positions``, ``TASK`` (or ``TASK(name, options)``), ``matches_paper(name, options)``,
    ``SPLIT_OPTIONS`` (options that do not touch the graphs) and a ``VERSION`` that is raised when
    what it builds changes. If splits share graphs on purpose, ``overlap(options)`` says why. Where
    files named by an option decide the graphs, ``identity(options)`` is a text that changes with
    them. Where nodes are parts of an image, ``places(x)`` says for pictures where they are and how
    bright.
    """

    name: str
    summary: str
    module: str
    pattern: str = ""
    options: Mapping[str, Option] = field(default_factory=dict)
    # Raw files by option value: () means none are needed.
    files: Mapping[str, tuple[RawFile, ...]] = field(default_factory=dict)

    def matches(self, name: str) -> bool:
        """Whether this entry answers to ``name``."""
        return name == self.name or bool(self.pattern and re.fullmatch(self.pattern, name))

    def resolve(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All options with their values; unknown ones are an error."""
        for name in given:
            if name not in self.options:
                known = ", ".join(self.options) or "none"
                raise DataError(f"{self.name} has no option '{name}'; its options: {known}")
        return {n: o.check(n, given.get(n, o.default)) for n, o in self.options.items()}

    def raw_files(self, options: Mapping[str, Any]) -> tuple[RawFile, ...]:
        """The raw files these options need."""
        return self.files.get(str(options.get("source", "")), ())
