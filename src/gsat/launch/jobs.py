"""Jobs, their outcomes, and the interface between the worker pool and a back end.

A job consists of the dotted name of a function and a payload of plain values. Jobs and outcomes
are sent as JSON; nothing is pickled.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from pkgutil import resolve_name
from typing import Any, ClassVar, Literal

from gsat.core.errors import BusyError, GSATError, Interrupted, StopAllError

# done: the function returned; failed: it raised an error; interrupted: it stopped on request;
# busy: another process does the same work; stop: no other job can succeed either;
# died: its worker process ended unexpectedly.
Status = Literal["done", "failed", "interrupted", "busy", "stop", "died"]


@dataclass(frozen=True)
class Job:
    """A function call that a worker makes."""

    function: str  # dotted name of a module-level function with one argument
    payload: Any  # the argument: plain values that JSON can represent
    # Several jobs may need the same result, such as a pretrained backbone: jobs with an equal name
    # here wait until the first of them has ended.
    shares: str = ""


@dataclass(frozen=True)
class Outcome:
    """How a job ended."""

    status: Status
    value: Any = None  # the function's result if done, else the reason in one line

    def to_json(self) -> str:
        """Serialise the outcome."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> Outcome:
        """Read what :meth:`to_json` wrote."""
        return cls(**json.loads(text))


class Backend(ABC):
    """Where the jobs of a :class:`~gsat.launch.pool.WorkerPool` run."""

    capacity: float  # maximum number of concurrent jobs; infinite if the back end decides
    tries: ClassVar[int] = 1  # how often a job is started whose worker dies
    grace: ClassVar[float | None] = None  # seconds for interrupted jobs to end; None: no limit

    @property
    @abstractmethod
    def running(self) -> int:
        """Number of jobs that were submitted and have not ended."""

    @abstractmethod
    def submit(self, name: str, job: Job) -> None:
        """Start a job without waiting for it."""

    @abstractmethod
    def wait(self, timeout: float | None) -> list[tuple[str, Outcome]]:
        """Wait until jobs end or the timeout expires; return the jobs that have ended."""

    @abstractmethod
    def interrupt(self) -> None:
        """Ask every running job once to save its work and stop."""

    @abstractmethod
    def end_jobs(self) -> None:
        """Kill all running jobs."""

    @abstractmethod
    def close(self) -> None:
        """Release the workers; no job may be running."""


def perform(function: str, payload: str) -> str:
    """Make the call of a job, in a worker of any back end, and return its outcome as JSON."""
    try:
        outcome = Outcome("done", resolve_name(function)(json.loads(payload)))
    except (KeyboardInterrupt, Interrupted) as error:
        outcome = Outcome("interrupted", str(error))
    except BusyError as error:
        outcome = Outcome("busy", str(error))
    except StopAllError as error:
        outcome = Outcome("stop", str(error))
    except GSATError as error:
        outcome = Outcome("failed", str(error))
    except Exception as error:  # a bug in one job must not stop the others
        outcome = Outcome("failed", f"{type(error).__name__}: {error}")
    return outcome.to_json()
