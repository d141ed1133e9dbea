"""Errors a user can cause: each says what was needed, what came and what to do, in one line."""

from __future__ import annotations


class GSATError(Exception):
    """Base of every error a user can cause; the command line prints it and exits with its code."""

    exit_code = 2


class DataError(GSATError):
    """A data set or graph is not what it has to be."""


class DataNotFoundError(DataError):
    """A raw file or a data set is not here; the message names the file and the place for it."""


class RecipeError(GSATError):
    """A recipe has an unknown key, a wrong type or an impossible value."""


class RunError(GSATError):
    """A run directory can't be used the way that was asked."""


class BusyError(RunError):
    """Another process is training in a run directory right now."""


class TakenError(RunError):
    """A folder for a new run holds one already."""


class DiskError(RunError):
    """Something can't be written: no room, no permission, no such place.

    Attributes:
        full: whether it is the disk itself, so that nothing else can be written there either.
    """

    def __init__(self, message: str, *, full: bool = False) -> None:
        super().__init__(message)
        self.full = full


class CheckpointError(RunError):
    """A checkpoint is damaged or does not belong to this run."""


class ElsewhereError(GSATError):
    """Another process of the same training met an error; it tells the user, this one is silent."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Interrupted(GSATError):
    """Work was stopped on request (Ctrl-C, a deadline); everything up to here is saved."""

    exit_code = 130


class StopAllError(GSATError):
    """Raised by a job of a worker pool when no other job can succeed either: a full disk, say."""


class MissingExtraError(GSATError):
    """An optional dependency is needed; the message says how to install it."""

    def __init__(self, package: str, extra: str, what: str) -> None:
        super().__init__(
            f"{what} needs the package '{package}', which is not installed: "
            f"pip install 'torch-gsat[{extra}]'"
        )
