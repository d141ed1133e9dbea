"""Mutants change one place of a file each, and leave what does not run alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from campaign import mutants

SOURCE = '''
"""Text with 1 < 2."""
LIMIT: int = 3

def check(value: int = 4) -> bool:
    if value < LIMIT and value != 2:
        raise ValueError(f"{value} < {LIMIT}")
    return True
'''


def test_each_mutant_is_one_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "src" / "gsat"
    folder.mkdir(parents=True)
    (folder / "it.py").write_text(SOURCE)
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    plain = ast.unparse(ast.parse(SOURCE)).splitlines()
    changes = []
    for mutant in mutants.mutants("it.py"):
        lines = mutant.source.splitlines()
        assert sum(a != b for a, b in zip(lines, plain, strict=True)) == 1
        changes.append((mutant.line, mutant.change))
    assert sorted(changes) == [
        (3, "plus 1"),
        (5, "plus 1"),
        (6, "And to Or"),
        (6, "Lt to LtE"),
        (6, "NotEq to Eq"),
        (6, "negated condition"),
        (6, "plus 1"),
        (8, "flipped"),
    ]
