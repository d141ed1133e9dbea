"""The guard: hosts, origins, tokens, limits, headers and escaping."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from web_harness import EVIL, LIMITS, TOKEN, make_client

from gsat.core.errors import GSATError
from gsat.web.guard import Policy, check_token

pytestmark = pytest.mark.medium
AUTHORISED = {"authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "",
        "8.8.8.8",
        "localhost.evil.example:8765",
        "localhost/healthz?",
        "localhost@evil.example",
    ],
)
def test_a_forged_host_is_refused(client: TestClient, host: str) -> None:
    answer = client.get("/api/runs", headers={"host": host})
    assert answer.status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost", "LOCALHOST:1", "[::1]:8765"])
def test_names_of_this_machine_are_accepted(client: TestClient, host: str) -> None:
    assert client.get("/api/runs", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_requests_from_other_sites_are_refused(
    client: TestClient, headers: dict[str, str], method: str
) -> None:
    answer = client.request(method, "/api/runs/mols/predictions", headers=headers)
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


def test_the_own_site_and_links_from_other_sites_are_accepted(client: TestClient) -> None:
    own = {"origin": "http://127.0.0.1:8765", "sec-fetch-site": "same-origin"}
    body = {"smiles": "CCO"}
    answer = client.post("/api/runs/mols/predictions", json=body, headers=own)
    assert answer.status_code == 200
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert client.get("/runs", headers=link).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/api/runs/..",
        "/api/runs/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/api/runs//etc/passwd",
        "/static/..%2fapp.py",
        "/static/%2e%2e/app.py",
        "/static/page.js%00.css",
        "/runs/mols/graphs/..%2f..%2fx/1",
        "/runs/mols/try/table/..%2f..%2fx.csv",
    ],
)
def test_no_path_leads_out_of_the_runs(client: TestClient, path: str) -> None:
    answer = client.get(path, headers={"accept": "application/json"})
    assert answer.status_code in (400, 404), answer.text
    assert "root:" not in answer.text
    assert "import" not in answer.text


def test_a_token_is_required(strict: TestClient) -> None:
    assert strict.get("/healthz").status_code == 200
    for headers in ({}, {"authorization": "Bearer wrong"}, {"cookie": "gsat_token=wrong"}):
        answer = strict.get("/api/runs", headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
    assert strict.get("/metrics").status_code == 401
    assert strict.get("/api/runs", headers=AUTHORISED).status_code == 200


def test_a_token_in_an_address_becomes_a_cookie(strict: TestClient) -> None:
    query = {"token": TOKEN, "split": "valid"}
    answer = strict.get("/api/runs", params=query, follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/api/runs?split=valid"
    assert {"httponly", "samesite=strict"} <= set(answer.headers["set-cookie"].lower().split("; "))
    cookie = {"cookie": answer.headers["set-cookie"].partition(";")[0]}
    strict.cookies.clear()
    assert strict.get("/api/runs", headers=cookie).status_code == 200
    away = strict.get(f"//evil.example/?token={TOKEN}", follow_redirects=False)
    assert away.headers["location"].startswith("/")
    assert not away.headers["location"].startswith("//")


def test_a_service_for_other_machines_needs_a_token() -> None:
    assert check_token("127.0.0.1", None) is None
    assert check_token("localhost", None) is None
    for token in (None, "short", "a token with spaces", "a-token-with-ümlauts"):
        with pytest.raises(GSATError):
            check_token("0.0.0.0", token)


def test_a_service_for_other_machines_accepts_addresses_and_its_names() -> None:
    policy = Policy("0.0.0.0", frozenset({"models.example.org"}), TOKEN)
    assert policy.accepts("192.0.2.7:8000")
    assert policy.accepts("models.example.org")
    assert not policy.accepts("evil.example")
    assert not Policy().accepts("192.0.2.7")


@pytest.mark.parametrize(
    ("body", "limit"),
    [
        (b"x" * 20_001, 20_000),
        (b'{"smiles": ["C", "C", "C", "C", "C", "C"]}', 5),
        (b'{"smiles": "' + b"C" * 61 + b'"}', 60),
        (b'{"graph": {"num_nodes": 51, "edges": []}}', 50),
        (b'{"graph": {"edges": [[0, 4000000000]]}}', 50),
        (b'{"graph": {"edges": [' + b",".join([b"[0,1]"] * 201) + b"]}}", 200),
    ],
)
def test_requests_beyond_a_limit_are_refused(strict: TestClient, body: bytes, limit: int) -> None:
    answer = strict.post("/api/runs/mols/predictions", content=body, headers=AUTHORISED)
    assert answer.status_code == 413, answer.text
    assert str(limit) in answer.json()["error"]


def test_a_body_without_a_length_is_counted(strict: TestClient) -> None:
    def parts() -> Any:
        for _ in range(30):
            yield b"x" * 1000

    answer = strict.post("/api/runs/mols/predictions", content=parts(), headers=AUTHORISED)
    assert answer.status_code == 413


def test_a_body_that_arrives_too_slowly_is_refused(runs: Path) -> None:
    app = make_client(runs, limits=LIMITS, pages=False).app
    sent: list[Any] = []

    async def ask() -> None:
        async def receive() -> dict[str, Any]:
            await asyncio.sleep(0.1)
            return {"type": "http.request", "body": b"x", "more_body": True}

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"host", b"127.0.0.1"), (b"content-length", b"1000")]
        await app(_scope("POST", "/api/runs/mols/predictions", headers), receive, send)

    asyncio.run(ask())
    assert sent[0]["status"] == 408
    assert b"0.3" in sent[1]["body"]


def _scope(method: str, path: str, headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    return {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(),
        "query_string": b"", "headers": headers, "scheme": "http", "http_version": "1.1",
        "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1), "root_path": "",
    }  # fmt: skip


def test_unknown_methods_and_addresses_are_counted_as_one(client: TestClient) -> None:
    for number in range(3):
        assert client.request(f"ODD{number}", f"/odd/{number}").status_code in (404, 405)
    text = client.get("/metrics").text
    assert "ODD" not in text
    assert "/odd/" not in text


def test_a_long_address_is_refused(client: TestClient) -> None:
    assert client.get("/api/runs", params={"x": "y" * 9000}).status_code == 414


PAGES = [
    "/runs", "/runs/mols", "/runs/mols/graphs", "/runs/mols/graphs/all/6", "/runs/mols/patterns",
    "/runs/mols/try?smiles=CCO", "/runs/mols/confusion", "/runs/number", "/runs/number/confusion",
    "/runs/motifs-a/graphs/test/1?top=4", "/runs/motifs-a/graphs/test/1/similar",
    "/runs/nodes/graphs", "/runs/nodes/graphs/test/2", "/compare?run=motifs-a&run=motifs-b",
    "/runs/mols/graphs/test/1/thumb.svg", "/nothing",
]  # fmt: skip


@pytest.mark.parametrize("path", PAGES)
def test_pages_have_a_strict_security_policy(client: TestClient, path: str) -> None:
    answer = client.get(path, headers={"accept": "text/html"})
    assert answer.status_code == (404 if path == "/nothing" else 200), answer.text[:300]
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    text = answer.text
    assert not re.search(r"<[^>]+\sstyle=", text), "styles in elements would be ignored"
    assert not re.search(r"<[^>]+\son\w+=", text)
    assert "<style" not in text
    assert all("src=" in tag for tag in re.findall(r"<script\b[^>]*>", text))
    assert not re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", text)


@pytest.mark.parametrize(
    "ask",
    [
        lambda c: c.get("/runs/mols/graphs?split=all").text,  # identifiers
        lambda c: c.get("/runs/mols/graphs/all/6").text,
        lambda c: c.get("/runs/mols/graphs", params={"search": EVIL}).text,
        lambda c: c.get("/runs/mols/try", params={"smiles": EVIL}).text,
        lambda c: c.get(f"/runs/{EVIL.replace('/', '')}", headers={"accept": "text/html"}).text,
        lambda c: c.post(
            "/runs/mols/try/table", params={"name": "x.csv"},
            content=f"smiles,{EVIL.replace(chr(34), '')}\nCCO,{EVIL.replace(chr(34), '')}\n",
        ).text,
        lambda c: c.post("/runs/motifs-a/try", json={"graph": {"edges": [], "id": EVIL}}).text,
    ],
)  # fmt: skip
def test_markup_in_any_text_is_escaped(
    client: TestClient, ask: Callable[[TestClient], str]
) -> None:
    text = ask(client)
    assert "<script>alert" not in text
    assert "alert" in text, "the text itself is shown"
