"""The source files of the package, parsed, for the tests that hold its rules."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "gsat"


@cache
def modules() -> dict[str, Path]:
    """The file of each module, by dotted name; a package stands for its ``__init__.py``."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree(module: str) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(modules()[module].read_text(encoding="utf-8"))


def contributed(decorator: str) -> str:
    """The example of CONTRIBUTING.md that a decorator registers."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (found,) = [block for block in blocks if f"@{decorator}(" in block]
    return found


def relative(path: Path) -> str:
    """A path as messages show it."""
    return path.relative_to(ROOT).as_posix()


def is_type_checking(node: ast.AST) -> bool:
    """Whether a statement is ``if TYPE_CHECKING:``."""
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def imports(
    module: str, *, everywhere: bool = True, types: bool = False
) -> Iterator[tuple[str, int]]:
    """The modules of the package that a module imports, with line numbers.

    ``from gsat.core import files`` is an import of ``gsat.core.files``; ``from gsat.graphs import
    GraphStore`` one of ``gsat.graphs``.

    Args:
        module: Dotted name of the importing module.
        everywhere: ``False`` leaves out the imports inside functions. (default: ``True``)
        types: Include the imports under ``if TYPE_CHECKING``. (default: ``False``)
    """
    for node in _statements(tree(module), everywhere, types):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in modules():
                    yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            origin = _origin(module, node)
            if origin not in modules():
                continue
            for alias in node.names:
                inner = f"{origin}.{alias.name}"
                yield (inner if inner in modules() else _home(origin, alias.name)), node.lineno


def _origin(module: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = module.split(".") + ["__init__"] * (modules()[module].name == "__init__.py")
    return ".".join([*package[: -node.level], *filter(None, [node.module])])


def _home(origin: str, name: str) -> str:
    """Where a name of ``gsat`` itself, which are loaded when first used, comes from."""
    if origin != "gsat":
        return origin
    for node in ast.walk(tree("gsat")):
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
            return node.module or origin
    return origin


def _statements(parent: ast.AST, everywhere: bool, types: bool) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(parent):
        function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if is_type_checking(node) and not types:
            for other in getattr(node, "orelse", []):
                yield other
                yield from _statements(other, everywhere, types)
        elif everywhere or not function:
            yield node
            yield from _statements(node, everywhere, types)
