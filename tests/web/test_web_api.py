"""The JSON API: the same answers as the library gives."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from web_harness import graph_json, make_client

import gsat

pytestmark = pytest.mark.medium


def test_runs_are_listed_without_their_paths(client: TestClient, runs: Path) -> None:
    listed = client.get("/api/runs").json()["runs"]
    assert [run["name"] for run in listed] == ["mols", "motifs-a", "motifs-b", "nodes", "number"]
    assert {run["state"] for run in listed} == {"finished"}
    assert str(runs) not in json.dumps(listed)


def test_a_run_describes_its_results_and_its_model(client: TestClient, runs: Path) -> None:
    described = client.get("/api/runs/mols").json()
    assert described["test"] == gsat.open_run(runs / "mols").test
    assert described["model"]["takes_smiles"] is True
    assert described["model"]["outputs"] == ["no", "yes"]
    assert client.get("/api/runs/motifs-a").json()["model"]["node_features"] == 10


def test_explanations_of_a_split_are_those_of_the_run(client: TestClient, runs: Path) -> None:
    expected = gsat.open_run(runs / "motifs-a").explain(graph=4)
    answer = client.get("/api/runs/motifs-a/explanations/test/4", params={"top": "6"}).json()
    scores = [edge["score"] for edge in answer["edges"]]
    np.testing.assert_allclose(scores, expected.edge_mask, atol=1e-6)
    assert [edge["chosen"] for edge in answer["edges"]] == expected.in_top(6).tolist()
    assert answer["prediction"] == int(expected.prediction)
    for name in ("stability", "necessary", "sufficient"):
        assert answer[name] == getattr(expected, name)


@pytest.mark.parametrize("what", ["explanations", "predictions"])
def test_graphs_are_answered_in_order_as_by_the_model(
    client: TestClient, runs: Path, what: str
) -> None:
    run = gsat.open_run(runs / "motifs-a")
    graphs = [run.graphs()[i] for i in (5, 0, 9, 2)]
    body = {"graphs": [graph_json(graph) for graph in graphs]}
    results = client.post(f"/api/runs/motifs-a/{what}", json=body).json()["results"]
    for graph, result, expected in zip(graphs, results, run.model.explain(graphs), strict=True):
        np.testing.assert_allclose(result["probabilities"], expected.probabilities, atol=1e-6)
        assert result["prediction"] == int(expected.prediction)
        if what == "predictions":
            assert "edges" not in result
            continue
        ends = [[edge["source"], edge["target"]] for edge in result["edges"]]
        assert torch.tensor(ends).T.tolist() == graph.edge_index.tolist()
        scores = [edge["score"] for edge in result["edges"]]
        np.testing.assert_allclose(scores, expected.edge_mask, atol=1e-6)


def test_molecules_are_explained_and_invalid_ones_named(client: TestClient, runs: Path) -> None:
    body = {"smiles": ["CCO", "C1CC", "c1ccccc1N"]}
    results = client.post("/api/runs/mols/explanations", json=body).json()["results"]
    assert "C1CC" in results[1]["error"]
    report = gsat.open_run(runs / "mols").explain_molecules(smiles=["CCO", "c1ccccc1N"])
    for place, expected in zip((0, 2), report.molecules, strict=True):
        scores = [edge["score"] for edge in results[place]["edges"]]
        np.testing.assert_allclose(scores, expected.explanation.edge_mask, atol=1e-6)
    single = client.post("/api/runs/mols/explanations", json={"smiles": "C1CC"})
    assert single.status_code == 422
    assert "C1CC" in single.json()["error"]


@pytest.mark.parametrize(
    "content_type", ["application/json", "application/x-www-form-urlencoded", "text/plain", None]
)
def test_a_body_is_json_whatever_its_content_type(
    client: TestClient, content_type: str | None
) -> None:
    headers = {} if content_type is None else {"content-type": content_type}
    body = b'{"smiles": "CCO", "top": "20%"}'
    answer = client.post("/api/runs/mols/explanations", content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    assert any(edge["chosen"] for edge in answer.json()["results"][0]["edges"])


@pytest.mark.parametrize(
    ("body", "status", "shown"),
    [
        ("{", 400, ""),
        ("", 422, ""),
        ('{"graph": {"edges": [[0, 1]], "edges": []}}', 400, "'edges'"),
        ("[" * 100_000, 400, ""),
        ('{"graph": {"num_nodes": 2, "x": [[NaN], [1]]}}', 400, "nan"),
        ("[1]", 422, ""),
        ("{}", 422, "'graph', 'graphs' and 'smiles'"),
        ('{"graph": {"num_nodes": 1}, "smiles": "C"}', 422, "graph and smiles"),
        ('{"graphs": []}', 422, "'graphs'"),
        ('{"graf": {}}', 422, "'graf'"),
        ('{"graph": {"edges": [[0, 1]], "y": 1}}', 422, "'y'"),
        ('{"graph": {"edges": [[0, 9]], "num_nodes": 2}}', 422, "0 → 9"),
        ('{"graph": {"edges": [[0, 1]], "x": [[1], [1]]}}', 422, "10"),
        ('{"graph": {"edges": true}}', 422, "graph.edges"),
        ('{"graph": {"edges": [[0, 1, 2]]}}', 422, "graph.edges.0"),
        ('{"graph": {"edges": [[0, 1.5]]}}', 422, "1.5"),
        ('{"graph": {"edges": [["0", {}]]}}', 422, "graph.edges.0.0"),
        ('{"smiles": 3}', 422, "3"),
        ('{"smiles": "CCO"}', 422, "molecules"),
        ('{"graph": {"num_nodes": 3, "edges": []}, "top": true}', 422, "top"),
    ],
)
def test_an_invalid_body_is_refused_in_one_line(
    client: TestClient, body: str, status: int, shown: str
) -> None:
    answer = client.post("/api/runs/motifs-a/explanations", content=body)
    assert answer.headers["content-type"] == "application/json"
    assert answer.status_code == answer.json()["status"] == status, answer.text
    message = answer.json()["error"]
    assert shown in message
    assert "\n" not in message
    assert len(message) <= 300


@pytest.mark.parametrize(
    "body",
    [
        {"graph": {"edges": [[0, "a"]] * 200_000}},
        {"graph": {"edges": [], "x": [["a"] * 10] * 100_000}},
        {"graph": {f"key-{number}": 0 for number in range(200_000)}},
        {"graphs": [{"edges": 1}] * 300_000},
        {"smiles": [0] * 500_000},
    ],
    ids=["edges", "features", "keys", "graphs", "smiles"],
)
def test_a_body_full_of_errors_gives_one_error(body: object) -> None:
    from pydantic import ValidationError

    from gsat.web.requests import Question

    with pytest.raises(ValidationError) as refused:
        Question.model_validate(body)
    assert refused.value.error_count() <= 3  # a body of 8 MiB must not become millions of errors


@pytest.mark.parametrize(
    "path",
    [
        "/api/runs/none",
        "/api/runs/motifs-a/explanations/test/100000",
        "/api/runs/motifs-a/explanations/tset/1",
        "/api/runs/motifs-a/audit",
        "/api/runs/motifs-a/patterns",
        "/api/nothing",
    ],
)
def test_unknown_resources_are_not_found(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert set(answer.json()) == {"status", "error"}


def test_graphs_are_filtered_and_sorted(client: TestClient, runs: Path) -> None:
    run = gsat.open_run(runs / "motifs-a")
    confidence = run.predict().probabilities.max(dim=1).values
    query = {"sort": "confidence", "descending": True, "limit": 100}
    answer = client.get("/api/runs/motifs-a/graphs", params=query).json()
    assert answer["total"] == len(confidence)
    order = [graph["confidence"] for graph in answer["graphs"]]
    np.testing.assert_allclose(order, confidence.sort(descending=True).values, atol=1e-6)
    wrong = client.get("/api/runs/motifs-a/graphs", params={"right": "no", "limit": 100}).json()
    assert all(graph["label"] != graph["prediction"] for graph in wrong["graphs"])
    right = client.get("/api/runs/motifs-a/graphs", params={"right": "yes", "true": ""}).json()
    assert wrong["total"] + right["total"] == len(confidence)
    for name, value in (("min_auc", "2"), ("true", "x"), ("sort", "size"), ("limit", "0")):
        refused = client.get("/api/runs/motifs-a/graphs", params={name: value})
        assert refused.status_code == 422
        assert f"'{name}'" in refused.json()["error"]


def test_a_graph_can_be_fetched_and_sent_back(client: TestClient) -> None:
    graph = client.get("/api/runs/mols/graphs/test/1").json()
    sent = {key: graph["input"][key] for key in ("num_nodes", "edges", "x", "edge_attr")}
    answer = client.post("/api/runs/mols/predictions", json={"graph": sent})
    (result,) = answer.json()["results"]
    np.testing.assert_allclose(result["probabilities"], graph["probabilities"], atol=1e-6)


def test_patterns_and_curves_are_those_of_the_run(client: TestClient, runs: Path) -> None:
    run = gsat.open_run(runs / "mols")
    groups = client.get("/api/runs/mols/patterns", params={"split": "all"}).json()["groups"]
    expected = run.patterns(split="all").groups
    assert [group["size"] for group in groups] == [group.size for group in expected]
    assert [p["name"] for p in groups[0]["patterns"]] == [p.name for p in expected[0].patterns]
    curves = client.get("/api/runs/mols/curves").json()
    assert curves["epochs"] == len(run.log) == 2
    assert curves["selected"] == run.result["best_epoch"]
    assert curves["curves"]["valid"]["roc_auc"] == [line["valid"]["roc_auc"] for line in run.log]


def test_the_audit_of_a_run_is_returned_and_shown(client: TestClient, runs: Path) -> None:
    path = runs / "nodes" / "audit.json"
    values = {
        "believe": False, "verdict": "failed: as random", "reasons": [], "notes": [], "curves": {},
        "measures": {"auc": None}, "graphs": 7, "split": "test", "best_epoch": 0,
    }  # fmt: skip
    try:
        path.write_text(json.dumps(values), encoding="utf-8")  # an older audit has no outcome
        assert client.get("/api/runs/nodes/audit").json() == values
        page = client.get("/runs/nodes/audit").text
        assert 'class="verdict failed"' in page
        assert "as random" in page
        values |= {"outcome": "mixed", "against": ["EST rejects 31%"], "remedy": "members=3"}
        path.write_text(json.dumps(values), encoding="utf-8")
        page = client.get("/runs/nodes/audit").text
        assert all(text in page for text in ("mixed", "EST rejects 31%", "--set members=3"))
        assert "mixed" in client.get("/runs/nodes").text
        path.write_text("{", encoding="utf-8")
        assert client.get("/api/runs/nodes/audit").status_code == 409
    finally:
        path.unlink()


def test_an_internal_error_is_json_without_details(
    runs: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(log: object) -> None:
        raise ValueError("a secret")

    monkeypatch.setattr("gsat.web.api.curve_values", broken)
    with make_client(runs, pages=False) as client:
        answer = client.get("/api/runs/mols/curves")
    assert answer.status_code == answer.json()["status"] == 500
    assert "secret" not in answer.text
    assert "a secret" in caplog.text


def test_requests_are_counted(client: TestClient) -> None:
    assert client.get("/healthz").json() == {"status": "ok", "runs": 5}
    client.post("/api/runs/mols/predictions", json={"smiles": ["CCO", "CCN"]})
    text = client.get("/metrics").text
    route = 'route="/api/runs/{run}/predictions"'
    assert f'gsat_requests_total{{method="POST",{route},status="200"}}' in text
    assert "gsat_batch_graphs_count" in text
    assert "gsat_runs 5.0" in text


def test_the_description_has_every_route_body_and_error(client: TestClient) -> None:
    described = client.get("/api/openapi.json").json()
    assert not any(path.startswith("/runs") for path in described["paths"])
    explain = described["paths"]["/api/runs/{run}/explanations"]["post"]
    assert {"200", "400", "404", "413", "422", "503"} <= set(explain["responses"])
    body = explain["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    assert body.endswith("/Question")
    question = described["components"]["schemas"]["Question"]
    assert set(question["properties"]) == {"graph", "graphs", "smiles", "top"}
    assert question["additionalProperties"] is False
