"""The base of the schemas of files, and the check of parsed values against them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from gsat.core.errors import GSATError, shown
from gsat.core.parsing import ParseError, parse_json


class FileModel(BaseModel):
    """Base of the schemas of files: types are exact, numbers finite, further keys allowed.

    Files of later versions may hold more than this one knows.
    """

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False, extra="allow")


AnyModel = TypeVar("AnyModel", bound=BaseModel)


def check_model(model: type[AnyModel], values: Any) -> AnyModel:
    """Check plain values against a schema."""
    if not isinstance(values, Mapping):
        raise ParseError(f"a table of values was needed, not {shown(values, 40)}")
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        what = first["msg"][:1].lower() + first["msg"][1:]
        raise ParseError(
            f"'{shown(where, 60)}': {shown(what, 100)}, not {shown(first['input'], 40)}"
        ) from None


def read_lines(path: Path, model: type[BaseModel]) -> list[dict[str, Any]]:
    """Read a file of JSON lines."""
    if not path.is_file():
        return []
    records = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            values: dict[str, Any] = parse_json(line)
            check_model(model, values)
        except ParseError as error:
            raise GSATError(f"{path} can't be read, line {number}: {error}") from None
        records.append(values)
    return records
