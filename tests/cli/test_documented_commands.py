"""Commands in the documentation name existing commands and options."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from paper.__main__ import app as paper
from typer.main import get_command

from gsat.cli.app import app, load_commands

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def unknown_words(command: Any, words: list[str]) -> list[str]:
    """The first word that is not a command, or all options that the command does not have."""
    while hasattr(command, "commands"):
        if not words or not words[0].islower():
            return []
        if words[0] not in command.commands or command.commands[words[0]].hidden:
            return words[:1]
        command, words = command.commands[words[0]], words[1:]
    options = {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
    given = [word.split("=")[0] for word in words if word.startswith("--")]
    return [name for name in given if name not in (*options, "--help", "--debug")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_documented_commands_exist(page: Path) -> None:
    load_commands()
    groups = {"gsat": get_command(app), "python -m paper": get_command(paper)}
    pattern = r"(?:`|^|\$ )(gsat|python -m paper) ([a-z][^`\n#]*)"
    for program, line in re.findall(pattern, page.read_text("utf-8"), re.M):
        assert not unknown_words(groups[program], line.split()), line
