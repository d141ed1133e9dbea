"""Docstrings: every public name has one, arguments stand one to a line, and the examples run."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from source_tree import modules, relative, tree

Function = ast.FunctionDef | ast.AsyncFunctionDef
SECTIONS = ("Args", "Attributes")
# Classes whose fields are described where they are declared: Field(description=...).
DESCRIBED = {"BaseModel", "Settings", "FileModel"}


@dataclass(frozen=True)
class Item:
    """A class or function of the package.

    Attributes:
        module: Dotted name of its module.
        name: Its name within the module, such as ``GSAT.forward``.
        node: Its definition.
        parent: The class it is a method of, if any.
    """

    module: str
    name: str
    node: ast.ClassDef | Function
    parent: ast.ClassDef | None = None

    @property
    def doc(self) -> str:
        return ast.get_docstring(self.node) or ""

    def __str__(self) -> str:
        return f"{relative(modules()[self.module])}:{self.node.lineno} {self.name}"


def _items(module: str) -> Iterator[Item]:
    """The classes, functions and methods of a module; not those inside functions."""

    def walk(body: list[ast.stmt], prefix: str, parent: ast.ClassDef | None) -> Iterator[Item]:
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield Item(module, prefix + node.name, node, parent)
                yield from walk(node.body, f"{prefix}{node.name}.", node)
            elif isinstance(node, Function):
                yield Item(module, prefix + node.name, node, parent)
            elif isinstance(node, ast.If | ast.Try):
                yield from walk(node.body, prefix, parent)

    return walk(tree(module).body, "", None)


def _decorators(node: ast.ClassDef | Function) -> set[str]:
    return {ast.unparse(d).split("(")[0].rsplit(".", 1)[-1] for d in node.decorator_list}


def _is_public(item: Item) -> bool:
    # A setter or an overload shares the docstring of the name it belongs to.
    repeated = {"setter", "deleter", "overload"} & _decorators(item.node)
    return not repeated and not any(part.startswith("_") for part in item.name.split("."))


@cache
def _classes() -> dict[str, list[Item]]:
    """All classes of the package by their own names."""
    found: dict[str, list[Item]] = {}
    for module in modules():
        for item in _items(module):
            if isinstance(item.node, ast.ClassDef):
                found.setdefault(item.node.name, []).append(item)
    return found


def _ancestors(node: ast.ClassDef) -> Iterator[ast.ClassDef | str]:
    """The bases of a class and theirs: definitions in the package, names of others."""
    for base in node.bases:
        name = ast.unparse(base).split("[")[0].rsplit(".", 1)[-1]
        yield name
        for item in _classes().get(name, []):
            assert isinstance(item.node, ast.ClassDef)
            if item.node is not node:
                yield item.node
                yield from _ancestors(item.node)


def _inherited(item: Item) -> Iterator[str]:
    """The docstrings of the methods that a method overrides."""
    for base in _ancestors(item.parent) if item.parent else ():
        for node in base.body if isinstance(base, ast.ClassDef) else ():
            if isinstance(node, Function) and node.name == item.node.name:
                yield ast.get_docstring(node) or ""


def _arguments(node: Function, method: bool) -> list[str]:
    arguments = [*node.args.posonlyargs, *node.args.args]
    if method and "staticmethod" not in _decorators(node):
        arguments = arguments[1:]
    more = [node.args.vararg, *node.args.kwonlyargs, node.args.kwarg]
    names = [argument.arg for argument in [*arguments, *filter(None, more)]]
    return [name for name in names if not name.startswith("_")]


def _fields(node: ast.ClassDef) -> Iterator[ast.AnnAssign]:
    for field in node.body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            hidden = field.target.id.startswith("_") or "ClassVar" in ast.unparse(field.annotation)
            if not hidden and "init=False" not in ast.unparse(field).replace(" ", ""):
                yield field


def _parameters(item: Item) -> list[str]:
    """What a call of the item takes: the arguments, or the fields of a data class."""
    if isinstance(item.node, Function):
        if {"property", "cached_property"} & _decorators(item.node):
            return []
        return _arguments(item.node, item.parent is not None)
    for node in item.node.body:
        if isinstance(node, Function) and node.name == "__init__":
            return _arguments(node, True)
    described = DESCRIBED & {base for base in _ancestors(item.node) if isinstance(base, str)}
    if "dataclass" in _decorators(item.node) or described:
        return [
            ast.unparse(field.target)
            for field in _fields(item.node)
            if not (described and field.value and "description=" in ast.unparse(field.value))
        ]
    return []


def _section(doc: str, title: str) -> list[str]:
    """The lines of a section, without their indent; empty if there is no such section."""
    lines = doc.splitlines()
    if f"{title}:" not in lines:
        return []
    inside = []
    for line in lines[lines.index(f"{title}:") + 1 :]:
        if line and not line.startswith(" "):
            break
        inside.append(line.removeprefix("    "))
    return inside


def _documented(doc: str) -> list[str]:
    """The names under ``Args:`` and ``Attributes:``, one from each line that begins with one."""
    lines = [line for title in SECTIONS for line in _section(doc, title)]
    matches = (re.match(r"\*{0,2}(\w+)(?: \([^)]*\))?:(?: |$)", line) for line in lines)
    return [match.group(1) for match in matches if match]


@cache
def _exported() -> list[Item]:
    """What the packages export in ``__all__``."""
    found: dict[tuple[str, str], Item] = {}
    for module, path in modules().items():
        if path.name != "__init__.py":
            continue
        for node in tree(module).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            if any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets):
                for name in ast.literal_eval(node.value):  # type: ignore[attr-defined]
                    if (item := _definition(module, name)) is not None:
                        found[item.module, item.name] = item
    return list(found.values())


def _definition(module: str, name: str) -> Item | None:
    """Where a name of a module is defined; None for a constant or a name of another package."""
    for item in _items(module):
        if item.name == name:
            return item
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.ImportFrom) and node.module in modules():
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _definition(node.module, alias.name)
    return None


@pytest.mark.parametrize("module", modules())
def test_every_public_name_has_a_docstring(module: str) -> None:
    bare = [
        str(item)
        for item in _items(module)
        if _is_public(item) and not item.doc and not any(_inherited(item))
    ]
    assert ast.get_docstring(tree(module)), f"{module} has no docstring"
    assert not bare, "\n".join(["no docstring:", *bare])


@pytest.mark.parametrize("module", modules())
def test_the_first_line_of_a_docstring_is_a_sentence_of_its_own(module: str) -> None:
    torn = [
        str(item)
        for item in _items(module)
        if _is_public(item) and item.doc and item.doc.splitlines()[0].rstrip()[-1] not in ".:?"
    ]
    assert not torn, "\n".join(["the first line runs on into the second:", *torn])


@pytest.mark.parametrize("module", modules())
def test_arguments_stand_one_to_a_line(module: str) -> None:
    wrong = []
    for item in _items(module):
        lines = [line for title in SECTIONS for line in _section(item.doc, title)]
        names = {*_parameters(item), *_documented(item.doc)}
        if isinstance(item.node, ast.ClassDef):
            names |= {ast.unparse(field.target) for field in _fields(item.node)}
        for line in lines:
            # `x: [N]. y: [M]`, `x: [N], y: [M]` and, at the beginning of an entry, `x, y: [N]`.
            second = set(re.findall(r"[.;,] (\w+):(?= )", line)) & names
            if second or re.search(r"\. [a-z_]+: |^\w+(, \w+)+: ", line):
                wrong.append(f"{item}: {line.strip()}")
    assert not wrong, "\n".join(["two arguments on one line:", *wrong])


@pytest.mark.parametrize("module", modules())
def test_documented_arguments_exist(module: str) -> None:
    wrong = []
    for item in _items(module):
        if isinstance(item.node, Function):
            unknown = set(_documented(item.doc)) - set(_parameters(item))
            wrong += [f"{item}: {', '.join(sorted(unknown))}"] * bool(unknown)
    assert not wrong, "\n".join(["documented, but no argument:", *wrong])


@pytest.mark.parametrize("item", _exported(), ids=lambda item: f"{item.module}.{item.name}")
def test_exported_names_document_their_arguments(item: Item) -> None:
    candidates = [item]
    if isinstance(item.node, ast.ClassDef):
        candidates += [
            Item(item.module, f"{item.name}.{node.name}", node, item.node)
            for node in item.node.body
            if isinstance(node, Function)
        ]
    wrong = []
    for candidate in filter(_is_public, candidates):
        docs = [candidate.doc, *_inherited(candidate)]
        if isinstance(candidate.node, ast.ClassDef):
            docs += [ast.get_docstring(n) or "" for n in candidate.node.body if _is_init(n)]
        documented = {name for doc in docs for name in _documented(doc)}
        missing = [name for name in _parameters(candidate) if name not in documented]
        wrong += [f"{candidate}: {', '.join(missing)}"] * bool(missing)
    assert not wrong, "\n".join(["arguments without a line under `Args:`:", *wrong])


def _is_init(node: ast.stmt) -> bool:
    return isinstance(node, Function) and node.name == "__init__"


def test_the_public_names_are_among_the_exported_ones() -> None:
    assert {"GSAT", "GIN", "load_dataset", "train"} <= {item.name for item in _exported()}


@pytest.mark.parametrize(
    "module", [name for name, path in modules().items() if ">>> " in path.read_text("utf-8")]
)
def test_examples_run(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # an example may write files
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for example in doctest.DocTestFinder(recurse=True).find(importlib.import_module(module)):
        runner.run(example, out=report.append)
    assert runner.tries > 0
    assert not runner.failures, "".join(report)
