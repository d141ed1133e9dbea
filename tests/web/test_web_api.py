"""The JSON API: the same answers as the library gives."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from web_harness import graph_json, make_service

import gsat
from gsat.web.app import make_app

pytestmark = pytest.mark.medium


def test_runs_are_listed_without_their_paths(client: TestClient, runs: Path) -> None:
    listed = client.get("/api/runs").json()["runs"]
    assert [run["name"] for run in listed] == ["mols", "motifs-a", "motifs-b", "nodes", "number"]
    assert {run["state"] for run in listed} == {"finished"}
    assert str(runs) not in json.dumps(listed)


def test_a_run_says_what_its_model_needs(client: TestClient, runs: Path) -> None:
    found = client.get("/api/runs/mols").json()
    assert found["test"] == gsat.open_run(runs / "mols").test
    assert found["model"]["takes_smiles"] is True
    assert found["model"]["outputs"] == ["no", "yes"]
    assert client.get("/api/runs/motifs-a").json()["model"]["node_features"] == 10


def test_explanations_of_a_split_are_those_of_the_run(client: TestClient, runs: Path) -> None:
    run = gsat.open_run(runs / "motifs-a")
    expected = run.explain(graph=4)
    found = client.get("/api/runs/motifs-a/explanations/test/4", params={"top": "6"}).json()
    scores = [edge["score"] for edge in found["edges"]]
    np.testing.assert_allclose(scores, expected.edge_mask, atol=1e-6)
    assert [edge["chosen"] for edge in found["edges"]] == expected.in_top(6).tolist()
    assert found["prediction"] == int(expected.prediction)
    for name in ("stability", "necessary", "sufficient"):
        assert found[name] == getattr(expected, name)


@pytest.mark.parametrize("what", ["explanations", "predictions"])
def test_a_graph_that_is_sent_is_answered_as_the_model_does(
    client: TestClient, runs: Path, what: str
) -> None:
    run = gsat.open_run(runs / "motifs-a")
    data = run.graphs()[3]
    expected = run.model.explain(data)
    answer = client.post(f"/api/runs/motifs-a/{what}", json={"graph": graph_json(data)})
    assert answer.status_code == 200, answer.text
    (found,) = answer.json()["results"]
    np.testing.assert_allclose(found["probabilities"], expected.probabilities, atol=1e-6)
    assert found["prediction"] == int(expected.prediction)
    if what == "explanations":
        ends = [[edge["source"], edge["target"]] for edge in found["edges"]]
        assert torch.tensor(ends).T.tolist() == data.edge_index.tolist()
        scores = [edge["score"] for edge in found["edges"]]
        np.testing.assert_allclose(scores, expected.edge_mask, atol=1e-6)
    else:
        assert "edges" not in found


def test_many_graphs_are_answered_in_their_order(client: TestClient, runs: Path) -> None:
    run = gsat.open_run(runs / "motifs-a")
    graphs = [run.graphs()[i] for i in (5, 0, 9, 2)]
    body = {"graphs": [graph_json(graph) for graph in graphs]}
    found = client.post("/api/runs/motifs-a/explanations", json=body).json()["results"]
    expected = run.model.explain(graphs)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose([e["score"] for e in one["edges"]], other.edge_mask, atol=1e-6)


def test_molecules_are_explained_and_bad_ones_named(client: TestClient, runs: Path) -> None:
    body = {"smiles": ["CCO", "C1CC", "c1ccccc1N"]}
    found = client.post("/api/runs/mols/explanations", json=body).json()["results"]
    assert "C1CC" in found[1]["error"]
    report = gsat.open_run(runs / "mols").explain_molecules(smiles=["CCO", "c1ccccc1N"])
    for place, one in zip((0, 2), report.molecules, strict=True):
        scores = [edge["score"] for edge in found[place]["edges"]]
        np.testing.assert_allclose(scores, one.explanation.edge_mask, atol=1e-6)


def test_a_single_bad_molecule_is_an_error(client: TestClient) -> None:
    answer = client.post("/api/runs/mols/explanations", json={"smiles": "C1CC"})
    assert answer.status_code == 422
    assert "C1CC" in answer.json()["error"]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("{", 400, "not JSON"),
        ("[1]", 422, "must be a JSON object"),
        ('{"graphs": [], "smiles": "C"}', 422, "exactly one of"),
        ('{"graf": {}}', 422, "'graf' is not a key"),
        ('{"graph": {"edges": [[0, 1]], "y": 1}}', 422, "'y' is not a key"),
        ('{"graph": {"edges": [[0, 9]], "num_nodes": 2}}', 422, "0 → 9"),
        ('{"graph": {"edges": [[0, 1]], "x": [[1], [1]]}}', 422, "10 node features, these have 1"),
        ('{"graph": {"edges": true}}', 422, "edges"),
        ('{"graph": {"edge_index": 7, "x": {}}}', 422, "edge_index"),
        ('{"smiles": 3}', 422, "must be a SMILES"),
        ('{"graph": {"edges": [[0, 1]], "edges": []}}', 400, "twice"),
        ("[" * 100_000, 400, "nested"),
        ('{"graph": {"num_nodes": 1e400}}', 400, "finite"),
        ('{"graph": {"edges": [["0", {}]]}}', 422, "edges"),
        ('{"smiles": "CCO"}', 422, "not trained on a table of molecules"),
    ],
)
def test_errors_say_what_was_needed_and_what_came(
    client: TestClient, body: str, status: int, words: str
) -> None:
    answer = client.post("/api/runs/motifs-a/explanations", content=body)
    assert answer.headers["content-type"] == "application/json"
    assert (answer.status_code, words in answer.json()["error"]) == (status, True), answer.text
    assert answer.json()["status"] == status


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
def test_what_is_not_there_is_not_found(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert set(answer.json()) == {"status", "error"}


def test_graphs_are_filtered_and_sorted_as_asked(client: TestClient, runs: Path) -> None:
    run = gsat.open_run(runs / "motifs-a")
    sure = run.predict().probabilities.max(dim=1).values
    query = {"sort": "confidence", "descending": True, "limit": 100}
    found = client.get("/api/runs/motifs-a/graphs", params=query).json()
    assert found["total"] == len(sure)
    order = [graph["confidence"] for graph in found["graphs"]]
    np.testing.assert_allclose(order, sure.sort(descending=True).values, atol=1e-6)
    wrong = client.get("/api/runs/motifs-a/graphs", params={"right": "no", "limit": 100}).json()
    assert all(graph["label"] != graph["prediction"] for graph in wrong["graphs"])
    right = client.get("/api/runs/motifs-a/graphs", params={"right": "yes"}).json()
    assert wrong["total"] + right["total"] == len(sure)


def test_a_graph_can_be_fetched_and_sent_back(client: TestClient) -> None:
    graph = client.get("/api/runs/mols/graphs/test/1").json()
    sent = {key: graph["input"][key] for key in ("num_nodes", "edges", "x", "edge_attr")}
    answer = client.post("/api/runs/mols/predictions", json={"graph": sent})
    (found,) = answer.json()["results"]
    np.testing.assert_allclose(found["probabilities"], graph["probabilities"], atol=1e-6)


def test_patterns_and_curves_are_those_of_the_run(client: TestClient, runs: Path) -> None:
    run = gsat.open_run(runs / "mols")
    groups = client.get("/api/runs/mols/patterns", params={"split": "all"}).json()["groups"]
    expected = run.patterns(split="all").groups
    assert [group["size"] for group in groups] == [group.size for group in expected]
    assert [p["name"] for p in groups[0]["patterns"]] == [p.name for p in expected[0].patterns]
    curves = client.get("/api/runs/mols/curves").json()
    assert curves["epochs"] == len(run.log) == 2
    assert curves["curves"]["valid"]["roc_auc"] == [line["valid"]["roc_auc"] for line in run.log]


def test_an_audit_is_passed_on(client: TestClient, runs: Path) -> None:
    path = runs / "nodes" / "audit.json"
    values = {"believe": False, "verdict": "no better than chance", "measures": {"auc": None}}
    path.write_text(json.dumps(values), encoding="utf-8")
    try:
        assert client.get("/api/runs/nodes/audit").json() == values
        page = client.get("/runs/nodes/audit").text
        assert "no better than chance" in page
        assert "failed" in page  # an older audit has no outcome
        values |= {"outcome": "mixed", "against": ["EST rejects 31%"], "remedy": "members=3"}
        path.write_text(json.dumps(values), encoding="utf-8")
        page = client.get("/runs/nodes/audit").text
        assert all(text in page for text in ("mixed", "EST rejects 31%", "--set members=3"))
        assert "mixed" in client.get("/runs/nodes").text
        path.write_text("{", encoding="utf-8")
        assert client.get("/api/runs/nodes/audit").status_code == 409
    finally:
        path.unlink()


def test_an_error_of_our_own_is_json_and_says_nothing_of_the_inside(
    runs: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(log: object) -> None:
        raise ValueError("a secret")

    monkeypatch.setattr("gsat.web.api.curve_values", broken)
    app = make_app(make_service(runs), page=False)
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        answer = client.get("/api/runs/mols/curves")
    assert answer.json() == {
        "status": 500, "error": "an error in gsat itself; the service has logged it",
    }  # fmt: skip
    assert "a secret" in caplog.text


def test_the_service_counts(client: TestClient) -> None:
    assert client.get("/healthz").json() == {"status": "ok", "runs": 5}
    client.post("/api/runs/mols/predictions", json={"smiles": ["CCO", "CCN"]})
    text = client.get("/metrics").text
    route = 'route="/api/runs/{run}/predictions"'
    assert f'gsat_requests_total{{method="POST",{route},status="200"}}' in text
    assert "gsat_batch_graphs_count" in text
    assert "gsat_runs 5.0" in text


def test_the_description_names_every_route_and_error(client: TestClient) -> None:
    described = client.get("/api/openapi.json").json()
    assert "/api/runs/{run}/explanations" in described["paths"]
    assert not any(path.startswith("/runs") for path in described["paths"])
    responses = described["paths"]["/api/runs/{run}/explanations"]["post"]["responses"]
    assert {"200", "400", "404", "413", "422", "503"} <= set(responses)
    assert "graphs" in described["components"]["schemas"]["Question"]["properties"]
