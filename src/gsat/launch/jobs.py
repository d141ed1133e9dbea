"""Jobs, their outcomes, and what the worker pool asks of a back end.

A job is named, not sent: the dotted name of a function and a payload of plain values. Both travel
as JSON text, and so does the outcome; nothing is pickled.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any, ClassVar, Literal

from gsat.core.errors import BusyError, GSATError, Interrupted, StopAllError

# done: the function returned; failed: it raised; interrupted: it was asked to stop, and did;
# busy: another process is at the same work; stop: no other job can succeed either;
# died: its worker ended without a word.
Status = Literal["done", "failed", "interrupted", "busy", "stop", "died"]


@dataclass(frozen=True)
class Job:
    """A function call for a worker to make.

    Attributes:
        function: Dotted name of a module-level function with one argument,
            ``"package.module.function"``.
        payload: The argument: plain values that JSON can hold.
        shares: Name of something that the first of several jobs makes and the others find made:
            they are begun when it has ended. (default: ``""``, nothing)
    """

    function: str
    payload: Any
    shares: str = ""


@dataclass(frozen=True)
class Outcome:
    """What came of a job.

    Attributes:
        status: How it ended.
        value: What the function returned if it is ``"done"``, else the reason as one line.
    """

    status: Status
    value: Any = None

    def to_json(self) -> str:
        """The outcome as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> Outcome:
        """The outcome that a text holds."""
        return cls(**json.loads(text))


class Backend(ABC):
    """Where jobs run: what :class:`~gsat.launch.pool.WorkerPool` asks of it.

    Attributes:
        capacity: How many jobs may run at a time; infinite where the back end itself decides.
        tries: How often a job is begun whose worker dies.
        grace: Seconds that interrupted jobs have to end; None: as long as they need.
    """

    capacity: float
    tries: ClassVar[int] = 1
    grace: ClassVar[float | None] = None

    @property
    @abstractmethod
    def running(self) -> int:
        """How many jobs have been begun and have not ended."""

    @abstractmethod
    def submit(self, name: str, job: Job) -> None:
        """Begin a job; returns at once."""

    @abstractmethod
    def wait(self, timeout: float | None) -> list[tuple[str, Outcome]]:
        """Wait until jobs end or the time is over; returns those that have ended."""

    @abstractmethod
    def interrupt(self) -> None:
        """Ask every running job, once, to save its work and stop."""

    @abstractmethod
    def end_jobs(self) -> None:
        """End what is still running, at once."""

    @abstractmethod
    def close(self) -> None:
        """Release the workers; nothing may be running."""


def find_function(name: str) -> Any:
    """Import a function by its dotted name."""
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def perform(function: str, payload: str) -> str:
    """Make the call of a job and return its outcome; the worker's side of every back end."""
    try:
        outcome = Outcome("done", find_function(function)(json.loads(payload)))
    except (KeyboardInterrupt, Interrupted) as error:
        outcome = Outcome("interrupted", str(error))
    except BusyError as error:
        outcome = Outcome("busy", str(error))
    except StopAllError as error:
        outcome = Outcome("stop", str(error))
    except GSATError as error:
        outcome = Outcome("failed", str(error))
    except Exception as error:  # one broken job must not stop the others
        outcome = Outcome("failed", f"{type(error).__name__}: {error}")
    return outcome.to_json()
