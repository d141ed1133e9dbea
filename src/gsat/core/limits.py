"""Limits on what one untrusted file may cost, in one table.

A file of a few bytes can demand gigabytes, through a number of nodes, compression or nesting.
Readers therefore count what they are about to make, and compare it with the limits first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from gsat.core.errors import GSATError, shown

VARIABLE: Final = "GSAT_LIMITS"
MEMORY_VARIABLE: Final = "GSAT_MEMORY_LIMIT"  # former name of the limit on memory
SMALL_FILE: Final = 16 << 20  # bytes; limit for JSON files, TOML files and logs
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def _bytes(value: Any) -> Any:
    """Convert a size such as 800M or 2G."""
    match = re.fullmatch(r"(\d{1,9})\s*([KMGT]?)(?:i?B)?", str(value), re.IGNORECASE)
    return int(match[1]) * _UNITS[match[2].upper()] if match else value


Bytes = Annotated[int, BeforeValidator(_bytes)]


class Limits(BaseModel):
    """Limits on one file; ``--limit NAME=VALUE`` and ``GSAT_LIMITS`` change them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    memory: Bytes = Field(512 << 20, description="Bytes of memory for the content of a file.")
    rows: int = Field(5_000_000, ge=1, description="Rows of a table of molecules.")
    columns: int = Field(10_000, ge=1, description="Columns of a table of molecules.")
    cells: int = Field(
        100_000_000, ge=1, description="Numbers in the features of a file, after one-hot encoding."
    )
    kinds: int = Field(10_000, ge=1, description="Labels of a column that are encoded one-hot.")
    characters: int = Field(5000, ge=1, description="Characters of a SMILES.")
    atoms: int = Field(5000, ge=1, description="Atoms of a molecule.")
    bonds: int = Field(10_000, ge=1, description="Bonds of a molecule.")
    nodes: int = Field(1 << 28, ge=1, description="Nodes of a graph in a JSON-lines file.")
    ratio: int = Field(
        50, ge=1, description="Compression ratio of a gzipped file, beyond the first MiB."
    )
    members: int = Field(10_000, ge=1, description="Members of a gzipped file, empty ones too.")
    unpacked: Bytes = Field(4 << 30, description="Bytes unpacked from one zip on disk.")
    seconds: int = Field(
        3, ge=1, description="CPU seconds for a large molecule, or a part of a Parquet file."
    )


def limits() -> Limits:
    """The limits in force: the defaults, changed by ``GSAT_LIMITS``."""
    return _parsed(os.environ.get(VARIABLE, ""), os.environ.get(MEMORY_VARIABLE, ""))


def raise_limits(settings: Iterable[str]) -> None:
    """Change limits by ``name=value``, for this process and its workers."""
    given = [text for text in (os.environ.get(VARIABLE, ""), *settings) if text.strip()]
    if given:
        value = ",".join(given)
        _parsed(value, "")
        os.environ[VARIABLE] = value


@lru_cache(maxsize=8)
def _parsed(text: str, memory: str) -> Limits:
    values: dict[str, Any] = {}
    if memory.strip():
        values["memory"] = _of_memory(memory.strip())
    for part in text.split(","):
        if not part.strip():
            continue
        name, equals, value = part.partition("=")
        name = name.strip()
        if not equals or name not in Limits.model_fields:
            raise GSATError(
                f"a limit is written NAME=VALUE with one of the names "
                f"{', '.join(Limits.model_fields)}, not '{shown(part.strip(), 40)}'"
            )
        values[name] = value.strip()
    try:
        return Limits(**values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        raise GSATError(
            f"the limit '{first['loc'][0]}' must be a number such as 5000, or 2G for bytes, not "
            f"'{shown(first['input'], 40)}'"
        ) from None


def _of_memory(text: str) -> int:
    size = _bytes(text)
    if not isinstance(size, int):
        raise GSATError(f"{MEMORY_VARIABLE} must be a size such as 2G or 800M, not '{text[:40]}'")
    return size


def memory_limit() -> int:
    """Bytes of memory allowed for one file; 512 MiB by default."""
    return limits().memory


def check_size(needed: int, what: str, error: type[GSATError], limit: int | None = None) -> None:
    """Raise if reading a file would need more memory than allowed."""
    allowed = memory_limit() if limit is None else limit
    if needed > allowed:
        raise error(
            f"{what} needs {in_words(needed)} of memory; {in_words(allowed)} are allowed for one "
            f"file: if you trust it, set {MEMORY_VARIABLE} (as in {MEMORY_VARIABLE}=8G)"
        )


def check_count(count: int, name: str, what: str, error: type[GSATError]) -> None:
    """Raise if a file has more of something than the limit of that name allows."""
    if why := too_many(count, name):
        raise error(f"{what} has {why}")


def too_many(count: int, name: str) -> str:
    """Why a count exceeds the limit of that name; empty if it does not."""
    allowed = getattr(limits(), name)
    if count <= allowed:
        return ""
    return f"{count} {name}; at most {allowed} are read (--limit {name}=N raises this)"


def json_bytes(text: bytes) -> int:
    """Estimate the memory that a JSON document takes when parsed, from its punctuation."""
    containers = text.count(b"[") + text.count(b"{")
    return 2 * len(text) + 72 * containers + 34 * text.count(b",") + 60 * text.count(b":")


def in_words(size: int) -> str:
    """Format a number of bytes with its unit."""
    for unit, bytes_ in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= bytes_:
            return f"{size / bytes_:.3g} {unit}" if size < 1 << 50 else "very many GiB"
    return f"{size} bytes"
