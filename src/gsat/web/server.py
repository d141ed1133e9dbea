"""The server: socket, timeout of slow clients, graceful stop."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gsat.core.errors import GSATError
from gsat.web.guard import Guard
from gsat.web.requests import Limits

STOP_SECONDS = 20  # for requests in progress


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


def run_server(
    app: Guard,
    opened: socket.socket,
    limits: Limits,
    *,
    ready: Callable[[], None] = lambda: None,
    stopping: Callable[[], None] = lambda: None,
) -> None:
    """Serve until a signal stops the process; requests in progress are finished."""
    _Server(make_config(app, limits), ready, stopping).run(sockets=[opened])


def make_config(app: Guard, limits: Limits) -> uvicorn.Config:
    """Configure the server."""

    class Protocol(_TimedProtocol):
        header_seconds = limits.header_seconds

    return uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=STOP_SECONDS,
    )


class _Server(uvicorn.Server):
    """A server that exits with code 0 when a signal stops it."""

    def __init__(
        self,
        config: uvicorn.Config,
        ready: Callable[[], None],
        stopping: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(config)
        self._ready, self._stopping = ready, stopping

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping()
        await super().shutdown(sockets=sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if not self.should_exit:
            self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        kinds = (signal.SIGINT, signal.SIGTERM)
        before = {kind: signal.signal(kind, self.handle_exit) for kind in kinds}
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)


class _TimedProtocol(HttpToolsProtocol):
    """Closes a connection whose request headers take too long."""

    header_seconds = 10.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._wait()

    def on_headers_complete(self) -> None:
        self._stop()
        super().on_headers_complete()

    def _wait(self) -> None:
        self._stop()
        self._timer = self.loop.call_later(self.header_seconds, self.transport.close)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
