"""Errors a user can cause: each says what was needed, what came and what to do, in one line."""

from __future__ import annotations

import re
import reprlib
from typing import Final

# What moves the cursor, colours, reverses or breaks a line of a terminal, and halves of characters.
_UNPRINTABLE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_SHORT: Final = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxlist, _SHORT.maxdict = 3, 20, 20
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 100
SHOWN_CHARACTERS: Final = 200  # of a value that a message repeats


def printable(text: str) -> str:
    """Escape what a terminal would obey rather than show, and what it can't encode."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def escape_controls(text: str) -> str:
    """Escape control characters alone; other spaces and joiners, say, stay what they are."""
    return _UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], text)


def shown(value: object, characters: int = SHOWN_CHARACTERS) -> str:
    """Return a foreign value as a message repeats it: escaped, and cut where it is long."""
    if isinstance(value, (list, tuple, dict, set)):
        if len(value) > characters:
            value = f"a {type(value).__name__} of {len(value)} values"
        else:
            value = _SHORT.repr(value)  # what is nested in it may be gigabytes
    if isinstance(value, int) and abs(value) >> 600:  # longer numbers may not even be printed
        value = "a number of hundreds of digits"
    text = (
        value
        if isinstance(value, str)
        else repr(value[: characters + 1] if isinstance(value, bytes) else value)
    )
    cut = printable(text[:characters])  # escapes may make it longer again
    return f"{cut[:characters]}…" if max(len(text), len(cut)) > characters else cut


class GSATError(Exception):
    """Base class of every error a user can cause.

    The command line prints the message in one line, without a traceback. What would make a terminal
    do something else than show the message is escaped in it.

    Attributes:
        exit_code: The code with which the command line exits.
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
    """A run directory can't be used in the way that was asked for."""


class BusyError(RunError):
    """Another process holds a lock; with a run directory, it is training there right now."""


class RunExistsError(RunError):
    """A folder for a new run already holds one."""


class DiskError(RunError):
    """A file can't be written: no space, no permission, no such folder."""

    def __init__(self, message: str, *, full: bool = False) -> None:
        super().__init__(message)
        self.full = full


class CheckpointError(RunError):
    """A checkpoint is damaged or belongs to another run."""


class OtherProcessError(GSATError):
    """Another process of the same training failed, and reports the error."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Interrupted(GSATError):
    """Work was stopped on request (Ctrl-C, a deadline); everything up to here is saved."""

    exit_code = 130


class StopAllError(GSATError):
    """Raised by a job of a worker pool when no other job can succeed either: a full disk, say."""


class MissingExtraError(GSATError):
    """An optional dependency is not installed; the message says how to install it."""

    def __init__(self, package: str, extra: str, what: str) -> None:
        super().__init__(
            f"{what} needs the package '{package}', which is not installed: "
            f"pip install 'torch-gsat[{extra}]'"
        )
