"""The pool: what it makes of the outcomes that a back end reports, and when it stops."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from gsat.core.errors import GSATError
from gsat.launch import pool
from gsat.launch.jobs import Backend, Job, Outcome, perform
from gsat.launch.pool import PoolResult, WorkerPool

JOB = Job("pool_jobs.double", 1)
Script = dict[str, list[Outcome]]


class Scripted(Backend):
    """Jobs end as a script says, one at a time, first come, first served; what was interrupted
    and has no script ends interrupted."""

    def __init__(self, capacity: int, script: Script, tries: int = 2) -> None:
        self.capacity, self.script = capacity, script
        self.tries = tries  # type: ignore[misc]
        self.begun: list[str] = []
        self.at_work: list[str] = []
        self.calls: list[str] = []
        self.timeouts: list[float | None] = []

    @property
    def running(self) -> int:
        return len(self.at_work)

    def submit(self, name: str, job: Job) -> None:
        assert len(self.at_work) < self.capacity
        self.begun.append(name)
        self.at_work.append(name)

    def wait(self, timeout: float | None) -> list[tuple[str, Outcome]]:
        self.timeouts.append(timeout)
        for name in self.at_work:
            if self.script.get(name) or "interrupt" in self.calls:
                self.at_work.remove(name)
                left = self.script.get(name)
                return [(name, left.pop(0) if left else Outcome("interrupted"))]
        assert timeout is not None, "it would wait for ever"
        return []

    def interrupt(self) -> None:
        self.calls.append("interrupt")

    def end_jobs(self) -> None:
        self.calls.append(f"end {' '.join(self.at_work)}".strip())
        self.at_work.clear()

    def close(self) -> None:
        self.calls.append("close")


Run = Callable[..., tuple[PoolResult, Scripted]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run jobs that end as scripted."""

    def made(script: Script, workers: int = 1, **how: Any) -> tuple[PoolResult, Scripted]:
        backend = Scripted(workers, script)
        monkeypatch.setattr(pool, "LocalBackend", lambda _: backend)
        made.backend = backend  # type: ignore[attr-defined]
        with WorkerPool(workers) as workers_:
            result = workers_.run(dict.fromkeys(script, JOB), **how)
        return result, backend

    return made


def done(value: Any = None) -> Outcome:
    return Outcome("done", value)


def test_jobs_begin_in_order_and_end_as_they_end(run: Run) -> None:
    came: list[tuple[str, Outcome]] = []
    script = {"a": [done(1)], "b": [Outcome("failed", "why")], "c": [done(None)]}
    result, backend = run(script, 2, on_done=lambda *ended: came.append(ended))
    assert result == PoolResult({"a": 1, "c": None}, {"b": "why"})
    assert backend.begun == ["a", "b", "c"]
    assert came == [("a", done(1)), ("b", Outcome("failed", "why")), ("c", done(None))]
    assert backend.calls == ["end", "close"]


def test_nothing_to_do_is_nothing_done(run: Run) -> None:
    result, backend = run({})
    assert result == PoolResult()
    assert backend.begun == []


def test_a_job_whose_worker_dies_is_tried_again_before_the_others(run: Run) -> None:
    died = Outcome("died", "its process died")
    result, backend = run({"a": [died, done(1)], "b": [done(2)]})
    assert result == PoolResult({"a": 1, "b": 2})
    assert backend.begun == ["a", "a", "b"]


def test_a_job_whose_workers_die_is_given_up(run: Run) -> None:
    came: list[tuple[str, Outcome]] = []
    died = Outcome("died", "its process died")
    result, backend = run(
        {"a": [died, died], "b": [done(2)]}, on_done=lambda *ended: came.append(ended)
    )
    assert result == PoolResult({"b": 2}, {"a": "its process died"})
    assert came[0] == ("a", died)
    assert backend.begun == ["a", "a", "b"]


def test_busy_jobs_are_unfinished_not_failed(run: Run) -> None:
    result, _ = run({"a": [Outcome("busy", "x")], "b": [done(2)]})
    assert result == PoolResult({"b": 2}, {}, ["a"], ["a"])


def test_a_job_can_stop_everything_and_the_others_are_interrupted_once(run: Run) -> None:
    """Two may say so: a second signal would mean: at once, without saving."""
    full = Outcome("stop", "the disk is full")
    came: list[str] = []
    result, backend = run(
        {"a": [full], "b": [full], "c": [], "d": [done()]},
        3,
        on_done=lambda name, _: came.append(name),
    )
    assert result == PoolResult(unfinished=["a", "b", "c", "d"], stopped="the disk is full")
    assert backend.begun == ["a", "b", "c"]
    assert backend.calls.count("interrupt") == 1
    assert came == []


def test_a_job_that_dies_while_all_are_stopped_is_unfinished(run: Run) -> None:
    result, backend = run({"a": [Outcome("stop", "full")], "b": [Outcome("died", "x")]}, 2)
    assert result == PoolResult(unfinished=["a", "b"], stopped="full")
    assert backend.begun == ["a", "b"]


def test_when_the_time_has_come_running_jobs_are_interrupted(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]

    def later(timeout: float | None) -> list[tuple[str, Outcome]]:
        now[0] += 4.0
        return waits(timeout)

    script: Script = {"a": [done(1)], "b": [], "c": [done(3)]}
    backend = Scripted(1, script)
    waits, backend.wait = backend.wait, later  # type: ignore[method-assign]
    monkeypatch.setattr(pool, "LocalBackend", lambda _: backend)
    monkeypatch.setattr(pool, "time", type("Clock", (), {"monotonic": lambda: now[0]}))
    with WorkerPool() as workers:
        result = workers.run(dict.fromkeys(script, JOB), deadline=10.0)
    assert result == PoolResult({"a": 1}, {}, ["b", "c"])
    assert backend.timeouts == [10.0, 6.0, 2.0, None]
    assert backend.calls == ["interrupt", "end", "close"]


def test_when_the_time_has_come_before_nothing_is_begun(run: Run) -> None:
    result, backend = run({"a": [done(1)]}, deadline=time.monotonic())
    assert (result, backend.begun) == (PoolResult(unfinished=["a"]), [])


def test_a_deadline_in_weeks_can_be_waited_for(run: Run) -> None:
    _, backend = run({"a": [done(1)]}, deadline=time.monotonic() + 40 * 86400)
    assert backend.timeouts == [pool._LONGEST_WAIT]
    assert pool._LONGEST_WAIT * 1000 < 2**31


def test_ctrl_c_is_raised_when_running_jobs_have_stopped(run: Run) -> None:
    came: list[str] = []

    def interrupt(name: str, _: Outcome) -> None:
        came.append(name)
        if len(came) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run({"a": [done(1)], "b": [done(2)], "c": [], "d": [done(4)]}, 3, on_done=interrupt)
    backend = run.backend  # type: ignore[attr-defined]
    assert came == ["a", "b"]  # what ended meanwhile is reported
    assert backend.begun == ["a", "b", "c"]
    assert backend.calls == ["interrupt", "end", "close"]


def test_a_second_ctrl_c_ends_the_waiting(run: Run) -> None:
    def interrupt(name: str, _: Outcome) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run({"a": [done(1)], "b": [done(2)], "c": []}, 3, on_done=interrupt)
    assert run.backend.calls == ["interrupt", "end c", "close"]  # type: ignore[attr-defined]


def test_an_error_of_the_caller_s_stops_jobs_cleanly_a_bug_at_once(run: Run) -> None:
    def raising(error: Exception) -> Callable[[str, Outcome], None]:
        def on_done(name: str, _: Outcome) -> None:
            raise error

        return on_done

    script = {"a": [done(1)], "b": [done(2)], "c": []}
    with pytest.raises(GSATError, match="full"):
        run({**script}, 3, on_done=raising(GSATError("full")))
    assert run.backend.calls == ["interrupt", "end", "close"]  # type: ignore[attr-defined]
    with pytest.raises(ZeroDivisionError):
        run({"a": [done(1)], "b": [], "c": []}, 3, on_done=raising(ZeroDivisionError()))
    assert run.backend.calls == ["end b c", "close"]  # type: ignore[attr-defined]


def test_a_back_end_may_limit_the_time_to_stop(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Deaf(Scripted):
        grace = 0.05

        def wait(self, timeout: float | None) -> list[tuple[str, Outcome]]:
            time.sleep(min(timeout or 0.0, 0.05))
            return []

    backend = Deaf(1, {"a": []})
    monkeypatch.setattr(pool, "LocalBackend", lambda _: backend)
    with WorkerPool() as workers:
        result = workers.run({"a": JOB}, deadline=time.monotonic() + 0.05)
    assert result == PoolResult(unfinished=["a"])
    assert backend.calls == ["interrupt", "end a", "close"]


@pytest.mark.parametrize(
    ("function", "payload", "outcome"),
    [
        ("double", "[1.5, null]", Outcome("done", [1.5, None, 1.5, None])),
        ("fail", '"user"', Outcome("failed", "no such file")),
        ("fail", '"bug"', Outcome("failed", "ZeroDivisionError: a bug")),
        ("fail", '"busy"', Outcome("busy", "somebody is at it")),
        ("fail", '"stop"', Outcome("stop", "the disk is full")),
        ("fail", '"interrupted"', Outcome("interrupted", "stopped")),
    ],
)
def test_what_a_function_raises_is_its_outcome(
    function: str, payload: str, outcome: Outcome
) -> None:
    assert Outcome.from_json(perform(f"pool_jobs.{function}", payload)) == outcome


def test_a_function_that_is_not_there_is_a_failure() -> None:
    for name in ("pool_jobs.nothing", "no_such_module.double"):
        outcome = Outcome.from_json(perform(name, "1"))
        assert outcome.status == "failed"
        assert name.rpartition(".")[0] in outcome.value


def test_numbers_travel_to_the_last_bit() -> None:
    value = [0.1 + 0.2, 5e-324, -0.0, 1e300]
    assert Outcome.from_json(done(value).to_json()).value == value


def test_jobs_that_share_something_wait_for_the_first_to_make_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = {name: [Outcome("done", name)] for name in "abcd"}
    backend = Scripted(3, done)
    monkeypatch.setattr(pool, "LocalBackend", lambda workers: backend)
    jobs = {name: Job(JOB.function, 1, "backbone" if name in "abc" else "") for name in "abcd"}
    with WorkerPool(3) as workers:
        result = workers.run(jobs)
    # d is free at once, b and c only when a has ended.
    assert backend.begun == ["a", "d", "b", "c"]
    assert sorted(result.results) == list("abcd")


def test_if_the_first_fails_the_next_one_makes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    script = {"a": [Outcome("failed", "no")], "b": [Outcome("done", 1)], "c": [Outcome("done", 1)]}
    backend = Scripted(3, script)
    monkeypatch.setattr(pool, "LocalBackend", lambda workers: backend)
    with WorkerPool(3) as workers:
        result = workers.run({name: Job(JOB.function, 1, "backbone") for name in "abc"})
    assert backend.begun == ["a", "b", "c"]
    assert list(result.failures) == ["a"]
