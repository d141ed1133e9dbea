"""A small HTTP server on this machine that can misbehave in the ways real ones do."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass
class Served:
    """A file on the server, how it is sent, and the requests and answers so far."""

    content: bytes
    etag: str = '"v1"'
    modified: str = ""
    ranges: bool = True  # honours Range
    heeds_if_range: bool = True
    declare_length: bool = True
    redirect: str = ""
    statuses: list[int] = field(default_factory=list)  # answered first, one request each
    breaks: list[int] = field(default_factory=list)  # bytes after which a request breaks off
    block: int = 1 << 16
    pause: float = 0.0  # seconds between blocks
    requests: list[dict[str, str]] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)  # bytes of each answer


class Loopback:
    """Files by path; ``url(path)`` is where they are."""

    def __init__(self) -> None:
        self.files: dict[str, Served] = {}
        loopback = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                loopback.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    def url(self, path: str) -> str:
        """The address of a file."""
        return f"http://127.0.0.1:{self.server.server_port}/{path}"

    def put(self, path: str, content: bytes, **how: object) -> Served:
        """Serve a file."""
        self.files[path] = Served(content, **how)  # type: ignore[arg-type]
        return self.files[path]

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        request.close_connection = True
        served = self.files.get(request.path.lstrip("/"))
        if served is None:
            return request.send_error(404)
        served.requests.append(dict(request.headers.items()))
        if served.statuses and (status := served.statuses.pop(0)) != 200:
            return request.send_error(status)
        if served.redirect:
            request.send_response(302)
            request.send_header("Location", served.redirect)
            request.send_header("Content-Length", "0")
            return request.end_headers()
        body, first = served.content, 0
        wanted = request.headers.get("Range")
        condition = request.headers.get("If-Range")
        same = condition in (None, served.etag, served.modified) or not served.heeds_if_range
        if wanted and served.ranges and same:
            first = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if first >= len(body):
                return request.send_error(416)
        partial = bool(wanted) and served.ranges and same
        request.send_response(206 if partial else 200)
        if partial:
            request.send_header("Content-Range", f"bytes {first}-{len(body) - 1}/{len(body)}")
        if served.etag:
            request.send_header("ETag", served.etag)
        if served.modified:
            request.send_header("Last-Modified", served.modified)
        if served.declare_length:
            request.send_header("Content-Length", str(len(body) - first))
        request.end_headers()
        served.sent.append(0)
        number = len(served.sent) - 1
        end = min(len(body), first + served.breaks.pop(0)) if served.breaks else len(body)
        try:
            for start in range(first, end, served.block):
                block = body[start : min(end, start + served.block)]
                # Before it is sent: the other side may be done with it, and look, before we go on.
                served.sent[number] += len(block)
                request.wfile.write(block)
                if served.pause:
                    time.sleep(served.pause)
        except OSError:  # the other side is gone
            served.sent[number] -= len(block)


@contextmanager
def serving() -> Iterator[Loopback]:
    """A server while the block runs."""
    loopback = Loopback()
    thread = threading.Thread(target=loopback.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield loopback
    finally:
        loopback.server.shutdown()
        loopback.server.server_close()
        thread.join()


def left(folder: Path) -> set[str]:
    """The files below a folder."""
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir()}
