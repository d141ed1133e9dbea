"""Ctrl-C: held back for a moment, or taken as a request to stop."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType

import pytest

from gsat.launch.interrupts import InterruptibleCalls, StopRequest, hold_interrupts


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_is_held_back_and_delivered_at_the_end() -> None:
    passed: list[bool] = []

    def interrupted() -> None:
        with hold_interrupts():
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            passed.append(True)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert passed == [True]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, set())


def test_an_interrupt_that_another_thread_takes_is_held_back_as_well() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    before, passed = signal.getsignal(signal.SIGINT), []

    def interrupted() -> None:
        with hold_interrupts():
            press_ctrl_c()  # blocked in this thread, so the other one takes it
            passed.extend(str(number) for number in range(1000))

    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    finally:
        done.set()
        thread.join()
    assert len(passed) == 1000
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_at_any_line_of_a_call_is_its_outcome_and_never_leaves_it() -> None:
    before = signal.getsignal(signal.SIGINT)
    outcomes = []
    try:
        calls = InterruptibleCalls()
        for line in range(12):
            left = [line]

            def trace(frame: FrameType, event: str, _: object, left: list[int] = left) -> object:
                if frame.f_code is not InterruptibleCalls.run.__code__:
                    return None
                if event == "line":
                    left[0] -= 1
                    if left[0] == 0:
                        signal.raise_signal(signal.SIGINT)
                return trace

            sys.settrace(trace)
            try:
                outcomes.append(calls.run(lambda: "done", "interrupted"))
            finally:
                sys.settrace(None)
        assert calls.run(lambda: "done", "interrupted") == "done"
    finally:
        signal.signal(signal.SIGINT, before)
    assert outcomes[0] == outcomes[-1] == "done"
    assert outcomes.count("interrupted") >= 3


def test_other_threads_get_no_signals_and_change_nothing() -> None:
    before, found = signal.getsignal(signal.SIGINT), []

    def enter() -> None:
        with StopRequest(lambda: None) as request:
            found.append((request.made, signal.getsignal(signal.SIGINT) is before))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [(False, True)]
