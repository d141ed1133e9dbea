"""Lines are appended whole, once, by as many processes as there are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gsat.core.errors import DiskError
from gsat.core.writing import append_line, check_appendable


def test_a_line_is_appended_unless_the_condition_holds(tmp_path: Path) -> None:
    file = tmp_path / "new" / "lines.jsonl"
    assert append_line(file, {"a": "é\u2028"}, unless=lambda: False)
    assert not append_line(file, {"b": 2}, unless=lambda: True)
    assert append_line(file, {"c": None}, unless=lambda: False)
    assert file.read_bytes() == '{"a": "é\u2028"}\n{"c": null}\n'.encode()
    assert [path.name for path in file.parent.iterdir()] == ["lines.jsonl"]
    with pytest.raises(ValueError, match="JSON compliant"):
        append_line(file, {"loss": float("nan")}, unless=lambda: False)


def test_processes_that_append_at_once_lose_and_repeat_nothing(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from gsat.core.writing import append_line\n"
        "file = Path(sys.argv[1])\n"
        "for n in range(25):\n"
        "    line = {'n': n, 'text': 'x' * 5000}\n"
        "    append_line(file, line, unless=lambda: f'\"n\": {n},' in file.read_text())"
    )
    file = tmp_path / "lines.jsonl"
    command = [sys.executable, "-c", script, str(file)]
    processes = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["n"] for line in lines] == list(range(25))


def test_a_full_disk_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "lines.jsonl"
    append_line(file, {"a": 1}, unless=lambda: False)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(DiskError, match=r"lines.jsonl: No space left on device; make") as error:
            append_line(file, {"a": 2}, unless=lambda: False)
    assert error.value.full
    assert file.read_text() == '{"a": 1}\n'


def test_whether_lines_can_be_appended_is_known_before(tmp_path: Path) -> None:
    file = tmp_path / "new" / "lines.jsonl"
    check_appendable(file)
    assert list(file.parent.iterdir()) == []
    cases: list[Any] = [(file.parent, "Is a directory"), (file / "below", "File exists")]
    file.write_text("")
    for path, reason in cases:
        with pytest.raises(DiskError, match=f"can't write to .*{reason}; make room or choose"):
            check_appendable(path)
