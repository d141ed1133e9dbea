"""SHA-256 of bytes, of files and of plain values."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any


def sha256(content: bytes) -> str:
    """The SHA-256 of some bytes, in hex."""
    return hashlib.sha256(content).hexdigest()


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, in hex; the file is read in blocks."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def checksum(values: Any) -> str:
    """The SHA-256 of plain values, in hex; it does not depend on how a file lays them out."""
    return sha256(json.dumps(values, sort_keys=True).encode())
