"""Edits of a recipe file that keep the rest of it, comments and layout included."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Comment, InlineTable, Table, Whitespace

from gsat.core.errors import RecipeError
from gsat.core.writing import disk_errors, write_text


def change_settings(path: Path, settings: Mapping[str, Any]) -> None:
    """Write settings into a TOML file, which is created if it does not exist."""
    with disk_errors(path):
        text = path.read_text(encoding="utf-8") if path.exists() else ""
    try:
        document = tomlkit.parse(text)
    except (TOMLKitError, ValueError) as error:
        raise RecipeError(f"{path} is not a TOML file: {error}") from None
    for key, value in settings.items():
        *tables, name = key.split(".")
        table: Any = document
        for depth, part in enumerate(tables):
            if part not in table:
                # A table that will only hold other tables gets no header of its own.
                inline = isinstance(table, InlineTable)
                is_parent = depth < len(tables) - 1
                new = tomlkit.inline_table() if inline else tomlkit.table(is_super_table=is_parent)
                _add(table, part, new)
            table = table[part]
            if not isinstance(table, Mapping):
                raise RecipeError(f"'{part}' in {path} is not a table, so it can't hold {key}")
        if name in table:
            table[name] = value
        else:
            _add(table, name, value)
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, tomlkit.dumps(document))


def _add(table: Any, name: str, value: Any) -> None:
    """Add a key after the last one: a comment at the end of a table belongs to the next table."""
    trailing: list[tuple[Any, Any]] = []
    if isinstance(table, Table):
        body = table.value.body
        while body and isinstance(body[-1][1], Comment | Whitespace):
            trailing.insert(0, body.pop())
    table[name] = value
    if trailing:
        table.value.body.extend(trailing)
