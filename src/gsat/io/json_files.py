"""JSON files that a stranger may have made, checked against their schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel

from gsat.errors import GSATError
from gsat.io.files import read_file
from gsat.io.limits import check_size, json_bytes
from gsat.parsing import ParseError, parse_json
from gsat.schemas import check_model


def read_json(
    path: Path,
    model: type[BaseModel],
    *,
    error: type[GSATError],
    infinite: bool = False,
) -> dict[str, Any]:
    """Read a JSON file that holds a table, and check it against its schema.

    Args:
        path: The file.
        model: The schema.
        error: The type of the error.
        infinite: Whether numbers may be infinite or NaN. (default: ``False``)

    Returns:
        Its values as they are in the file.

    Raises:
        GSATError: Of the given type, if it can't be read or does not fit the schema.
    """
    content = read_file(path, error=error)
    check_size(json_bytes(content), str(path), error)
    try:
        values = parse_json(content, infinite=infinite)
        check_model(model, values)
        return dict(values)
    except ParseError as problem:
        raise error(f"{path} can't be read: {problem}") from None
