"""Security of the service: hosts, origins, tokens, sizes, times, and headers of responses."""

from __future__ import annotations

import asyncio
import gc
import hmac
import ipaddress
import json
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gsat.core.errors import GSATError, shown
from gsat.core.limits import json_bytes
from gsat.web.cancellation import cancellable
from gsat.web.metrics import Metrics
from gsat.web.requests import Limits, RequestError

MAX_ADDRESS: Final = 8192
INTERNAL: Final = "internal error; the log of the service has details"
COOKIE: Final = "gsat_token"
OPEN: Final = ("/healthz", "/readyz")  # need no token: load balancers request them
_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
_ERROR_HEADERS: Final = {401: {"www-authenticate": "Bearer"}, 503: {"retry-after": "1"}}
_HOST: Final = re.compile(r"(?P<name>\[[^]]*\]|[^:]*)(:\d*)?")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f]")
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_LOG: Final = logging.getLogger("gsat.web")


@dataclass(frozen=True)
class Policy:
    """Names by which the service may be reached, and its token."""

    host: str = "127.0.0.1"  # the address to which the service is bound
    names: frozenset[str] = field(default_factory=frozenset)  # further host names
    token: str | None = None  # required from every request, unless None

    def accepts(self, host: str) -> bool:
        """Whether a Host header names this service.

        Another site can make its own name point to this machine (DNS rebinding), but not an IP
        address.
        """
        parts = _HOST.fullmatch(host.lower())
        if parts is None:
            return False
        name = parts["name"].strip("[]")
        if name in {"localhost", self.host.lower(), *self.names}:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_token(host: str, token: str | None) -> str | None:
    """Check a token; a service that other machines can reach needs one."""
    if token is None and not is_loopback(host):
        raise GSATError(f"other machines can reach {host}: give a token, by --token or GSAT_TOKEN")
    if token is not None and (len(token) < 16 or not token.isascii() or not token.isprintable()):
        raise GSATError("a token has at least 16 printable ASCII characters")
    if token is not None and any(c in token for c in ' ,;"\\'):
        raise GSATError("a token has no spaces, commas, semicolons, quotes or backslashes")
    return token


def problem(status: int, message: str) -> Response:
    """Make the response for an error."""
    body = json.dumps({"status": status, "error": message}, ensure_ascii=False)
    return Response(body, status, _ERROR_HEADERS.get(status), "application/json")


class _ClientGoneError(Exception):
    """The client has closed the connection: there is nobody to answer."""


class Guard:
    """Middleware that refuses unsafe requests and adds security headers to responses."""

    def __init__(self, app: ASGIApp, policy: Policy, limits: Limits, metrics: Metrics) -> None:
        self.app, self.policy, self.limits, self.metrics = app, policy, limits, metrics
        self._held = 0  # bytes of large bodies in memory
        self._parsed = 0  # bytes that small bodies take when they are parsed, about
        self._large = asyncio.Lock()  # held by the request whose large body is handled

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1003})
            return
        begun, status, complete = time.perf_counter(), 0, False

        async def respond(message: Message) -> None:
            nonlocal status, complete
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if status == 503:
                    headers["connection"] = "close"
            await send(message)
            complete = message["type"] == "http.response.body" and not message.get("more_body")

        try:
            refused = await self._handle(scope, receive, respond, lambda: complete)
        except RequestError as error:
            refused = problem(error.status, str(error))
        except TimeoutError:
            seconds = f"{self.limits.seconds:g}"
            refused = problem(503, f"no answer within {seconds} seconds; request less at a time")
        except _ClientGoneError:
            refused, status = None, status or 499
        except asyncio.CancelledError:  # the server stops and has waited long enough
            refused = problem(503, "the service was stopped before there was an answer")
        except Exception:
            _LOG.exception(INTERNAL)
            refused = problem(500, INTERNAL)
        if refused is not None and not status:  # no response has begun
            refused.headers["connection"] = "close"  # the rest of the request is not read
            await refused(scope, receive, respond)
        route = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self.metrics.requests.labels(route, method, str(status)).inc()
        self.metrics.seconds.labels(route).observe(time.perf_counter() - begun)

    async def _handle(
        self, scope: Scope, receive: Receive, send: Send, complete: Callable[[], bool]
    ) -> Response | None:
        request = Request(scope)
        self._check_origin(request)
        if (redirect := self._check_token(request)) is not None:
            return redirect
        held = 0

        def hold(size: int) -> None:
            nonlocal held
            if size > self.limits.small_bytes:
                if self._held + size - held > self.limits.held_bytes:
                    raise RequestError(503, "too many large requests; try again in a moment")
                self._held += size - held
                held = size

        try:
            body = await self._body(request.headers, receive, hold)
            if not held:
                await self._answer_small(scope, body, receive, send, complete)
                return None
            await self._wait_for_turn()
            try:
                await self._answer(scope, body, receive, send, complete)
            finally:
                self._large.release()
        finally:
            if held:
                self._held -= held
                body = b""
                gc.collect()  # requests and tracebacks are cycles, which hold the body
        return None

    async def _answer_small(
        self,
        scope: Scope,
        body: bytes,
        receive: Receive,
        send: Send,
        complete: Callable[[], bool],
    ) -> None:
        """Let the application answer unless small bodies already take too much memory."""
        size = json_bytes(body)
        if self._parsed + size > self.limits.parsed_bytes:
            raise RequestError(503, "too many requests; try again in a moment")
        self._parsed += size
        try:
            await self._answer(scope, body, receive, send, complete)
        finally:
            self._parsed -= size

    async def _wait_for_turn(self) -> None:
        """Wait until no other large body is handled."""
        try:
            async with asyncio.timeout(self.limits.wait_seconds):
                await self._large.acquire()
        except TimeoutError:
            raise RequestError(503, "another large request is computed; try again later") from None

    async def _answer(
        self,
        scope: Scope,
        body: bytes,
        receive: Receive,
        send: Send,
        complete: Callable[[], bool],
    ) -> None:
        """Let the application answer, until the time is up or the client has gone."""
        received = False

        async def disconnected() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        async def replay() -> Message:
            nonlocal received
            if received:
                await asyncio.shield(gone)
                return {"type": "http.disconnect"}
            received = True
            return {"type": "http.request", "body": body, "more_body": False}

        with cancellable():
            answering = asyncio.ensure_future(self.app(scope, replay, send))
            gone = asyncio.create_task(disconnected())
            try:
                async with asyncio.timeout(self.limits.seconds):
                    await asyncio.wait((answering, gone), return_when=asyncio.FIRST_COMPLETED)
                    if not answering.done() and not complete():
                        raise _ClientGoneError
                    await answering  # perhaps work in the background, after the response
            finally:
                for task in (answering, gone):
                    task.cancel()
                await asyncio.gather(answering, gone, return_exceptions=True)

    def _check_origin(self, request: Request) -> None:
        """Refuse requests for other hosts, and requests made by pages of other sites."""
        scope, headers = request.scope, request.headers
        if _CONTROL.search(scope["path"]):
            raise RequestError(400, f"the address contains {shown(scope['path'], 60)}")
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MAX_ADDRESS:
            raise RequestError(414, f"the address has more than {MAX_ADDRESS} characters")
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self.policy.accepts(hosts[0]):
            sent = shown(", ".join(hosts), 60) or "none"
            raise RequestError(421, f"the Host header must name this service, not {sent}")
        for origin in headers.getlist("origin"):
            if origin.partition("://")[2].lower() != hosts[0].lower():
                raise RequestError(
                    403, f"requests from other sites are refused: {shown(origin, 60)}"
                )
        is_link = headers.get("sec-fetch-mode") == "navigate" and request.method == "GET"
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not is_link:
            raise RequestError(403, "requests from other sites are refused")

    def _check_token(self, request: Request) -> Response | None:
        """Check the token; move a token in the address to a cookie."""
        token = self.policy.token
        if token is None or request.scope["path"] in OPEN:
            return None
        for header in request.headers.getlist("authorization"):
            kind, _, value = header.partition(" ")
            if kind.lower() == "bearer" and _same(value.strip(), token):
                return None
        for header in request.headers.getlist("cookie"):
            if _same(cookie_parser(header).get(COOKIE, ""), token):
                return None
        if any(_same(value, token) for value in request.query_params.getlist("token")):
            others = [item for item in request.query_params.multi_items() if item[0] != "token"]
            query = f"?{urlencode(others)}" if others else ""
            # A single slash: '//host' would lead to another host.
            path = "/" + request.scope["path"].lstrip("/\\")
            redirect = RedirectResponse(path + query, 303)
            redirect.set_cookie(COOKIE, token, httponly=True, samesite="strict")
            return redirect
        raise RequestError(
            401, "a token is needed: send it as the header 'Authorization: Bearer TOKEN'"
        )

    async def _body(self, headers: Headers, receive: Receive, hold: Callable[[int], None]) -> bytes:
        """Read the whole body within the limits of size and time; ``hold`` counts its bytes."""
        limit = self.limits.body_bytes
        for length in headers.getlist("content-length"):
            if not length.isdigit() or int(length[:20]) > limit:
                raise RequestError(
                    413, f"the body has {shown(length, 20)} bytes; at most {limit} are allowed"
                )
        if "content-length" not in headers and "transfer-encoding" not in headers:
            return b""
        parts, size, more = [], 0, True
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _ClientGoneError
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > limit:
                        raise RequestError(413, f"the body has more than {limit} bytes")
                    hold(size)
                    more = message.get("more_body", False)
        except TimeoutError:
            seconds = f"{self.limits.body_seconds:g}"
            raise RequestError(408, f"the body did not arrive within {seconds} seconds") from None
        return b"".join(parts)


def _same(value: str, token: str) -> bool:
    return hmac.compare_digest(value.encode(), token.encode())
