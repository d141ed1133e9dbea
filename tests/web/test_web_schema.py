"""The API against its own description: whatever is asked, nothing breaks.

``GSAT_SCHEMA_CASES`` is how many requests are made for each route; `make campaign-web` makes some
2 000 in all, and writes what came of them to ``GSAT_SCHEMA_RECORD``.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from fastapi.testclient import TestClient
from web_harness import make_service

from gsat.web.app import make_app
from gsat.web.limits import Limits

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
pytestmark = pytest.mark.medium
CASES = int(os.environ.get("GSAT_SCHEMA_CASES", "4"))
NAMES = ("mols", "motifs-a", "number", "nodes")


def test_no_request_breaks_the_service(runs: Path) -> None:
    answered: Counter[int] = Counter()
    service = make_service(runs, limits=Limits(nodes=200, edges=500))
    how = hypothesis.settings(
        max_examples=CASES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    with TestClient(make_app(service, page=False), base_url="http://127.0.0.1") as client:
        described = schemathesis.openapi.from_dict(client.get("/api/openapi.json").json())
        for found in described.get_all_operations():
            for mode in schemathesis.GenerationMode:

                @how
                @hypothesis.given(case=found.ok().as_strategy(generation_mode=mode))
                def ask(case: Any) -> None:
                    status = _ask(client, case, answered.total())
                    answered[status] += 1

                # A route without parameters can't be asked wrongly.
                with contextlib.suppress(hypothesis.errors.Unsatisfiable):
                    ask()
    print(f"{answered.total()} requests: {dict(sorted(answered.items()))}")  # noqa: T201
    if record := os.environ.get("GSAT_SCHEMA_RECORD"):
        kept = json.loads(Path(record).read_text(encoding="utf-8"))
        by_status = {str(status): answered[status] for status in sorted(answered)}
        kept["web"] = {"requests": answered.total(), "by_status": by_status}
        Path(record).write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    assert answered.total() >= 10 * CASES
    assert {200, 404, 422} <= set(answered)


def _ask(client: TestClient, case: Any, number: int) -> int:
    """Send a request; every other one is about something that exists."""
    path = case.path_parameters or {}
    if "run" in path and number % 4:
        path["run"] = NAMES[number % len(NAMES)]
    if "split" in path and number % 2:
        path["split"] = "test"
    asked = case.as_transport_kwargs(base_url="http://127.0.0.1")
    kept = {key: asked[key] for key in ("method", "url", "params", "json") if key in asked}
    if isinstance(asked.get("data"), bytes | str):
        kept["content"] = asked["data"]
    try:
        answer = client.request(**kept)
    except (UnicodeError, ValueError):  # of an address that a client can't even send
        return 0
    assert answer.status_code < 500, (kept, answer.text)
    if answer.status_code >= 400:
        assert set(json.loads(answer.content)) == {"status", "error"}, answer.text
    return answer.status_code
