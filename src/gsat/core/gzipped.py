"""Reading of gzipped files that may be malicious: their members are counted, empty ones too."""

from __future__ import annotations

import io
import zlib
from typing import Any, BinaryIO

from gsat.core.errors import GSATError
from gsat.core.limits import check_count

_BLOCK = 1 << 16  # bytes; what follows a member is copied once per member


class GzipReader(io.RawIOBase):
    """The unpacked content of a gzipped file; wrap it in ``io.BufferedReader``.

    A damaged file raises ``zlib.error``, ``OSError`` or ``EOFError``.
    """

    def __init__(self, file: BinaryIO, name: str, error: type[GSATError]) -> None:
        self._file, self._name, self._error = file, name, error
        self._packed = b""
        self._member: Any = None  # the decompressor of an incomplete member
        self._members = 0

    def readable(self) -> bool:
        """Return True, since the stream is open for reading."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Unpack up to as many bytes as the buffer holds; 0 at the end."""
        while True:
            if not self._packed:
                self._packed = self._file.read(_BLOCK)
            ended = not self._packed
            if self._member is None:
                # Zeros may follow a member, as on tapes.
                self._packed = self._packed.lstrip(b"\0") if self._members else self._packed
                if ended:
                    return 0
                if not self._packed:
                    continue
                self._members += 1
                check_count(self._members, "members", f"{self._name}, gzipped,", self._error)
                self._member = zlib.decompressobj(wbits=31)
            data = self._member.decompress(self._packed, len(buffer))
            if self._member.eof:
                self._packed, self._member = self._member.unused_data, None
            else:
                self._packed = self._member.unconsumed_tail
            if data:
                buffer[: len(data)] = data
                return len(data)
            if ended:
                raise EOFError("it ends in the middle of a gzip member")
