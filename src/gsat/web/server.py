"""The server: socket, limits of connections and of heads, stop within a fixed time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gsat.core.errors import GSATError
from gsat.web.guard import Guard
from gsat.web.requests import Limits

STOP_SECONDS = 15  # for requests in progress
KILL_SECONDS: Final = 19  # from the signal until the watchdog kills the process
_OTHER_FILES: Final = 200  # file descriptors that are not connections
# Waits for the number of a signal on its standard input, and kills the service if that has not
# ended in time. Needs nothing of the service: compiled code may hold Python's lock for minutes.
_WATCHDOG: Final = """
import os, select, sys, time
pid, seconds = int(sys.argv[1]), float(sys.argv[2])
end = None
while end is None or time.monotonic() < end:
    wait = None if end is None else max(0, end - time.monotonic())
    if select.select([0], [], [], wait)[0]:
        numbers = os.read(0, 64)
        if not numbers:
            sys.exit()
        if end is None and set(numbers) & {2, 15}:
            end = time.monotonic() + seconds
os.kill(pid, 9)
"""


def bind(host: str, port: int) -> socket.socket:
    """Bind a socket."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = addresses[0]
        opened = socket.socket(family, kind, protocol)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise GSATError(f"can't listen on {host}, port {port}: {reason}") from None
    return opened


@contextmanager
def killed_after_signal(seconds: float = KILL_SECONDS) -> Iterator[None]:
    """Let a small process kill this one if it still runs that long after SIGINT or SIGTERM."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    command = [sys.executable, "-I", "-S", "-c", _WATCHDOG, str(os.getpid()), str(seconds)]
    watchdog = subprocess.Popen(command, stdin=reading, start_new_session=True)
    os.close(reading)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writing)
        watchdog.wait()


class Server(uvicorn.Server):
    """A server that finishes requests in progress and exits with code 0 when a signal stops it.

    It calls ``ready`` when it accepts connections, and ``stopping`` when it stops.
    """

    def __init__(
        self,
        app: Guard,
        *,
        ready: Callable[[], None] = lambda: None,
        stopping: Callable[[], None] = lambda: None,
    ) -> None:
        class Protocol(_LimitedProtocol):
            limits = app.limits
            most_connections = _most_connections(app.limits.connections)

        config = uvicorn.Config(
            app,
            http=Protocol,
            loop="asyncio",  # uvloop would take the watchdog's file for signals
            ws="none",
            log_level="error",  # a warning for each invalid request would fill the log
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=STOP_SECONDS,
        )
        super().__init__(config)
        self._ready, self._stopping = ready, stopping

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting connections, and finish requests in progress."""
        self._stopping()
        await super().shutdown(sockets=sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections."""
        await super().startup(sockets=sockets)
        if not self.should_exit:
            self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at a signal, without uvicorn's raising it again at the end."""
        kinds = (signal.SIGINT, signal.SIGTERM)
        before = {kind: signal.signal(kind, self.handle_exit) for kind in kinds}
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)


def _most_connections(wanted: int) -> int:
    """Allow as many open files as connections need, or reduce the number of connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHER_FILES
    if soft < needed:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(needed, hard), hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(min(wanted, soft - _OTHER_FILES), 10)


class _Refused(Exception):
    """The parser must not read on; the protocol's ``refusal`` says why."""


class _LimitedProtocol(HttpToolsProtocol):
    """Limits connections, the time and size of a head, trailers, and pipelined requests."""

    limits = Limits()
    most_connections = 0
    refusal = (400, "the request is not valid HTTP")
    _timer: asyncio.TimerHandle | None = None
    _overhead = 0  # bytes received that are not part of a body
    _head = 0  # bytes of the address, headers and trailers of this request

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > self.most_connections:
            self.refusal = (503, "there are too many connections; try again in a moment")
            self.send_400_response("")

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._overhead += len(data)
        super().data_received(data)
        if self._overhead > self.limits.head_bytes and not self.transport.is_closing():
            self._too_large()
            self.send_400_response("")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head = 0
        self._wait()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._stop()
        if len(self.pipeline) >= self.limits.pipelined:
            self.refusal = (503, "too many requests were sent without waiting for answers")
            raise _Refused
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        # Twice: small chunks have more bytes of framing than of content.
        self._overhead = max(0, self._overhead - 2 * len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._overhead = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer with the refusal, unless another answer is being sent, and close."""
        status, message = self.refusal
        if self.cycle is None or self.cycle.response_complete:
            body = json.dumps({"status": status, "error": message}).encode()
            retry = "retry-after: 1\r\n" if status == 503 else ""
            head = (
                f"HTTP/1.1 {status} Refused\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\n{retry}connection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
        self.transport.close()

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > self.limits.head_bytes:
            self._too_large()
            raise _Refused

    def _too_large(self) -> None:
        most = self.limits.head_bytes
        self.refusal = (431, f"the head of the request has more than {most} bytes")

    def _wait(self) -> None:
        self._stop()
        self._timer = self.loop.call_later(self.limits.header_seconds, self.transport.close)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
