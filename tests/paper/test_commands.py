"""``python -m paper``: pages are printed or written, and old commands say where they moved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from paper.__main__ import DOCUMENTS, make_pages, run
from paper.pages import write_between_marks

from gsat.cli.app import run as run_gsat

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "results" / "runs.jsonl"


def call(*arguments: object) -> int:
    """Run a command in this process and return its exit code."""
    try:
        return run([str(argument) for argument in arguments])
    except SystemExit as ended:
        return int(ended.code or 0)


def test_a_page_is_printed_or_written_between_the_marks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("results", RECORDED) == 0
    printed = capsys.readouterr().out
    assert "table1" in printed
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- results:begin -->\n<!-- results:end -->\nb\n", encoding="utf-8")
    assert call("results", RECORDED, "--write", page) == 0
    assert capsys.readouterr().out == ""
    assert printed in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["results", "none.jsonl"], "none.jsonl"),
        (["results", str(RECORDED), "--page", "nothing"], "'nothing'"),
        (["results", str(RECORDED), "--page", "overview"], "--write"),
        (["defaults", "--group", "nothing"], "'nothing'"),
        (["schedule", "none.toml"], "none.toml"),
    ],
)
def test_wrong_arguments_are_errors(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*arguments) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["results", "--page", "claims", "--help"], "python -m paper results"),
        (["bench", "audit", "--quiet"], "python -m paper audit"),
        (["bench", "defaults", "--group", "graphs"], "python -m paper defaults"),
        (["bench", "run", "--plan", "s.toml", "--dry-run"], "python -m paper schedule s.toml"),
    ],
)
def test_moved_commands_name_their_new_place(
    old: list[str], new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_gsat(old) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert new in line


@pytest.fixture(scope="module")
def pages() -> dict[str, Callable[[], str]]:
    return make_pages(RECORDED)


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name != "overview"])
def test_the_documents_show_what_was_recorded(
    name: str, pages: dict[str, Callable[[], str]], tmp_path: Path
) -> None:
    """If this fails: make results."""
    document = (ROOT / DOCUMENTS[name]).read_text(encoding="utf-8")
    copy = tmp_path / "copy.md"
    copy.write_text(document, encoding="utf-8")
    write_between_marks(copy, pages[name]())
    assert copy.read_text(encoding="utf-8") == document
