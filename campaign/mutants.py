"""Measure the strength of tests by mutations: ``python -m campaign.mutants [--targets NAME …]``.

A mutant is the package with one small change: a comparison, an operator, a constant or a condition.
It is killed if some test of its target fails. Survivors are printed with their line, so that a test
can be written, or the code removed if it has no effect.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "results" / "mutants.json"
# Files to mutate, and the tests that should notice, the quickest first.
TARGETS: dict[str, tuple[list[str], list[str]]] = {
    "core": (
        ["gsat.py", "attention.py", "bottleneck.py"],
        [
            "tests/test_bottleneck.py", "tests/test_attention.py", "tests/test_gsat.py",
            "tests/models/test_attended_readout.py", "tests/test_refinement.py",
            "tests/test_theory.py", "tests/methods",
        ],
    ),
    "loop": (
        ["training/loop.py", "training/selection.py"],
        ["tests/training/test_loop.py", "tests/training"],
    ),
    "checkpoint": (
        ["training/checkpoint.py"],
        ["tests/training/test_resume_exactly.py", "tests/training/test_hostile_runs.py",
         "tests/training"],
    ),
    "parsers": (
        ["core/parsing.py", "datasets/formats/jsonl.py", "datasets/formats/tu.py",
         "molecules/table.py", "datasets/fetch/pickle_scan.py"],
        ["tests/core", "tests/molecules", "tests/datasets"],
    ),
}  # fmt: skip
# Python runs this at its start, also in processes that tests start. The package itself stays where
# it is, because kernels in another folder would be compiled again.
HOOK = """
import importlib.abc, importlib.util, sys

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            return importlib.util.spec_from_file_location(name, {file!r})

sys.meta_path.insert(0, Finder())
"""
SECONDS = 300  # a mutant whose tests take longer is killed: it does not end
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    file: str
    line: int
    change: str
    source: str


def mutants(file: str) -> Iterator[Mutant]:
    """Yield all mutants of a file, in the order of its lines."""
    tree = ast.parse((ROOT / "src" / "gsat" / file).read_text(encoding="utf-8"))
    number = 0
    while True:
        changed = copy.deepcopy(tree)
        places = list(_places(changed))
        if number == len(places):
            return
        node, change, apply = places[number]
        apply()
        line = getattr(node, "lineno", 0)
        yield Mutant(file, line, change, ast.unparse(ast.fix_missing_locations(changed)))
        number += 1


def _places(tree: ast.Module) -> Iterator[tuple[ast.AST, str, Callable[[], None]]]:
    """Yield the nodes that can be changed: the node, a description, and the change."""
    for node in _running_code(tree):
        if isinstance(node, ast.Compare):
            old = type(node.ops[0])
            if old in SWAPS:
                name = f"{old.__name__} to {SWAPS[old].__name__}"
                yield node, name, lambda n=node, o=old: n.ops.__setitem__(0, SWAPS[o]())  # type: ignore[misc]
        elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign):
            old = type(node.op)
            if old in SWAPS:
                name = f"{old.__name__} to {SWAPS[old].__name__}"
                yield node, name, lambda n=node, o=old: setattr(n, "op", SWAPS[o]())  # type: ignore[misc]
        elif isinstance(node, ast.If | ast.IfExp | ast.While):
            negated = ast.UnaryOp(ast.Not(), node.test)
            yield node, "negated condition", lambda n=node, t=negated: setattr(n, "test", t)  # type: ignore[misc]
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield node, "flipped", lambda n=node: setattr(n, "value", not n.value)  # type: ignore[misc]
        elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            yield node, "plus 1", lambda n=node: setattr(n, "value", n.value + 1)  # type: ignore[misc]


def _running_code(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below one; annotations and messages of errors are skipped."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.Raise | ast.JoinedStr):
                continue
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            yield child
            yield from _running_code(child)


def is_killed(mutant: Mutant, tests: list[str]) -> bool:
    """Run the tests with the mutant in place of its module."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "mutant.py"
        file.write_text(mutant.source, encoding="utf-8")
        module = "gsat." + mutant.file.removesuffix(".py").replace("/", ".")
        hook = HOOK.format(module=module, file=str(file))
        (Path(folder) / "sitecustomize.py").write_text(hook, encoding="utf-8")
        command = [
            sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-n0",
            "-m", "not slow", *tests,
        ]  # fmt: skip
        environment = {
            **os.environ, "PYTHONPATH": f"{folder}:{ROOT}/src", "GSAT_TEST_RAW": "none",
            "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return True
    return done.returncode != 0


def main() -> int:
    """Sample mutants of the targets, run their tests, and record the share that is killed."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS))
    words.add_argument("--sample", type=int, default=40, help="mutants per target")
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    words.add_argument("--write", type=Path, default=RECORD)
    chosen = words.parse_args()
    record = json.loads(chosen.write.read_text()) if chosen.write.is_file() else {}
    for target in chosen.targets:
        files, tests = TARGETS[target]
        everything = [mutant for file in files for mutant in mutants(file)]
        count = min(chosen.sample, len(everything))
        sample = random.Random(chosen.seed).sample(everything, count)
        source = (ROOT / "src" / "gsat" / files[0]).read_text(encoding="utf-8")
        if is_killed(Mutant(files[0], 0, "nothing", source), tests):
            print(f"{target}: the tests fail without a mutant")
            return 1
        with ThreadPoolExecutor(chosen.jobs) as pool:
            killed = list(pool.map(lambda mutant: is_killed(mutant, tests), sample))  # noqa: B023
        survivors = [m for m, dead in zip(sample, killed, strict=True) if not dead]
        for mutant in survivors:
            print(f"survived: {mutant.file}:{mutant.line} {mutant.change}")
        print(f"{target}: {sum(killed)} of {count} killed", flush=True)
        record[target] = {
            "mutants": len(everything), "sample": count, "seed": chosen.seed,
            "killed": sum(killed),
            "survivors": [f"{m.file}:{m.line} {m.change}" for m in survivors],
        }  # fmt: skip
        chosen.write.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
