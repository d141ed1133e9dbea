"""JSON files that a stranger may have made, checked against their schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel

from gsat.core.errors import GSATError
from gsat.core.files import read_file
from gsat.core.limits import check_size, json_bytes
from gsat.core.parsing import ParseError, parse_json
from gsat.core.schemas import check_model


def read_json(
    path: Path,
    model: type[BaseModel],
    *,
    error: type[GSATError],
    infinite: bool = False,
) -> dict[str, Any]:
    """Read a JSON file that holds a table, and check it against its schema."""
    content = read_file(path, error=error)
    check_size(json_bytes(content), str(path), error)
    try:
        values = parse_json(content, infinite=infinite)
        check_model(model, values)
        return dict(values)
    except ParseError as problem:
        raise error(f"{path} can't be read: {problem}") from None
