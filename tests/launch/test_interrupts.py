"""Ctrl-C: held back for a moment, or taken as a request to stop."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from gsat.launch.interrupts import StopRequest, hold_interrupts


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


def test_the_first_interrupt_is_a_request_the_second_interrupts() -> None:
    asked: list[bool] = []
    before = signal.getsignal(signal.SIGINT)
    with StopRequest(lambda: asked.append(True)) as request:
        assert not request.made
        press_ctrl_c()
        assert request.made
        with pytest.raises(KeyboardInterrupt):
            press_ctrl_c()
    assert asked == [True]
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_get_no_signals_and_change_nothing() -> None:
    before, found = signal.getsignal(signal.SIGINT), []

    def enter() -> None:
        with StopRequest(lambda: None) as request:
            found.append((request.made, signal.getsignal(signal.SIGINT) is before))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [(False, True)]
