"""Scored splits, caches, comparisons and the model lock, against SciPy and RDKit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rdkit import Chem
from scipy.stats import spearmanr
from web_harness import make_client, open_run

import gsat
from gsat.web import views
from gsat.web.compare import compare
from gsat.web.fair_lock import COMPUTING, FairLock
from gsat.web.library import RunLibrary
from gsat.web.requests import BadInputError, Filter, NotFoundError, RequestError
from gsat.web.responses import GraphRow
from gsat.web.scored import ScoredSplit, agreement
from waiting import wait_until


def edge_scores(scored: ScoredSplit, graph: int) -> np.ndarray:
    return scored.scores[scored.edge_ptr[graph] : scored.edge_ptr[graph + 1]]


def _segments(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    ptr = np.concatenate([[0], np.cumsum(draw.integers(0, 12, 40))])
    scores = draw.integers(0, 6, ptr[-1]) / 6  # with ties
    return scores, draw.integers(0, 6, ptr[-1]) / 6, ptr


def test_agreement_is_spearmans_correlation() -> None:
    first, second, ptr = _segments(1)
    correlation, overlap = agreement(first, second, ptr)
    for graph, (a, b) in enumerate(pairwise(ptr)):
        if b - a > 1 and np.ptp(first[a:b]) > 0 and np.ptp(second[a:b]) > 0:
            expected = spearmanr(first[a:b], second[a:b]).statistic
            assert correlation[graph] == pytest.approx(expected)
    assert ((overlap >= 0) & (overlap <= 1) | np.isnan(overlap)).all()
    same, full = agreement(first, first, ptr)
    assert np.nanmin(same) == pytest.approx(1)
    assert np.nanmin(full) == 1


@pytest.mark.medium
@pytest.mark.parametrize("pattern", ["c1ccccc1", "[N+](=O)[O-]", "C#N", "CO", "[#17]"])
def test_substructures_are_those_that_rdkit_finds(runs: Path, pattern: str) -> None:
    loaded = open_run(runs, "mols")
    scored = loaded.split("all")
    query = Chem.MolFromSmarts(pattern)
    expected = [Chem.MolFromSmiles(s).HasSubstructMatch(query) for s in scored.smiles]
    assert scored.matching(pattern).tolist() == expected
    assert 0 < sum(expected) < len(expected)


@pytest.mark.medium
def test_a_search_finds_numbers_and_names(runs: Path) -> None:
    scored = open_run(runs, "mols").split("all")
    named = scored.ids.index("mol-12")
    assert scored.rows(Filter(search="MOL-12")).tolist() == [named]
    assert 3 in scored.rows(Filter(search="3")).tolist()
    with pytest.raises(BadInputError, match="no such name !"):
        scored.rows(Filter(search="no such name !"))


@pytest.mark.medium
def test_answers_of_a_split_are_those_of_the_run(runs: Path) -> None:
    scored = open_run(runs, "motifs-a").split("test")
    run = gsat.open_run(runs / "motifs-a")
    np.testing.assert_allclose(scored.probabilities, run.predict().probabilities, atol=1e-6)
    measured = run.evaluate()
    assert (scored.right == 1).mean() == pytest.approx(measured["accuracy"])
    assert np.nanmean(scored.auc) == pytest.approx(measured["mean_graph_auc"], abs=1e-6)
    expected = run.explain(graph=2).edge_mask
    np.testing.assert_allclose(edge_scores(scored, 2), expected, atol=1e-6)


@pytest.mark.medium
def test_runs_are_compared_on_the_graphs_they_share(runs: Path) -> None:
    library = RunLibrary([runs])
    first, second = library.open("motifs-a"), library.open("motifs-b")
    comparison = compare([first, second], "test")
    assert len(comparison.data_rows) == len(first.split("test"))
    place = 3
    a = edge_scores(first.split("test"), int(comparison.rows[0][place]))
    b = edge_scores(second.split("test"), int(comparison.rows[1][place]))
    assert comparison.correlation[place] == pytest.approx(spearmanr(a, b).statistic, abs=1e-6)
    worst = comparison.most_different()[0]
    assert comparison.correlation[worst] == np.nanmin(comparison.correlation)
    with pytest.raises(BadInputError, match="mols"):
        compare([first, library.open("mols")], "test")


@pytest.mark.medium
def test_the_cache_is_bounded_and_evicts_the_oldest(runs: Path) -> None:
    loaded = open_run(runs, "motifs-a", cache_bytes=300_000)
    for row in range(30):
        loaded.explanation("test", row)
    assert loaded.cache_size <= 300_000
    assert loaded.is_cached("explanation", "test", 29)
    assert not loaded.is_cached("explanation", "test", 0)


@pytest.mark.medium
def test_similar_graphs_leave_out_the_graph_itself(runs: Path) -> None:
    library = RunLibrary([runs])
    for name in ("motifs-a", "mols"):
        found = library.open(name).similar("all", 2)
        assert 0 < len(found) <= 6
        assert 2 not in [row for row, _ in found]
        likeness = [value for _, value in found]
        assert likeness == sorted(likeness, reverse=True)


@pytest.mark.medium
def test_the_first_rows_do_not_wait_for_the_split(runs: Path) -> None:
    loaded = open_run(runs, "motifs-a")
    first, size = loaded.first_rows("all", 24)
    assert (len(first), size) == (24, 300)
    explained = loaded.explanation("all", 23)
    assert not loaded.is_cached("split", "all")
    whole = loaded.split("all")
    assert loaded.first_rows("all", 24) == (whole, 300)
    np.testing.assert_allclose(first.probabilities, whole.probabilities[:24], atol=1e-6)
    np.testing.assert_allclose(first.auc, whole.auc[:24], atol=1e-6)
    np.testing.assert_allclose(explained.edge_mask, edge_scores(whole, 23), atol=1e-6)
    nodes = open_run(runs, "nodes")
    scored, count = nodes.first_rows("test", 24)
    assert len(scored) == count == len(nodes.split("test"))


@pytest.mark.medium
def test_a_graph_does_not_wait_until_a_split_is_scored(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gsat.web.library.GRAPHS_PER_HOLD", 100)
    loaded = open_run(runs, "motifs-a")
    score, explain, order = loaded.model.score_edges, loaded.run.explain, []

    def watched_score(graphs: gsat.GraphStore) -> Any:
        order.append(len(graphs))
        if len(order) == 1:
            wait_until(lambda: COMPUTING.has_waiters)  # by the request for one graph
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
    np.testing.assert_allclose(explained.edge_mask, edge_scores(scored, 5), atol=1e-6)


def test_threads_that_take_the_lock_repeatedly_alternate() -> None:
    lock, order = FairLock(), []

    def take(name: str, other: str) -> None:
        for _ in range(20):
            with lock:
                order.append(name)
                # Release only when the other thread waits, unless it is done.
                wait_until(lambda: lock.has_waiters or order.count(other) == 20)

    with ThreadPoolExecutor() as pool:
        for ended in [pool.submit(take, *names) for names in ("ab", "ba")]:
            ended.result(120)
    assert "".join(order) in ("ab" * 20, "ba" * 20)


def test_waiting_for_the_lock_has_a_timeout() -> None:
    lock = FairLock()
    with ThreadPoolExecutor() as pool:
        with lock:
            assert not lock.acquire(timeout=0.01)
            other = pool.submit(lock.acquire)
            wait_until(lambda: lock.has_waiters)
            assert not lock.acquire(timeout=0.01)
        assert other.result(120)
    assert not lock.has_waiters


@pytest.mark.medium
@pytest.mark.parametrize("name", ["motifs-a", "mols"])
def test_one_row_does_not_wait_for_the_split(runs: Path, name: str) -> None:
    loaded = open_run(runs, name)
    views.graph_values(loaded, "all", 7, 0, True)
    alone = GraphRow.of(*loaded.row("all", 7)).model_dump()
    assert not loaded.is_cached("split", "all")
    whole = GraphRow.of(loaded.split("all"), 7).model_dump()
    for key, value in whole.items():
        numbers = isinstance(value, float | list)
        assert alone[key] == (pytest.approx(value, abs=1e-6, nan_ok=True) if numbers else value), (
            key
        )
    assert alone["number"] == alone["graph"] == 7
    with pytest.raises(NotFoundError, match="100000"):
        open_run(runs, name).row("all", 100_000)


@pytest.mark.medium
def test_a_service_that_stops_scores_no_further_graphs(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gsat.web.library.GRAPHS_PER_HOLD", 100)
    library = RunLibrary([runs])
    library.stopping.set()
    loaded = library.open("motifs-a")
    assert len(loaded.row("all", 3)[0]) == 1
    with pytest.raises(RequestError) as refused:
        loaded.split("all")
    assert refused.value.status == 503


@pytest.mark.medium
def test_a_gallery_scores_the_rest_of_its_split_afterwards(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Any] = []
    open_any = RunLibrary.open

    def recorded(library: RunLibrary, name: str) -> Any:
        opened.append(open_any(library, name))
        return opened[-1]

    monkeypatch.setattr(RunLibrary, "open", recorded)
    with make_client(runs) as client:
        page = client.get("/runs/motifs-a/graphs?split=all")  # returns when its tasks are done
        loaded = opened[-1]
        assert "300 of 300 graphs" in " ".join(page.text.split())
        assert page.text.count("thumb.svg") == 24
        assert loaded.is_cached("split", "all")
        assert loaded.is_cached("thumbnail", "all", 47)  # the next page is drawn as well
        again = client.get("/runs/motifs-a/graphs?split=all")
        assert again.text == page.text
    with pytest.raises(NotFoundError, match="none"):
        loaded.first_rows("none", 24)
