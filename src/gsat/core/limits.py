"""Memory limit for reading one untrusted file.

A file of a few bytes can demand gigabytes, through a number of nodes, compression or nesting.
Readers therefore compute what they are about to allocate and call :func:`check_size` first.
"""

from __future__ import annotations

import os
import re
from typing import Final

from gsat.core.errors import GSATError

VARIABLE: Final = "GSAT_MEMORY_LIMIT"
DEFAULT: Final = 512 << 20
SMALL_FILE: Final = 16 << 20  # bytes; limit for JSON files, TOML files and logs
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def memory_limit() -> int:
    """Bytes allowed for one file: ``GSAT_MEMORY_LIMIT``, such as ``4G``; 512 MiB by default."""
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return DEFAULT
    match = re.fullmatch(r"(\d{1,9})\s*([KMGT]?)(?:i?B)?", text, re.IGNORECASE)
    if not match:
        raise GSATError(f"{VARIABLE} must be a size such as 2G or 800M, not '{text[:40]}'")
    return int(match[1]) * _UNITS[match[2].upper()]


def check_size(needed: int, what: str, error: type[GSATError], limit: int | None = None) -> None:
    """Raise if reading a file would need more memory than allowed."""
    allowed = memory_limit() if limit is None else limit
    if needed > allowed:
        raise error(
            f"{what} needs {in_words(needed)} of memory; {in_words(allowed)} are allowed for one "
            f"file: if you trust it, set {VARIABLE} (as in {VARIABLE}=8G)"
        )


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
