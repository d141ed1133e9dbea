"""The door of the service: who may ask, from where, how much, and what a browser may do with it."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from gsat.core.errors import GSATError, shown
from gsat.web.errors import RequestError
from gsat.web.limits import Limits
from gsat.web.metrics import Metrics

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LONGEST_ADDRESS: Final = 8192
COOKIE: Final = "gsat_token"
OPEN: Final = ("/healthz",)  # what a load balancer asks, without a token
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
}
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_LOG: Final = logging.getLogger("gsat.web")


@dataclass(frozen=True)
class Policy:
    """Who may ask.

    Attributes:
        host: The address that the service is bound to. (default: ``"127.0.0.1"``)
        names: Further names that it is reached by. (default: none)
        token: What every request has to bring; None if it is open. (default: ``None``)
    """

    host: str = "127.0.0.1"
    names: frozenset[str] = field(default_factory=frozenset)
    token: str | None = None

    def knows(self, host: str) -> bool:
        """Whether a Host header names this service.

        A web page elsewhere can make its own name point to this machine, but not an IP address.
        """
        name = _without_port(host).lower()
        if name in {"localhost", self.host.lower(), *self.names}:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """Middleware that refuses what should not come in, and marks what goes out."""

    def __init__(self, app: App, policy: Policy, limits: Limits, metrics: Metrics) -> None:
        self.app, self.policy, self.limits, self.metrics = app, policy, limits, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1003})
            return
        begun, sent = time.perf_counter(), _Sent(send)
        try:
            headers = _headers(scope)
            self._check(scope, headers)
            if not await self._has_token(scope, headers, sent):
                return
            body = await self._body(headers, receive)
            async with asyncio.timeout(self.limits.seconds):
                await self.app(scope, _replayed(body, receive), sent)
        except RequestError as error:
            await _refuse(sent, error.status, str(error))
        except TimeoutError:
            seconds = f"{self.limits.seconds:g}"
            await _refuse(sent, 503, f"there was no answer within {seconds} seconds; ask for less")
        except asyncio.CancelledError:  # by the server, when it has waited long enough
            await _refuse(sent, 503, "the service was stopped before there was an answer")
        except Exception:
            _LOG.exception("an error in gsat itself")
            await _refuse(sent, 500, "an error in gsat itself; the service has logged it")
        finally:
            route = getattr(scope.get("route"), "path", "other")
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self.metrics.requests.labels(route, method, str(sent.status)).inc()
            self.metrics.seconds.labels(route).observe(time.perf_counter() - begun)

    def _check(self, scope: Scope, headers: dict[str, list[str]]) -> None:
        """Refuse a request that a page elsewhere has made."""
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > LONGEST_ADDRESS:
            raise RequestError(414, f"an address has at most {LONGEST_ADDRESS} characters")
        hosts = headers.get("host", [])
        if len(hosts) != 1 or not self.policy.knows(hosts[0]):
            came = shown(", ".join(hosts), 60) or "none"
            raise RequestError(421, f"the Host header does not name this service: {came} came")
        for origin in headers.get("origin", []):
            if origin.partition("://")[2].lower() != hosts[0].lower():
                raise RequestError(
                    403, f"requests from other sites are refused: {shown(origin, 60)} came"
                )
        fetched = headers.get("sec-fetch-site", ["none"])[0]
        navigates = headers.get("sec-fetch-mode", [""])[0] == "navigate"
        if fetched in ("cross-site", "same-site") and not (navigates and scope["method"] == "GET"):
            raise RequestError(403, "requests from other sites are refused")

    async def _has_token(self, scope: Scope, headers: dict[str, list[str]], send: Send) -> bool:
        """Whether a request may pass; a token in the address is moved to a cookie."""
        token = self.policy.token
        if token is None or scope["path"] in OPEN:
            return True
        for header in headers.get("authorization", []):
            kind, _, came = header.partition(" ")
            if kind.lower() == "bearer" and _same(came.strip(), token):
                return True
        for header in headers.get("cookie", []):
            if _same(_cookie(header), token):
                return True
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if any(key == "token" and _same(value, token) for key, value in query):
            rest = urlencode([pair for pair in query if pair[0] != "token"])
            await _to_cookie(send, scope["path"] + (f"?{rest}" if rest else ""), token)
            return False
        raise RequestError(
            401, "a token is needed: send it as the header 'Authorization: Bearer TOKEN'"
        )

    async def _body(self, headers: dict[str, list[str]], receive: Receive) -> bytes:
        """Read the whole body, unless it is too large or too slow."""
        most = self.limits.body_bytes
        for length in headers.get("content-length", []):
            if not length.isdigit() or int(length[:20]) > most:
                raise RequestError(
                    413, f"the body has {shown(length, 20)} bytes, at most {most} fit"
                )
        if "content-length" not in headers and "transfer-encoding" not in headers:
            return b""
        parts, size = [], 0
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RequestError(400, "the request ended before its body did")
                    part = message.get("body", b"")
                    size += len(part)
                    if size > most:
                        raise RequestError(413, f"the body has more than {most} bytes")
                    parts.append(part)
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            seconds = f"{self.limits.body_seconds:g}"
            raise RequestError(408, f"the body did not arrive within {seconds} seconds") from None


class _Sent:
    """Sends an answer with the headers that all answers have, and remembers its status."""

    def __init__(self, send: Send) -> None:
        self.status, self._send = 0, send

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = list(message.get("headers", []))
            known = {name.lower() for name, _ in headers}
            added = {**_HEADERS, "cache-control": "no-store"}
            headers += [
                (name.encode(), value.encode())
                for name, value in added.items()
                if name.encode() not in known
            ]
            message = {**message, "headers": headers}
        await self._send(message)


def error_body(status: int, message: str) -> bytes:
    """Write an error as JSON."""
    return json.dumps({"status": status, "error": message}, ensure_ascii=False).encode()


async def _refuse(send: _Sent, status: int, message: str) -> None:
    if send.status:  # the answer has begun; nothing can be added to it
        return
    body = error_body(status, message)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if status == 503:
        headers.append((b"retry-after", b"1"))
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status in (408, 413):
        headers.append((b"connection", b"close"))  # what is left of the body is not read
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _to_cookie(send: Send, path: str, token: str) -> None:
    """Send a browser to the same page without the token, which it keeps as a cookie."""
    cookie = f"{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/"
    # One slash alone: '//host' would lead elsewhere.
    to = "/" + path.lstrip("/\\")
    headers = [(b"location", to.encode()), (b"set-cookie", cookie.encode())]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _headers(scope: Scope) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        out.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return out


def _replayed(body: bytes, receive: Receive) -> Receive:
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _same(came: str, token: str) -> bool:
    return hmac.compare_digest(came.encode(), token.encode())


def _cookie(header: str) -> str:
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


def check_token(host: str, token: str | None) -> str | None:
    """Check that a service which others can reach has a token."""
    if token is None and not is_loopback(host):
        raise GSATError(
            f"{host} can be reached by others: a token is needed, which every request has to bring"
        )
    if token is not None and (len(token) < 16 or not token.isascii() or not token.isprintable()):
        raise GSATError("a token has at least 16 printable ASCII characters")
    if token is not None and any(c in token for c in ' ,;"\\'):
        raise GSATError("a token has no spaces, commas, semicolons, quotes or backslashes")
    return token
