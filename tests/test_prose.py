"""Words: retired names do not come back, and errors name Python things, not shell options."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from source_tree import PACKAGE, ROOT, modules, relative, tree

# Names that meant something only in this project; the field has a word for each.
RETIRED_NAMES = re.compile(
    r"\b_?Team\b|\b_?Crew\b|\bAttended\b|\bSlot\b|\bshelf\b|\bsettled?\b|\balone\("
)
RETIRED_IDENTIFIERS = {"said"}  # a plain word in a sentence, but no name for a variable
RETIRED_PHRASES = re.compile(
    r"\bgo(?:es|ing)? on with\b|\bcan't be had\b|\bcaller's own\b|\bas it is said\b"
)
RETIRED_MODULES = ("part", "survey", "others", "styles", "watch")

PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
]
# `--out`, but neither a line of dashes nor a CSS variable.
OPTION = re.compile(r"(?<![\w-])(?<!var\()--[a-z][a-z-]*(?![\w-])(?!:)")
COMMAND = re.compile(r"\bgsat [a-z]+ .*--")
OTHER_PROGRAM = re.compile(r"\b(?:ray start|torchrun|pip install)(?: --?[\w=-]+)+")


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        yield f"{relative(path)}:{number}", line


def _code(path: Path) -> Iterator[tuple[str, str]]:
    """The code in a page: fenced blocks and `spans`, with where it stands."""
    fenced = False
    for place, line in _lines(path):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        yield place, line if fenced else " ".join(re.findall(r"`[^`]+`", line))


@pytest.mark.parametrize("path", [*modules().values(), *PAGES], ids=relative)
def test_retired_names_do_not_come_back(path: Path) -> None:
    lines = _code(path) if path.suffix == ".md" else _lines(path)
    found = [f"{place}: {line.strip()}" for place, line in lines if RETIRED_NAMES.search(line)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("module", modules())
def test_retired_identifiers_do_not_come_back(module: str) -> None:
    lines = {
        getattr(node, "lineno", 0)
        for node in ast.walk(tree(module))
        for field in ("id", "arg", "attr", "name")
        if getattr(node, field, None) in RETIRED_IDENTIFIERS
    }
    assert not lines, f"{relative(modules()[module])}: lines {sorted(lines)}"


@pytest.mark.parametrize("path", [*modules().values(), *PAGES], ids=relative)
def test_retired_phrases_do_not_come_back(path: Path) -> None:
    found = [
        f"{place}: {line.strip()}" for place, line in _lines(path) if RETIRED_PHRASES.search(line)
    ]
    assert not found, "\n".join(found)


def test_retired_modules_do_not_come_back() -> None:
    files = [path for name in RETIRED_MODULES for path in PACKAGE.rglob(f"{name}.py")]
    assert not [relative(path) for path in files]


def _texts(module: str) -> Iterator[tuple[ast.Constant, bool]]:
    """The string literals of a module but for docstrings, and whether each is part of a raise."""
    raised = {
        id(inner)
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Raise)
        for inner in ast.walk(node)
    }
    docstrings = {id(node.value) for node in ast.walk(tree(module)) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree(module)):
        text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if text and id(node) not in docstrings:
            yield node, id(node) in raised


@pytest.mark.parametrize("module", [name for name in modules() if "cli" not in name.split(".")])
def test_messages_of_the_library_name_no_command_line_options(module: str) -> None:
    # A generated page may show a whole command to type; an error message may not.
    found = [
        f"{relative(modules()[module])}:{node.lineno}: {node.value.strip()!r}"
        for node, raised in _texts(module)
        for text in [OTHER_PROGRAM.sub("", str(node.value))]
        if OPTION.search(text) and (raised or not COMMAND.search(text))
    ]
    assert not found, "\n".join(found)
