"""Mutation tests: mutants differ from the source in one place, and weak tests let them live."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from benchmarks import mutations

SOURCE = '''
"""A docstring with α."""
def clip(x: int = 3) -> int:
    """Docs."""
    if x < 0 or not x:
        raise ValueError(f"{x + 1}")
    return x * 2
'''


def test_mutants_change_code_and_no_texts() -> None:
    found = {(m.before, m.after) for m in mutations.mutants(SOURCE)}
    assert found == {
        ("3", "(4)"),
        ("0", "(1)"),
        ("2", "(3)"),
        ("x < 0", "(x <= 0)"),
        ("x < 0", "(x >= 0)"),
        ("x < 0 or not x", "(x < 0 and (not x))"),
        ("x < 0 or not x", "(not (x < 0 or not x))"),
        ("not x", "(x)"),
        ('raise ValueError(f"{x + 1}")', "pass"),
        ("x * 2", "(x / 2)"),
        ("return x * 2", "return None"),
    }
    for mutant in mutations.mutants(SOURCE):
        assert ast.dump(ast.parse(mutant.source)) != ast.dump(ast.parse(SOURCE))
        assert mutant.before in SOURCE.splitlines()[mutant.line - 1]


def test_every_module_and_its_tests_exist() -> None:
    for source, folder, names in mutations.MODULES.values():
        assert mutations.mutants((mutations.ROOT / "src/gsat" / source).read_text())
        tests = mutations.ROOT / "tests" / folder
        assert all((tests / f"test_{name}.py").is_file() for name in names.split())


@pytest.mark.parametrize(
    ("body", "passing"), [("answer == 42", True), ("answer == 41", False), ("spin()", False)]
)
def test_failing_and_endless_tests_kill_a_mutant(body: str, passing: bool, tmp_path: Path) -> None:
    source, test = tmp_path / "src", tmp_path / "test_victim.py"
    source.mkdir()
    (source / "victim.py").write_text("answer = 42\ndef spin():\n    while True: pass\n")
    test.write_text(f"from victim import answer, spin\ndef test() -> None:\n    assert {body}\n")
    assert mutations.passes(source, [str(test)], 2.0 if "spin" in body else None) == passing
