"""Errors a user can cause: each says what was needed, what came and what to do, in one line."""

from __future__ import annotations


class GSATError(Exception):
    """Base class of every error a user can cause.

    The command line prints the message in one line, without a traceback.

    Attributes:
        exit_code: The code with which the command line exits.
    """

    exit_code = 2


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
    """A file can't be written: no space, no permission, no such folder.

    Args:
        message: One line.
        full: Whether the disk itself is the problem, so that nothing else can be written there
            either. (default: ``False``)
    """

    def __init__(self, message: str, *, full: bool = False) -> None:
        super().__init__(message)
        self.full = full


class CheckpointError(RunError):
    """A checkpoint is damaged or belongs to another run."""


class OtherProcessError(GSATError):
    """Another process of the same training failed; that one reports the error, this one is silent.

    Args:
        message: The other process's error, in one line.
        exit_code: The code with which the command line exits. (default: 2)
    """

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Interrupted(GSATError):
    """Work was stopped on request (Ctrl-C, a deadline); everything up to here is saved."""

    exit_code = 130


class StopAllError(GSATError):
    """Raised by a job of a worker pool when no other job can succeed either: a full disk, say."""


class MissingExtraError(GSATError):
    """An optional dependency is not installed; the message says how to install it.

    Args:
        package: The package that is missing.
        extra: The extra of ``torch-gsat`` that brings it.
        what: What needs it, the subject of the message.

    Example:
        >>> print(MissingExtraError("ray", "ray", "this"))
        this needs the package 'ray', which is not installed: pip install 'torch-gsat[ray]'
    """

    def __init__(self, package: str, extra: str, what: str) -> None:
        super().__init__(
            f"{what} needs the package '{package}', which is not installed: "
            f"pip install 'torch-gsat[{extra}]'"
        )
