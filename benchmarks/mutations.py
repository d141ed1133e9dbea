"""Mutation tests: which small faults in the source do the tests fail to notice?

    python -m benchmarks.mutations --module loop --count 40
    python -m benchmarks.mutations --module loop --line 212 213   # all mutants of these lines

Each mutant of a sample, the same for the same seed, changes one expression or statement in a copy
of ``src``; it is killed if the module's tests fail or take too long. A survivor needs a test, or
is equivalent to the original. Run one process at a time: all share the copy and its kernels.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import gc
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
HOSTILE = "datasets/test_hostile_data.py::test_"
# The source file of a module and its tests, those that fail fastest first.
MODULES = {
    "attention": ("attention.py", "test_attention.py test_refinement.py"),
    "bottleneck": ("bottleneck.py", "test_bottleneck.py"),
    "gsat": ("gsat.py", "test_gsat.py test_refinement.py test_attention.py"),
    "metrics": ("metrics.py", "test_metrics.py"),
    "loop": (
        "training/loop.py",
        "training/test_loop.py training/test_early_end.py training/test_training_resume.py",
    ),
    "checkpoint": ("training/checkpoint.py", "training/test_training_resume.py"),
    "selection": (
        "training/selection.py",
        "training/test_snapshots.py training/test_loop.py training/test_early_end.py",
    ),
    "parsing": ("core/parsing.py", "core/test_parsing.py"),
    "files": ("core/files.py", "core/test_files.py"),
    "json_values": (
        "datasets/formats/json_values.py",
        f"datasets/test_jsonl.py {HOSTILE}lines_that_ask_for_too_much",
    ),
    "jsonl": ("datasets/formats/jsonl.py", "datasets/test_jsonl.py"),
    "tu": ("datasets/formats/tu.py", "datasets/test_tu_tables.py"),
    "table": ("molecules/table.py", "molecules/test_table.py"),
    "label_values": ("molecules/label_values.py", "molecules/test_label_values.py"),
    "columns": ("molecules/columns.py", "molecules/test_columns.py"),
    "archive": ("datasets/fetch/archive.py", f"datasets/test_archive.py {HOSTILE}zips_that_lie"),
    "unpickle": ("datasets/fetch/unpickle.py", "datasets/test_unpickle.py"),
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
                for other in others(operator):
                    yield (
                        node,
                        changed(node, ops=[*operators[:place], other, *operators[place + 1 :]]),
                    )
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
    """Whether the tests pass within a time."""
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
    folder = Path(tempfile.gettempdir()) / f"gsat-mutations-{os.getuid()}" / "src"
    file = MODULES[module][0]
    target = folder / "gsat" / file
    tests = [str(ROOT / "tests" / test) for test in MODULES[module][1].split()] + [str(target)]
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
    gc.freeze()  # no garbage is searched among these modules after each fork
    for module in options.module:
        check_module(module, options.count, options.seed, options.line)


if __name__ == "__main__":
    main()
