"""The worker pool with a scripted back end: scheduling, outcomes, and stopping."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gsat.core.errors import GSATError
from gsat.launch import pool
from gsat.launch.jobs import Backend, Job, Outcome, perform
from gsat.launch.pool import PoolResult, WorkerPool

Script = dict[str, list[Outcome]]
DIED = Outcome("died", "its process died")
FULL = Outcome("stop", "the disk is full")


def done(value: Any = None) -> Outcome:
    return Outcome("done", value)


class Scripted(Backend):
    """Jobs end as scripted, one at a time, in the order of submission.

    Jobs without a script end when they are interrupted.
    """

    tries = 2

    def __init__(self, capacity: int, script: Script) -> None:
        self.capacity, self.script = capacity, script
        self.submitted: list[str] = []
        self.active: list[str] = []
        self.calls: list[str] = []
        self.timeouts: list[float | None] = []

    @property
    def running(self) -> int:
        return len(self.active)

    def submit(self, name: str, job: Job) -> None:
        assert len(self.active) < self.capacity
        self.submitted.append(name)
        self.active.append(name)

    def wait(self, timeout: float | None) -> list[tuple[str, Outcome]]:
        self.timeouts.append(timeout)
        for name in self.active:
            outcomes = self.script.get(name)
            if outcomes or "interrupt" in self.calls:
                self.active.remove(name)
                return [(name, outcomes.pop(0) if outcomes else Outcome("interrupted"))]
        assert timeout is not None, "waits forever"
        return []

    def interrupt(self) -> None:
        self.calls.append("interrupt")

    def end_jobs(self) -> None:
        self.calls.append(f"end {' '.join(self.active)}".strip())
        self.active.clear()

    def close(self) -> None:
        self.calls.append("close")


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Scripted]:
    """Make a scripted back end, which pools use from then on."""

    def make(script: Script, workers: int = 1, kind: type[Scripted] = Scripted) -> Scripted:
        made = kind(workers, script)
        monkeypatch.setattr(pool, "LocalBackend", lambda _: made)
        return made

    return make


def run(backend: Scripted, shares: str = "", **options: Any) -> PoolResult:
    """Run all jobs of the script; those named in ``shares`` share a result."""
    jobs = {
        name: Job("pool_jobs.double", 1, "backbone" if name in shares else "")
        for name in backend.script
    }
    with WorkerPool() as workers:
        return workers.run(jobs, **options)


def test_jobs_start_in_order_and_each_outcome_is_reported(backend: Any) -> None:
    reported: list[tuple[str, Outcome]] = []
    scripted = backend({"a": [done(1)], "b": [Outcome("failed", "why")], "c": [done(None)]}, 2)
    result = run(scripted, on_done=lambda *outcome: reported.append(outcome))
    assert result == PoolResult({"a": 1, "c": None}, {"b": "why"})
    assert scripted.submitted == ["a", "b", "c"]
    assert reported == [("a", done(1)), ("b", Outcome("failed", "why")), ("c", done(None))]
    assert scripted.calls == ["end", "close"]


@pytest.mark.parametrize(
    ("script", "workers", "result", "submitted"),
    [
        ({}, 1, PoolResult(), ""),
        # A job whose worker dies is retried before the others, once.
        ({"a": [DIED, done(1)], "b": [done(2)]}, 1, PoolResult({"a": 1, "b": 2}), "aab"),
        ({"a": [DIED, DIED], "b": [done(2)]}, 1, PoolResult({"b": 2}, {"a": DIED.value}), "aab"),
        ({"a": [Outcome("busy")], "b": [done(2)]}, 1, PoolResult({"b": 2}, {}, ["a"], ["a"]), "ab"),
        # While stopping, dead workers are not replaced.
        ({"a": [FULL], "b": [DIED]}, 2, PoolResult({}, {}, ["a", "b"], [], FULL.value), "ab"),
    ],
)
def test_results_of_outcomes(
    backend: Any, script: Script, workers: int, result: PoolResult, submitted: str
) -> None:
    scripted = backend({name: [*outcomes] for name, outcomes in script.items()}, workers)
    assert run(scripted) == result
    assert scripted.submitted == [*submitted]


def test_a_job_that_stops_all_interrupts_the_others_once(backend: Any) -> None:
    """A second signal would kill them before they save."""
    reported: list[str] = []
    scripted = backend({"a": [FULL], "b": [FULL], "c": [], "d": [done()]}, 3)
    result = run(scripted, on_done=lambda name, _: reported.append(name))
    assert result == PoolResult(unfinished=["a", "b", "c", "d"], stopped=FULL.value)
    assert scripted.submitted == ["a", "b", "c"]
    assert scripted.calls.count("interrupt") == 1
    assert reported == []


# -- deadlines ------------------------------------------------------------------------------------


def test_at_the_deadline_running_jobs_are_interrupted(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]

    class Slow(Scripted):
        def wait(self, timeout: float | None) -> list[tuple[str, Outcome]]:
            now[0] += 4.0
            return super().wait(timeout)

    scripted = backend({"a": [done(1)], "b": [], "c": [done(3)]}, kind=Slow)
    monkeypatch.setattr(pool, "time", SimpleNamespace(monotonic=lambda: now[0]))
    assert run(scripted, deadline=10.0) == PoolResult({"a": 1}, {}, ["b", "c"])
    assert scripted.timeouts == [10.0, 6.0, 2.0, None]
    assert scripted.calls == ["interrupt", "end", "close"]


def test_jobs_that_outlast_the_grace_period_are_killed(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]

    class Deaf(Scripted):
        grace = 30.0

        def wait(self, timeout: float | None) -> list[tuple[str, Outcome]]:
            assert timeout is not None
            now[0] += timeout
            return []

    scripted = backend({"a": []}, kind=Deaf)
    monkeypatch.setattr(pool, "time", SimpleNamespace(monotonic=lambda: now[0]))
    assert run(scripted, deadline=5.0) == PoolResult(unfinished=["a"])
    assert now == [35.0]
    assert scripted.calls == ["interrupt", "end a", "close"]


def test_deadlines_in_the_past_and_in_weeks(backend: Any) -> None:
    scripted = backend({"a": [done(1)]})
    assert run(scripted, deadline=time.monotonic()) == PoolResult(unfinished=["a"])
    assert scripted.submitted == []
    run(scripted, deadline=time.monotonic() + 40 * 86400)
    assert scripted.timeouts == [pool._LONGEST_WAIT]
    assert pool._LONGEST_WAIT * 1000 < 2**31  # the system counts milliseconds in 32 bits


# -- errors in this process -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "repeated", "calls"),
    [
        (KeyboardInterrupt(), False, ["interrupt", "end", "close"]),
        (KeyboardInterrupt(), True, ["interrupt", "end c", "close"]),
        (GSATError("full"), True, ["interrupt", "end", "close"]),
        (ZeroDivisionError(), True, ["end b c", "close"]),
    ],
)
def test_ctrl_c_and_user_errors_stop_jobs_cleanly_and_bugs_at_once(
    backend: Any, error: BaseException, repeated: bool, calls: list[str]
) -> None:
    reported: list[str] = []

    def on_done(name: str, _: Outcome) -> None:
        reported.append(name)
        if repeated or len(reported) == 1:
            raise error

    scripted = backend({"a": [done(1)], "b": [done(2)], "c": [], "d": [done(4)]}, 3)
    with pytest.raises(type(error)):
        run(scripted, on_done=on_done)
    assert scripted.calls == calls
    assert scripted.submitted == ["a", "b", "c"]
    # After the first Ctrl-C, jobs that end are still reported.
    assert reported == (["a", "b"] if isinstance(error, KeyboardInterrupt) else ["a"])


# -- calls and results ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "payload", "outcome"),
    [
        ("double", "[1.5, null]", done([1.5, None, 1.5, None])),
        ("fail", '"user"', Outcome("failed", "no such file")),
        ("fail", '"bug"', Outcome("failed", "ZeroDivisionError: a bug")),
        ("fail", '"busy"', Outcome("busy", "in use")),
        ("fail", '"stop"', Outcome("stop", "the disk is full")),
        ("fail", '"interrupted"', Outcome("interrupted", "stopped")),
    ],
)
def test_errors_of_a_function_are_outcomes(function: str, payload: str, outcome: Outcome) -> None:
    assert Outcome.from_json(perform(f"pool_jobs.{function}", payload)) == outcome


@pytest.mark.parametrize("name", ["pool_jobs.nothing", "no_such_module.double"])
def test_a_missing_function_is_a_failure(name: str) -> None:
    outcome = Outcome.from_json(perform(name, "1"))
    assert outcome.status == "failed"
    assert name.rpartition(".")[0] in outcome.value


# -- shared results -------------------------------------------------------------------------------


def test_jobs_wait_for_the_one_that_computes_their_shared_result(backend: Any) -> None:
    scripted = backend({name: [done(name)] for name in "abcd"}, 3)
    assert run(scripted, shares="abc") == PoolResult({name: name for name in "adbc"})
    assert scripted.submitted == ["a", "d", "b", "c"]


def test_if_it_fails_the_next_job_computes_the_shared_result(backend: Any) -> None:
    scripted = backend({"a": [Outcome("failed", "no")], "b": [done(1)], "c": [done(1)]}, 3)
    assert list(run(scripted, shares="abc").failures) == ["a"]
    assert scripted.submitted == ["a", "b", "c"]
