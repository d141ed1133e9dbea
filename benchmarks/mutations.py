"""Mutation tests: which small faults in the source do the tests fail to notice?

    python -m benchmarks.mutations --module loop --count 40
    python -m benchmarks.mutations --module loop --line 212 213   # all mutants of these lines

Each mutant of a sample, the same for the same seed, changes one expression or statement in a copy
of ``src``; it is killed if the module's tests fail or take too long. A survivor needs a test, or
is equivalent to the original. Run one process per checkout at a time: all share its copy.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import importlib
import itertools
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import namedtuple
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# Imported once, before the test processes are forked.
PRELOADED = ("pytest", "torch", "torch_geometric.data", "numba", "pydantic", "safetensors.torch",
             "scipy.stats", "sklearn.metrics", "rdkit.Chem")  # fmt: skip
# The source file of a module; the folder and names of its tests, those that fail fastest first.
MODULES = {
    "attention": ("attention.py", "", "attention refinement gsat"),
    "bottleneck": ("bottleneck.py", "", "bottleneck"),
    "gsat": ("gsat.py", "", "refinement gsat attention"),
    "metrics": ("metrics.py", "", "metrics"),
    "loop": ("training/loop.py", "training", "loop snapshots training_resume pretrained_cache"),
    "checkpoint": (
        "training/checkpoint.py",
        "training",
        "hostile_runs training_resume snapshots loop",
    ),
    "selection": ("training/selection.py", "training", "snapshots loop"),
    "parsing": ("core/parsing.py", "core", "parsing"),
    "files": ("core/files.py", "core", "files"),
    "json_values": ("datasets/formats/json_values.py", "datasets", "jsonl hostile_data"),
    "jsonl": ("datasets/formats/jsonl.py", "datasets", "jsonl hostile_data"),
    "tu": ("datasets/formats/tu.py", "datasets", "tu_tables hostile_data"),
    "table": ("molecules/table.py", "molecules", "table"),
    "label_values": ("molecules/label_values.py", "molecules", "label_values"),
    "columns": ("molecules/columns.py", "molecules", "columns"),
    "archive": ("datasets/fetch/archive.py", "datasets", "archive hostile_data"),
    "unpickle": ("datasets/fetch/unpickle.py", "datasets", "unpickle hostile_data"),
}
# Operators, as classes of `ast`, and those that replace them.
OTHERS = {"Lt": "LtE GtE", "LtE": "Lt Gt", "Gt": "GtE LtE", "GtE": "Gt Lt", "Eq": "NotEq",
          "NotEq": "Eq", "Is": "IsNot", "IsNot": "Is", "In": "NotIn", "NotIn": "In", "And": "Or",
          "Or": "And", "Add": "Sub", "Sub": "Add", "Mult": "Div", "Div": "Mult", "FloorDiv": "Mult",
          "Mod": "Mult", "Pow": "Mult", "BitAnd": "BitOr", "BitOr": "BitAnd"}  # fmt: skip
Mutant = namedtuple("Mutant", "line before after source")  # `source`: the whole file, changed


def mutants(source: str) -> list[Mutant]:
    """All mutants of a source file."""
    whole = source.encode()  # the columns of ast count bytes
    starts = [0, *itertools.accumulate(map(len, whole.splitlines(keepends=True)))]
    out = []
    for node, after in itertools.chain.from_iterable(map(changes, executed(ast.parse(source)))):
        first = starts[node.lineno - 1] + node.col_offset
        last = starts[node.end_lineno - 1] + node.end_col_offset
        mutated = (whole[:first] + after.encode() + whole[last:]).decode()
        out.append(Mutant(node.lineno, whole[first:last].decode(), after, mutated))
    return out


def executed(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below a node, without annotations, decorators, assertions and formatted texts."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            skipped = isinstance(child, (ast.JoinedStr, ast.Assert, ast.pattern))
            if isinstance(child, ast.AST) and not skipped:
                yield child
                yield from executed(child)


def others(operator: ast.AST) -> list[Any]:
    """The operators that replace one."""
    return [getattr(ast, name)() for name in OTHERS.get(type(operator).__name__, "").split()]


def changed(node: ast.AST, **fields: Any) -> str:
    """The text of an expression with other fields."""
    fields = {**dict(ast.iter_fields(node)), **fields}
    return f"({ast.unparse(type(node)(**fields))})"


def changes(node: ast.AST) -> Iterator[tuple[Any, str]]:
    """The changes of a node: the part of it to replace, and the new text."""
    for condition in getattr(node, "ifs", None) or [getattr(node, "test", None)]:
        if condition and not isinstance(condition, (ast.Compare, ast.UnaryOp)):
            yield condition, f"(not ({ast.unparse(condition)}))"
    match node:
        case ast.Compare(ops=operators):
            for place, operator in enumerate(operators):
                before, after = operators[:place], operators[place + 1 :]
                for other in others(operator):
                    yield node, changed(node, ops=[*before, other, *after])
        case ast.BinOp(op=operator) | ast.BoolOp(op=operator):
            yield from ((node, changed(node, op=other)) for other in others(operator))
        case ast.UnaryOp(ast.Not(), operand):
            yield node, f"({ast.unparse(operand)})"
        case ast.Constant(bool() as value):
            yield node, str(not value)
        case ast.Constant(int() | float() as value):
            yield node, f"({value + 1})"
        case ast.Return(value) if value and not isinstance(value, ast.Constant):
            yield node, "return None"
        case ast.Expr(ast.Constant()):
            pass  # a docstring
        case ast.Expr() | ast.Raise() | ast.AugAssign() | ast.Continue() | ast.Break():
            yield node, "pass"
        case ast.Assign([ast.Attribute() | ast.Subscript(), *_]):
            yield node, "pass"


def run_tests(folder: Path, tests: Sequence[str]) -> None:
    """Run the tests in this process, with the package from a folder."""
    os.setsid()  # a group of its own, with all processes that tests start
    os.environ.update(PYTHONPATH=str(folder), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    # Two mutants may have the same size and time, by which Python finds compiled files.
    os.environ["PYTHONDONTWRITEBYTECODE"], sys.dont_write_bytecode = "1", True
    sys.path.insert(0, str(folder))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    options = ["-x", "-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:unraisableexception"]
    chosen = ["-m", "not slow and not medium", "-c", str(ROOT / "pyproject.toml"), *tests]
    pytest = importlib.import_module("pytest")
    os._exit(pytest.main([*options, f"--basetemp={folder.parent / 'tmp'}", *chosen]))


def passes(folder: Path, tests: Sequence[str], seconds: float | None = None) -> bool:
    """Return whether the tests pass before a timeout."""
    process = multiprocessing.get_context("fork").Process(target=run_tests, args=(folder, tests))
    process.start()
    process.join(seconds)
    if process.is_alive():
        with suppress(ProcessLookupError):  # it may not have made its group yet
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()
    return process.exitcode == 0


def check_module(module: str, count: int, seed: int, lines: Sequence[int]) -> None:
    """Test mutants of a module and print the survivors."""
    place = f"gsat-mutations-{os.getuid()}{ROOT.as_posix().replace('/', '-')}"
    folder = (
        Path(tempfile.gettempdir()) / place / "src"
    )  # always the same: kernels are kept by path
    file, group, names = MODULES[module]
    target = folder / "gsat" / file  # its doctests are tests, too
    tests = [*(f"{ROOT}/tests/{group}/test_{name}.py" for name in names.split()), str(target)]
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "src", folder, ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(folder, quiet=1)
    everything = mutants((ROOT / "src/gsat" / file).read_text())
    sample = random.Random(seed).sample(everything, min(count, len(everything)))
    chosen = [m for m in everything if m.line in lines] if lines else sorted(sample)
    start, killed = time.monotonic(), 0
    if not passes(folder, tests):
        raise SystemExit(f"{module}: the tests fail on the unchanged source")
    limit = 30 + 5 * (time.monotonic() - start)
    for line, before, after, source in chosen:
        target.write_text(source)
        if passes(folder, tests, limit):
            print(f"  {file}:{line}: {before}  ->  {after}", flush=True)
        else:
            killed += 1
    print(f"{module}: {killed} of {len(chosen)} killed", flush=True)


def main() -> None:
    """Parse the command line, test the mutants, print the survivors."""
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=style)
    parser.add_argument("--module", nargs="+", choices=list(MODULES), default=list(MODULES))
    parser.add_argument("--count", type=int, default=30, help="mutants per module")
    parser.add_argument("--seed", type=int, default=0, help="of the sample of mutants")
    parser.add_argument("--line", type=int, nargs="+", default=(), help="test all mutants of lines")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # as in conftest.py; set before torch is imported
    for name in PRELOADED:
        importlib.import_module(name)
    for module in options.module:
        check_module(module, options.count, options.seed, options.line)


if __name__ == "__main__":
    main()
