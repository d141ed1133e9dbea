"""How much memory a file may take before its content has been found sound.

A file of a few bytes can ask for gigabytes: by a number of nodes, by compression, by nesting. A
reader therefore works out what it is about to allocate and compares it with :func:`memory_limit`.
"""

from __future__ import annotations

import os
import re
from typing import Final

from gsat.core.errors import GSATError

VARIABLE: Final = "GSAT_MEMORY_LIMIT"
DEFAULT: Final = 512 << 20
SMALL_FILE: Final = 16 << 20  # bytes of a description: JSON, TOML, the log of a run
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def memory_limit() -> int:
    """Bytes that one file may use: ``GSAT_MEMORY_LIMIT``, such as ``4G``; 512 MiB by default."""
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return DEFAULT
    found = re.fullmatch(r"(\d{1,9})\s*([KMGT]?)(?:i?B)?", text, re.IGNORECASE)
    if not found:
        raise GSATError(f"{VARIABLE} must be a size such as 2G or 800M, not '{text[:40]}'")
    return int(found[1]) * _UNITS[found[2].upper()]


def check_size(needed: int, what: str, error: type[GSATError], limit: int | None = None) -> None:
    """Raise if something needs more memory than one file may ask for."""
    allowed = memory_limit() if limit is None else limit
    if needed > allowed:
        raise error(
            f"{what} needs {in_words(needed)} of memory; {in_words(allowed)} are allowed for one "
            f"file: if you trust it, set {VARIABLE} (as in {VARIABLE}=8G)"
        )


def json_bytes(text: bytes) -> int:
    """About the memory that a JSON document takes when it is parsed, from its punctuation."""
    containers = text.count(b"[") + text.count(b"{")
    return 2 * len(text) + 72 * containers + 34 * text.count(b",") + 60 * text.count(b":")


def in_words(size: int) -> str:
    """A number of bytes as people read it."""
    for unit, bytes_ in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= bytes_:
            return f"{size / bytes_:.3g} {unit}" if size < 1 << 50 else "very many GiB"
    return f"{size} bytes"
