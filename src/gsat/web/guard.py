"""Security of the service: hosts, origins, tokens, sizes, times, and headers of responses."""

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
from gsat.web.metrics import Metrics
from gsat.web.requests import Limits, RequestError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_ADDRESS: Final = 8192
INTERNAL: Final = "internal error; the log of the service has details"
COOKIE: Final = "gsat_token"
OPEN: Final = ("/healthz",)  # needs no token: load balancers request it
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
        name = _without_port(host).lower()
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


class Guard:
    """Middleware that refuses unsafe requests and adds security headers to responses."""

    def __init__(self, app: App, policy: Policy, limits: Limits, metrics: Metrics) -> None:
        self.app, self.policy, self.limits, self.metrics = app, policy, limits, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1003})
            return
        begun, response = time.perf_counter(), _Response(send)
        try:
            headers = _headers(scope)
            self._check(scope, headers)
            if not await self._has_token(scope, headers, response):
                return
            body = await self._body(headers, receive)
            async with asyncio.timeout(self.limits.seconds):
                await self.app(scope, _replayed(body, receive), response)
        except RequestError as error:
            await _refuse(response, error.status, str(error))
        except TimeoutError:
            message = f"no answer within {self.limits.seconds:g} seconds; request less at a time"
            await _refuse(response, 503, message)
        except asyncio.CancelledError:  # the server stops and has waited long enough
            await _refuse(response, 503, "the service was stopped before there was an answer")
        except Exception:
            _LOG.exception(INTERNAL)
            await _refuse(response, 500, INTERNAL)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self.metrics.requests.labels(route, method, str(response.status)).inc()
            self.metrics.seconds.labels(route).observe(time.perf_counter() - begun)

    def _check(self, scope: Scope, headers: dict[str, list[str]]) -> None:
        """Refuse requests for other hosts, and requests made by pages of other sites."""
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MAX_ADDRESS:
            raise RequestError(414, f"the address has more than {MAX_ADDRESS} characters")
        hosts = headers.get("host", [])
        if len(hosts) != 1 or not self.policy.accepts(hosts[0]):
            sent = shown(", ".join(hosts), 60) or "none"
            raise RequestError(421, f"the Host header must name this service, not {sent}")
        for origin in headers.get("origin", []):
            if origin.partition("://")[2].lower() != hosts[0].lower():
                raise RequestError(
                    403, f"requests from other sites are refused: {shown(origin, 60)}"
                )
        site = headers.get("sec-fetch-site", ["none"])[0]
        navigates = headers.get("sec-fetch-mode", [""])[0] == "navigate"
        if site in ("cross-site", "same-site") and not (navigates and scope["method"] == "GET"):
            raise RequestError(403, "requests from other sites are refused")

    async def _has_token(self, scope: Scope, headers: dict[str, list[str]], send: Send) -> bool:
        """Check the token; move a token in the address to a cookie and return False."""
        token = self.policy.token
        if token is None or scope["path"] in OPEN:
            return True
        for header in headers.get("authorization", []):
            kind, _, value = header.partition(" ")
            if kind.lower() == "bearer" and _same(value.strip(), token):
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
        """Read the whole body within the limits of size and time."""
        limit = self.limits.body_bytes
        for length in headers.get("content-length", []):
            if not length.isdigit() or int(length[:20]) > limit:
                raise RequestError(
                    413, f"the body has {shown(length, 20)} bytes; at most {limit} are allowed"
                )
        if "content-length" not in headers and "transfer-encoding" not in headers:
            return b""
        parts, size = [], 0
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RequestError(400, "the body is incomplete")
                    part = message.get("body", b"")
                    size += len(part)
                    if size > limit:
                        raise RequestError(413, f"the body has more than {limit} bytes")
                    parts.append(part)
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            seconds = f"{self.limits.body_seconds:g}"
            raise RequestError(408, f"the body did not arrive within {seconds} seconds") from None


class _Response:
    """Sends a response with the security headers, and keeps its status."""

    def __init__(self, send: Send) -> None:
        self.status, self._send = 0, send

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = list(message.get("headers", []))
            present = {name.lower() for name, _ in headers}
            headers += [
                (name.encode(), value.encode())
                for name, value in _HEADERS.items()
                if name.encode() not in present
            ]
            message = {**message, "headers": headers}
        await self._send(message)


def error_body(status: int, message: str) -> bytes:
    """Write an error as JSON."""
    return json.dumps({"status": status, "error": message}, ensure_ascii=False).encode()


async def _refuse(send: _Response, status: int, message: str) -> None:
    if send.status:  # a response has begun
        return
    body = error_body(status, message)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if status == 503:
        headers.append((b"retry-after", b"1"))
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status in (408, 413):
        headers.append((b"connection", b"close"))  # the rest of the body is not read
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _to_cookie(send: Send, path: str, token: str) -> None:
    """Redirect to the address without the token, and set it as a cookie."""
    cookie = f"{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/"
    # A single slash: '//host' would lead to another host.
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
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _same(value: str, token: str) -> bool:
    return hmac.compare_digest(value.encode(), token.encode())


def _cookie(header: str) -> str:
    try:
        cookie = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return "" if cookie is None else cookie.value


def check_token(host: str, token: str | None) -> str | None:
    """Check a token; a service that other machines can reach needs one."""
    if token is None and not is_loopback(host):
        raise GSATError(f"other machines can reach {host}: give a token, by --token or GSAT_TOKEN")
    if token is not None and (len(token) < 16 or not token.isascii() or not token.isprintable()):
        raise GSATError("a token has at least 16 printable ASCII characters")
    if token is not None and any(c in token for c in ' ,;"\\'):
        raise GSATError("a token has no spaces, commas, semicolons, quotes or backslashes")
    return token
