"""`gsat evaluate`, `predict` and `explain` against the model they read."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from cli_harness import Trained, refuse, succeed

import gsat as package
from gsat.models.saved import model_folder, read_model
from gsat.training.recipe import load_data
from gsat.training.run_directory import RunDirectory


@pytest.fixture(scope="module")
def data(trained: Trained) -> package.Dataset:
    """The data the run was trained on."""
    return load_data(RunDirectory.open(trained.path).recipe)


@pytest.fixture(scope="module")
def model(trained: Trained) -> package.GSAT:
    """The model of the run."""
    return package.load(trained.path)


@pytest.fixture
def folder(data: package.Dataset, tmp_path: Path) -> Path:
    """Five graphs of the training split, saved."""
    return data.train.select([3, 1, 4, 0, 5]).save(tmp_path / "graphs")


# -- evaluate -------------------------------------------------------------------------------------


def test_evaluate_repeats_the_metrics_of_the_run(
    trained: Trained, data: package.Dataset, tmp_path: Path
) -> None:
    result = json.loads((trained.path / "result.json").read_text())
    measured = json.loads(succeed("evaluate", trained.path, "--json").out)
    assert {"accuracy", "explanation_auc", "precision_at_5"} <= set(measured)
    for name, value in measured.items():
        assert value == pytest.approx(result["test"][name], abs=1e-6), name
    assert succeed("evaluate", trained.path).lines == trained.outcome.lines[:3]
    valid = json.loads(succeed("evaluate", trained.path, "--split", "valid", "--json").out)
    assert valid["accuracy"] == pytest.approx(result["valid"]["accuracy"])
    saved = data.test.save(tmp_path / "graphs")
    assert json.loads(succeed("evaluate", trained.path, saved, "--json").out) == measured


# -- predict --------------------------------------------------------------------------------------


def test_predict_writes_what_the_model_says(
    trained: Trained, data: package.Dataset, model: package.GSAT, tmp_path: Path
) -> None:
    printed = succeed("predict", trained.path).out
    head, *rows = csv.reader(io.StringIO(printed))
    assert head == ["graph", "prediction", "p(five-cycle)", "p(house)"]
    expected = model.predict(data.test)
    assert [int(row[0]) for row in rows] == list(range(len(data.test)))
    assert [int(row[1]) for row in rows] == expected.labels.tolist()
    probabilities = np.array([[float(value) for value in row[2:]] for row in rows])
    np.testing.assert_allclose(probabilities, expected.probabilities, atol=1e-6)
    # A file holds the same bytes; its folder is made.
    file = tmp_path / "new" / "p.csv"
    output = succeed("predict", trained.path, "--out", file)
    assert file.read_bytes() == printed.encode()
    assert output.out == f"6 graphs · {file}\n"


def test_predict_quotes_names_and_ignores_those_that_do_not_fit(
    trained: Trained, data: package.Dataset, tmp_path: Path
) -> None:
    store = data.test.compact()
    for classes, expected in (
        (["a,b", 'c"d'], ["p(a,b)", 'p(c"d)']),
        (["only one"], ["p(0)", "p(1)"]),
        (None, ["p(0)", "p(1)"]),
    ):
        store.meta["classes"] = classes
        output = succeed("predict", trained.path, store.save(tmp_path / "graphs"))
        rows = list(csv.reader(io.StringIO(output.out)))
        assert rows[0][2:] == expected
        assert {len(row) for row in rows} == {4}


# -- explain: one graph ---------------------------------------------------------------------------


def edges(lines: list[str]) -> list[tuple[float, int, int]]:
    """The edges of a text answer, as printed."""
    listed = [line.split() for line in lines]
    return [(float(score), int(u), int(v)) for score, u, _, v, *_ in listed]


def listed_edges(lines: list[str]) -> list[str]:
    """The lines of a text answer that have a score."""
    return [line for line in lines if line[:2] in ("0.", "1.")]


def test_explain_ranks_the_edges_in_words(
    trained: Trained, data: package.Dataset, model: package.GSAT
) -> None:
    answer, message, *rest = succeed("explain", trained.path, "--graph", 2).lines
    listed = listed_edges(rest)
    explained = model.explain(data.test[2])
    assert answer.startswith("predicted ")
    assert f"({explained.confidence:.2f})" in answer
    # Two epochs on 48 graphs teach nothing.
    assert message.startswith("no finding: ")
    ranked = edges(listed)
    assert len(ranked) == explained.num_units
    assert [score for score, _, _ in ranked] == sorted((s for s, _, _ in ranked), reverse=True)
    scores = {
        (u, v): float(score)
        for (u, v), score in zip(
            explained.edge_index.T.tolist(), explained.edge_mask.tolist(), strict=True
        )
    }
    truth = dict(zip(scores, explained.edge_truth.tolist(), strict=True))
    for (score, u, v), line in zip(ranked, listed, strict=True):
        assert score == pytest.approx(scores[u, v], abs=6e-4)
        assert line.endswith("(true)") == bool(truth[u, v])


def test_explain_within_a_budget(trained: Trained) -> None:
    def within(*budget: object) -> list[str]:
        return listed_edges(succeed("explain", trained.path, "--graph", 0, *budget).lines)

    everything = within()
    assert within("--top", 6) == everything[:6]
    assert within("--top", "20%") == everything[: math.ceil(0.2 * len(everything))]
    level = edges(everything)[4][0] - 1e-3
    above = within("--above", level)
    assert above == everything[: len(above)]
    assert all(score > level for score, _, _ in edges(above))
    assert len(above) >= 5
    assert within("--top", 999) == everything


def test_explain_draws_less_on_request(trained: Trained, tmp_path: Path) -> None:
    def drawn(*options: str) -> str:
        file = tmp_path / "g.svg"
        succeed("explain", trained.path, "--graph", 1, "--top", 3, *options, "--out", file)
        return file.read_text()

    whole, cropped, bare = drawn(), drawn("--crop"), drawn("--no-truth")
    assert "ground truth" in whole
    assert "ground truth" not in bare
    assert 0 < cropped.count("data-node=") < whole.count("data-node=")


# -- explain: a split -----------------------------------------------------------------------------


def test_explain_a_split_as_arrays(
    trained: Trained, data: package.Dataset, model: package.GSAT, tmp_path: Path
) -> None:
    file = tmp_path / "scores.npz"
    succeed("explain", trained.path, "--split", "all", "--out", file)
    logits, scores = model.score_edges(data.store)
    with np.load(file, allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["scores"], scores)
        np.testing.assert_array_equal(arrays["logits"], logits)


# -- nothing to find ------------------------------------------------------------------------------


def test_a_model_that_prefers_nothing_says_so(
    copied: Path, data: package.Dataset, tmp_path: Path
) -> None:
    run = RunDirectory.open(copied)
    _, config = read_model(model_folder(copied))
    model = package.load(copied)
    assert model.r is not None
    with torch.no_grad():
        model.extractor.last.weight.zero_()
        model.extractor.last.bias.fill_(math.log(model.r / (1 - model.r)))
    run.write_best(model.state_dict(), config, epoch=1)
    output = succeed("explain", copied, "--graph", 0, "--top", 6).lines
    assert len(output) == 2
    assert output[1].startswith("no explanation found: ")
    file = tmp_path / "g.json"
    assert "no explanation found" in succeed("explain", copied, "--graph", 0, "--out", file).out
    assert json.loads(file.read_text())["found"] is False


def test_no_edge_above_a_probability_is_not_an_error(trained: Trained) -> None:
    output = succeed("explain", trained.path, "--graph", 0, "--above", 1)
    assert output.lines[-1].startswith("no edge is above 1")
    for level, some in ((0, True), (1, False)):
        output = succeed("explain", trained.path, "--graph", 0, "--above", level, "--json")
        assert bool(json.loads(output.out)["edges"]) == some


def test_explain_as_json(trained: Trained, model: package.GSAT, data: package.Dataset) -> None:
    """The budget's subgraph, in the numbers of the whole graph."""
    output = json.loads(succeed("explain", trained.path, "--graph", 2, "--top", 3, "--json").out)
    expected = model.explain(data.test[2]).top(3)
    assert output["edge_id"] == expected.edge_id.tolist()
    assert [edge["score"] for edge in output["edges"]] == pytest.approx(expected.edge_mask.tolist())


def test_an_overflow_is_an_error_that_names_the_graph(trained: Trained, folder: Path) -> None:
    store = package.GraphStore.load(folder)
    store.arrays["x"] = store.arrays["x"].copy()
    store.arrays["x"][int(store.arrays["node_ptr"][2])] = 3e38
    store.save(folder)
    for command in (["predict"], ["explain"]):
        extra = ["--graph", 2] if command == ["explain"] else []
        assert "graph 2" in refuse(*command, trained.path, folder, *extra)
