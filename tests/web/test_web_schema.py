"""The API against its own description: no request causes an internal error.

``GSAT_SCHEMA_CASES`` sets the number of requests for each route; `make campaign-web` makes some
2 000 in all, and writes the results to ``GSAT_SCHEMA_RECORD``.
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
from web_harness import make_client

from gsat.web.requests import Limits

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
pytestmark = pytest.mark.medium
CASES = int(os.environ.get("GSAT_SCHEMA_CASES", "4"))
NAMES = ("mols", "motifs-a", "number", "nodes")


def test_no_request_breaks_the_service(runs: Path) -> None:
    answered: Counter[int] = Counter()
    settings = hypothesis.settings(
        max_examples=CASES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    with make_client(runs, limits=Limits(nodes=200, edges=500), pages=False) as client:
        described = schemathesis.openapi.from_dict(client.get("/api/openapi.json").json())
        for operation in described.get_all_operations():
            for mode in schemathesis.GenerationMode:

                @settings
                @hypothesis.given(case=operation.ok().as_strategy(generation_mode=mode))
                def ask(case: Any) -> None:
                    status = _ask(client, case, answered.total())
                    answered[status] += 1

                # There is no invalid request to a route without parameters.
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
    """Send a request; most of them to runs that exist."""
    path = case.path_parameters or {}
    if "run" in path and number % 4:
        path["run"] = NAMES[number % len(NAMES)]
    if "split" in path and number % 2:
        path["split"] = "test"
    request = case.as_transport_kwargs(base_url="http://127.0.0.1")
    kept = {key: request[key] for key in ("method", "url", "params", "json") if key in request}
    if isinstance(request.get("data"), bytes | str):
        kept["content"] = request["data"]
    try:
        answer = client.request(**kept)
    except (UnicodeError, ValueError):  # the client can't send such an address
        return 0
    assert answer.status_code < 500, (kept, answer.text)
    if answer.status_code >= 400:
        assert set(json.loads(answer.content)) == {"status", "error"}, answer.text
    return answer.status_code
