"""Change single settings in a recipe file and leave the rest of it, comments too, as it is."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gsat.errors import RecipeError
from gsat.io.files import disk_errors, write_durably
from gsat.training.recipe import to_toml


def change_settings(path: Path, settings: Mapping[str, Any]) -> None:
    """Write settings, by full key (``method.gsat.r_final``), into a TOML file; it need not exist.

    A file written in a way these few lines can't follow keeps its settings but not its comments.
    """
    text = ""
    if path.exists():
        with disk_errors(path):
            text = path.read_text(encoding="utf-8")
    try:
        wanted = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"{path} is not a TOML file: {error}") from None
    for key, value in settings.items():
        *tables, name = key.split(".")
        table = wanted
        for part in tables:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise RecipeError(f"'{part}' in {path} is not a table, so it can't hold {key}")
        table[name] = value
        text = _with_line(text, ".".join(tables), name, to_toml({name: value}).strip())
    if _parsed(text) != wanted:
        text = to_toml(wanted).lstrip("\n")
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(path, text.encode())


def _with_line(text: str, table: str, name: str, line: str) -> str:
    """The text with a line for ``name`` in ``[table]``, in place of the one it has."""
    lines = text.splitlines()
    headers = [i for i, old in enumerate(lines) if old.lstrip().startswith("[")]
    start = next((i for i in headers if lines[i].partition("#")[0].strip() == f"[{table}]"), None)
    if start is None:
        gap = [""] if lines else []
        return "\n".join([*lines, *gap, f"[{table}]", line]) + "\n"
    end = next((i for i in headers if i > start), len(lines))
    for i in range(start + 1, end):
        if re.match(rf"\s*{re.escape(name)}\s*=", lines[i]):
            lines[i] = line
            break
    else:
        # A comment at the end belongs to the table that follows.
        said = [i for i in range(start, end) if lines[i].strip() and lines[i].strip()[0] != "#"]
        lines.insert(said[-1] + 1, line)
    return "\n".join(lines) + "\n"


def _parsed(text: str) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
