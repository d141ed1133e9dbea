"""The layout of the package: the direction of imports, and no cycles."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter

import pytest

from source_tree import imports, modules, relative, tree

# Top to bottom: a module imports from its own package or layer and from those above it, nowhere
# from below, neither at the top of the file nor inside a function.
LAYERS = (
    ("core", "registry"),
    ("tasks", "metrics", "metric_names", "ranks"),
    ("launch",),
    ("graphs",),
    ("ops",),
    ("molecules",),
    ("explanation",),
    ("datasets",),
    ("models",),
    ("attention", "bottleneck", "gsat"),
    ("methods",),
    ("explain",),
    ("audit",),
    ("training",),
    ("draw",),
    ("study",),
    ("web",),
    ("cli",),
)
DEPTH = {name: depth for depth, names in enumerate(LAYERS) for name in names}
ENTRANCES = ("gsat", "gsat.__main__")  # the public names and `python -m gsat` stand outside
# Results that draw and save themselves: their methods import ``gsat.draw`` when they are called.
DRAWN = (
    "gsat.explanation",
    "gsat.explain.molecules",
    "gsat.explain.patterns",
    "gsat.audit.report",
)


def _layer(module: str) -> str:
    return module.split(".")[1]


def _imports(module: str) -> dict[str, int]:
    """The modules that a module imports, also in functions or for type checkers alone."""
    found = dict(reversed([*imports(module, types=True)]))
    if module in DRAWN:
        top = {name for name, _ in imports(module, everywhere=False, types=True)}
        found = {n: at for n, at in found.items() if _layer(n) != "draw" or n in top}
    return {name: at for name, at in found.items() if name not in (module, *ENTRANCES)}


def test_every_module_has_a_layer() -> None:
    layers = {_layer(module) for module in modules() if module not in ENTRANCES}
    assert not layers - DEPTH.keys(), "add it to LAYERS, where it belongs"


def test_imports_go_upwards() -> None:
    against = [
        f"{relative(modules()[module])}:{line} imports {imported}"
        for module in modules()
        if module not in ENTRANCES
        for imported, line in _imports(module).items()
        if DEPTH[_layer(imported)] > DEPTH[_layer(module)]
    ]
    assert not against, "\n".join(["imports from a layer below:", *against])


def test_only_the_command_line_imports_the_whole_package() -> None:
    # `import gsat` puts every public name in reach, from whichever layer.
    whole = [
        f"{relative(modules()[module])}:{node.lineno}"
        for module in modules()
        if module not in ENTRANCES and _layer(module) != "cli"
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Import) and "gsat" in {alias.name for alias in node.names}
    ]
    assert not whole


def test_there_are_no_import_cycles() -> None:
    # Imports in functions count, too, and imports for type checkers between packages: they would
    # only hide a cycle.
    graph = {}
    for module in modules():
        if module not in ENTRANCES:
            run = {name for name, _ in imports(module)}
            graph[module] = [
                name for name in _imports(module) if name in run or _layer(name) != _layer(module)
            ]
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))
