"""Numbers of the gallery and of comparisons, against scikit-learn, SciPy and RDKit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from rdkit import Chem
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score
from web_harness import make_service

import gsat
from gsat.web.answers import row_values
from gsat.web.app import make_app
from gsat.web.compare import compare
from gsat.web.computing import COMPUTING, TakingTurns
from gsat.web.errors import BadInputError, NotFoundError, RequestError
from gsat.web.limits import Limits
from gsat.web.pages_graph import graph_values
from gsat.web.ranks import agreements, graph_aucs
from gsat.web.scored import Filter
from waiting import wait_until


def _segments(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    ptr = np.concatenate([[0], np.cumsum(draw.integers(0, 12, 40))])
    scores = draw.integers(0, 6, ptr[-1]) / 6  # with ties
    return scores, draw.integers(0, 6, ptr[-1]) / 6, ptr


def test_the_auc_of_each_graph_is_that_of_scikit_learn() -> None:
    scores, other, ptr = _segments(0)
    truth = other > 0.5
    found = graph_aucs(scores, truth, ptr)
    for graph, (a, b) in enumerate(pairwise(ptr)):
        if 0 < truth[a:b].sum() < b - a:
            assert found[graph] == pytest.approx(roc_auc_score(truth[a:b], scores[a:b]))
        else:
            assert np.isnan(found[graph])


def test_agreement_is_spearmans_correlation() -> None:
    first, second, ptr = _segments(1)
    correlation, overlap = agreements(first, second, ptr)
    for graph, (a, b) in enumerate(pairwise(ptr)):
        if b - a > 1 and np.ptp(first[a:b]) > 0 and np.ptp(second[a:b]) > 0:
            expected = spearmanr(first[a:b], second[a:b]).statistic
            assert correlation[graph] == pytest.approx(expected)
    assert ((overlap >= 0) & (overlap <= 1) | np.isnan(overlap)).all()
    same, full = agreements(first, first, ptr)
    assert np.nanmin(same) == pytest.approx(1)
    assert np.nanmin(full) == 1


@pytest.mark.medium
@pytest.mark.parametrize("pattern", ["c1ccccc1", "[N+](=O)[O-]", "C#N", "CO", "[#17]"])
def test_substructures_are_those_that_rdkit_finds(runs: Path, pattern: str) -> None:
    loaded = make_service(runs).library.open("mols")
    scored = loaded.split("all")
    query = Chem.MolFromSmarts(pattern)
    expected = [Chem.MolFromSmiles(s).HasSubstructMatch(query) for s in scored.smiles]
    assert scored.matching(pattern).tolist() == expected
    assert 0 < sum(expected) < len(expected)


@pytest.mark.medium
def test_a_search_finds_numbers_and_names(runs: Path) -> None:
    scored = make_service(runs).library.open("mols").split("all")
    named = scored.ids.index("mol-12")
    assert scored.rows(Filter(search="MOL-12")).tolist() == [named]
    assert 3 in scored.rows(Filter(search="3")).tolist()
    with pytest.raises(BadInputError, match="neither a number"):
        scored.rows(Filter(search="no such name !"))


@pytest.mark.medium
def test_answers_of_a_split_are_those_of_the_run(runs: Path) -> None:
    scored = make_service(runs).library.open("motifs-a").split("test")
    run = gsat.open_run(runs / "motifs-a")
    np.testing.assert_allclose(scored.probabilities, run.predict().probabilities, atol=1e-6)
    measured = run.evaluate()
    assert (scored.right == 1).mean() == pytest.approx(measured["accuracy"])
    assert np.nanmean(scored.auc) == pytest.approx(measured["mean_graph_auc"], abs=1e-6)
    expected = run.explain(graph=2).edge_mask
    np.testing.assert_allclose(scored.edge_scores(2), expected, atol=1e-6)


@pytest.mark.medium
def test_runs_are_compared_on_the_graphs_they_share(runs: Path) -> None:
    library = make_service(runs).library
    first, second = library.open("motifs-a"), library.open("motifs-b")
    found = compare([first, second], "test")
    assert len(found.data_rows) == len(first.split("test"))
    place = 3
    a = first.split("test").edge_scores(int(found.rows[0][place]))
    b = second.split("test").edge_scores(int(found.rows[1][place]))
    assert found.correlation[place] == pytest.approx(spearmanr(a, b).statistic, abs=1e-6)
    worst = found.most_different()[0]
    assert found.correlation[worst] == np.nanmin(found.correlation)
    with pytest.raises(BadInputError, match="same data"):
        compare([first, library.open("mols")], "test")


@pytest.mark.medium
def test_what_is_kept_in_memory_is_bounded(runs: Path) -> None:
    limits = Limits(cache_bytes=300_000)
    loaded = make_service(runs, limits=limits).library.open("motifs-a")
    for row in range(30):
        loaded.explanation("test", row)
    kept = [size for size, _ in loaded._kept.values()]
    assert sum(kept) <= limits.cache_bytes
    assert len(kept) > 1


@pytest.mark.medium
def test_similar_graphs_leave_out_the_graph_itself(runs: Path) -> None:
    library = make_service(runs).library
    for name in ("motifs-a", "mols"):
        found = library.open(name).similar("all", 2)
        assert 0 < len(found) <= 6
        assert 2 not in [row for row, _ in found]
        likeness = [value for _, value in found]
        assert likeness == sorted(likeness, reverse=True)


@pytest.mark.medium
def test_the_first_rows_are_those_of_the_whole_split_but_come_before_it(runs: Path) -> None:
    loaded = make_service(runs).library.open("motifs-a")
    first, size = loaded.first_rows("all", 24)
    assert (len(first), size) == (24, 300)
    explained = loaded.explanation("all", 23)
    assert ("split", "all") not in loaded._kept  # nothing has waited for all of them
    whole = loaded.split("all")
    assert loaded.first_rows("all", 24) == (whole, 300)
    np.testing.assert_allclose(first.probabilities, whole.probabilities[:24], atol=1e-6)
    np.testing.assert_allclose(first.auc, whole.auc[:24], atol=1e-6)
    np.testing.assert_allclose(explained.edge_mask, whole.edge_scores(23), atol=1e-6)
    nodes = make_service(runs).library.open("nodes")
    scored, count = nodes.first_rows("test", 24)
    assert len(scored) == count == len(nodes.split("test"))


@pytest.mark.medium
def test_a_graph_does_not_wait_until_a_split_is_scored(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gsat.web.loaded.CHUNK", 100)
    loaded = make_service(runs).library.open("motifs-a")
    score, explain, order = loaded.model.score_edges, loaded.run.explain, []

    def watched_score(graphs: gsat.GraphStore) -> Any:
        order.append(len(graphs))
        if len(order) == 1:
            wait_until(lambda: COMPUTING.is_waited_for)  # by the request for one graph
        return score(graphs)

    def watched_explain(*graphs: Any, **place: Any) -> Any:
        order.append("one graph")
        return explain(*graphs, **place)

    monkeypatch.setattr(loaded.model, "score_edges", watched_score)
    monkeypatch.setattr(loaded.run, "explain", watched_explain)
    with ThreadPoolExecutor() as pool:
        whole = pool.submit(loaded.split, "all")
        wait_until(lambda: order)
        explained = loaded.explanation("all", 5)
        scored = whole.result(120)
    assert order == [100, "one graph", 100, 100]
    np.testing.assert_allclose(explained.edge_mask, scored.edge_scores(5), atol=1e-6)


def test_threads_that_want_the_model_again_and_again_take_turns() -> None:
    lock, order = TakingTurns(), []

    def take(name: str, other: str) -> None:
        for _ in range(20):
            with lock:
                order.append(name)
                # Before this one lets go, the other one stands in line, unless it is done.
                wait_until(lambda: lock.is_waited_for or order.count(other) == 20)

    with ThreadPoolExecutor() as pool:
        for ended in [pool.submit(take, *names) for names in ("ab", "ba")]:
            ended.result(120)
    assert "".join(order) in ("ab" * 20, "ba" * 20)


def test_a_model_in_use_is_not_waited_for_longer_than_said() -> None:
    lock = TakingTurns()
    with ThreadPoolExecutor() as pool:
        with lock:
            assert not lock.acquire(timeout=0.01)
            other = pool.submit(lock.acquire)
            wait_until(lambda: lock.is_waited_for)
            assert not lock.acquire(timeout=0.01)  # nor could it be next
        assert other.result(120)
    assert not lock.is_waited_for


@pytest.mark.medium
def test_one_row_is_that_of_the_whole_split_but_comes_before_it(runs: Path) -> None:
    for name in ("motifs-a", "mols"):
        loaded = make_service(runs).library.open(name)
        values = graph_values(loaded, "all", 7, 0, True)
        answer = row_values(*loaded.row("all", 7), loaded.outputs)
        assert ("split", "all") not in loaded._kept  # nothing has waited for all of them
        assert loaded.row("all", 7)[1] == 0
        whole = loaded.split("all")
        assert loaded.row("all", 7) == (whole, 7)
        again = graph_values(loaded, "all", 7, 0, True)
        for key in ("card", "caption", "following", "previous", "fragments"):
            assert str(values[key]) == str(again[key])
        assert [name for name, _ in values["bars"]] == [name for name, _ in again["bars"]]
        expected = row_values(whole, 7, loaded.outputs)
        for key in ("number", "title", "graph", "nodes", "edges", "label", "right"):
            assert answer[key] == expected[key]
        assert answer["number"] == answer["graph"] == 7
        with pytest.raises(NotFoundError, match="they are 0 to"):
            make_service(runs).library.open(name).row("all", 100_000)


@pytest.mark.medium
def test_a_service_that_stops_scores_no_further_chunks(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gsat.web.loaded.CHUNK", 100)
    library = make_service(runs).library
    library.stopping.set()
    loaded = library.open("motifs-a")
    assert len(loaded.row("all", 3)[0]) == 1  # what takes a moment is finished
    with pytest.raises(RequestError, match="is being stopped") as refused:
        loaded.split("all")
    assert refused.value.status == 503


@pytest.mark.medium
def test_a_gallery_scores_the_rest_of_its_split_afterwards(runs: Path) -> None:
    service = make_service(runs)
    with TestClient(make_app(service), base_url="http://127.0.0.1:8765") as client:
        loaded = service.library.open("motifs-a")
        page = client.get("/runs/motifs-a/graphs?split=all")  # returns when its tasks have ended
        assert "300 of 300 graphs" in " ".join(page.text.split())
        assert page.text.count("thumb.svg") == 24
        assert "explanation AUC" in page.text
        assert ("split", "all") in loaded._kept
        assert ("thumbnail", "all", 47) in loaded._kept  # the next page is drawn as well
        again = client.get("/runs/motifs-a/graphs?split=all")
        assert again.text == page.text
    with pytest.raises(NotFoundError, match="no split 'none'"):
        loaded.first_rows("none", 24)
