"""Errors that users can cause, and the printing of untrusted values in messages."""

from __future__ import annotations

import re
import reprlib
from typing import Final

# Characters that control a terminal or reverse text, line breaks, and lone surrogates.
_CONTROL: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_SHORT: Final = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxlist, _SHORT.maxdict = 3, 20, 20
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 100
SHOWN_CHARACTERS: Final = 200  # maximum length of a value in a message


def printable(text: str) -> str:
    """Escape every character that is not printable."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def escape_controls(text: str) -> str:
    """Escape control characters only; unusual spaces and joiners stay."""
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def shown(value: object, characters: int = SHOWN_CHARACTERS) -> str:
    """Format an untrusted value for a message: escaped, and cut if it is long."""
    if isinstance(value, (list, tuple, dict, set)):
        if len(value) > characters:
            value = f"a {type(value).__name__} of {len(value)} values"
        else:
            value = _SHORT.repr(value)  # nested values may be gigabytes
    elif isinstance(value, int) and abs(value) >> 600:  # Python may refuse to print it
        value = "a number of hundreds of digits"
    elif isinstance(value, bytes):
        value = value[: characters + 1]
    text = value if isinstance(value, str) else repr(value)
    cut = printable(text[:characters])  # escapes make it longer
    return f"{cut[:characters]}…" if max(len(text), len(cut)) > characters else cut


class GSATError(Exception):
    """Base class of every error that a user can cause.

    The command line prints the message as one line, without a traceback. Characters that a terminal
    would interpret are escaped.

    Attributes:
        exit_code: Exit code of the command line.
    """

    exit_code = 2

    def __str__(self) -> str:
        return printable(super().__str__())


class DataError(GSATError):
    """A data set or a graph is malformed or unsuitable."""


class DataNotFoundError(DataError):
    """A raw file or a data set is missing; the message names the file and where to put it."""


class RecipeError(GSATError):
    """A recipe has an unknown key, a wrong type or an impossible value."""


class RunError(GSATError):
    """A run directory can't be used as requested."""


class BusyError(RunError):
    """Another process holds a lock; a locked run directory is being trained."""


class RunExistsError(RunError):
    """The folder of a new run already contains a run."""


class DiskError(RunError):
    """A file can't be written: no space, no permission, no such folder."""

    def __init__(self, message: str, *, full: bool = False) -> None:
        super().__init__(message)
        self.full = full


class CheckpointError(RunError):
    """A checkpoint is damaged or belongs to another run."""


class OtherProcessError(GSATError):
    """Another process of the same training failed and reports the error."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Interrupted(GSATError):
    """Work was stopped on request (Ctrl-C, a deadline) after saving all progress."""

    exit_code = 130


class StopAllError(GSATError):
    """A job of a worker pool found that no other job can succeed, such as on a full disk."""


class MissingExtraError(GSATError):
    """An optional dependency is not installed; the message says how to install it."""

    def __init__(self, package: str, extra: str, what: str) -> None:
        super().__init__(
            f"{what} needs the package '{package}', which is not installed: "
            f"pip install 'torch-gsat[{extra}]'"
        )
