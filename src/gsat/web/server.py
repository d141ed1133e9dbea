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
        class Protocol(_TimedProtocol):
            header_seconds = app.limits.header_seconds

        config = uvicorn.Config(
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
