"""Stability over seeds, recomputed with the public API, scipy and networkx."""

from __future__ import annotations

import itertools
import json
import math
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from scipy import stats

import gsat
from gsat.core.errors import GSATError
from gsat.study import stability as module
from gsat.study.stability import _same_graphs, stability
from gsat.training.recipe import make_recipe

SMALL = {"graphs": 100, "epochs": 2, "hidden": 16, "layers": 2}
SEEDS = (0, 1, 2)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Small trainings of BA-2Motifs that differ by their seed."""
    folder = tmp_path_factory.mktemp("stability")
    for seed in SEEDS:
        gsat.train(make_recipe("ba2motifs", seed=seed, settings=SMALL), folder / str(seed))
    return [folder / str(seed) for seed in SEEDS]


def undirected_scores(path: Path, graphs: gsat.GraphStore) -> list[dict[frozenset[int], float]]:
    """One score for each edge of each graph as networkx sees them."""
    every = []
    for explanation in gsat.load(path).explain(graphs):
        graph = nx.Graph()
        for (u, v), score in zip(
            explanation.edge_index.t().tolist(), explanation.edge_mask.tolist(), strict=True
        ):
            graph.add_edge(u, v, score=score)
        every.append({frozenset((u, v)): s for u, v, s in graph.edges(data="score")})
    return every


def expected(runs: list[Path], graphs: gsat.GraphStore) -> list[float]:
    """The mean correlation of each pair of runs."""
    scores = [undirected_scores(path, graphs) for path in runs]
    pairs = []
    for one, two in itertools.combinations(scores, 2):
        values = [
            stats.spearmanr([a[edge] for edge in a], [b[edge] for edge in a]).statistic
            for a, b in zip(one, two, strict=True)
        ]
        pairs.append(float(np.mean(values)))
    return pairs


def test_explanations_of_the_same_graphs_are_compared(runs: list[Path]) -> None:
    line = stability(runs)
    test = gsat.load_dataset("ba2motifs", seed=0, graphs=100).test
    pairs = expected(runs, test)
    assert line["mean"] == pytest.approx(np.mean(pairs), abs=1e-6)
    assert line["std"] == pytest.approx(np.std(pairs), abs=1e-6)
    assert (line["graphs"], line["explained"]) == (len(test), "test graphs of seed 0")
    assert line["seeds"] == [0, 1, 2]
    assert line["undefined"] == 0
    result = json.loads((runs[0] / "result.json").read_text(encoding="utf-8"))
    names = ("dataset", "method", "backbone", "recipe_hash", "data_hash", "results_version")
    assert {name: line[name] for name in names} == {name: result[name] for name in names}
    # Plain values in an order that does not depend on that of the folders.
    assert json.loads(json.dumps(line)) == stability(runs[::-1])


def test_graphs_in_no_training_set_are_used_if_there_are_enough(
    runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = [gsat.load_dataset("ba2motifs", seed=seed, graphs=100) for seed in (0, 1)]
    seen = {int(row) for loaded in data for row in loaded.splits["train"]}
    unseen = [row for row in range(100) if row not in seen]
    assert len(unseen) > 1
    monkeypatch.setattr(module, "MIN_GRAPHS", len(unseen))
    line = stability(runs[:2])
    assert (line["graphs"], line["explained"]) == (len(unseen), "graphs in no training set")
    assert line["mean"] == pytest.approx(
        expected(runs[:2], data[0].store.select(unseen))[0], abs=1e-6
    )
    assert line["std"] is None
    assert stability(runs[:2], limit=1)["graphs"] == 1
    monkeypatch.setattr(module, "MIN_GRAPHS", len(unseen) + 1)
    assert stability(runs[:2])["explained"] == "test graphs of seed 0"
    assert stability(runs[:2], limit=3)["graphs"] == 3


def test_directed_graphs_count_every_edge() -> None:
    """A triangle that runs both ways, and a path that runs one way from high to low numbers."""
    both = [[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]]
    store = gsat.GraphStore.from_arrays(
        node_ptr=[0, 3, 6], edge_ptr=[0, 6, 8], edge_index=np.hstack([both, [[2, 1], [1, 0]]])
    )
    first, second = module._single_direction(store)
    assert len(first) == 3
    assert {frozenset(pair) for pair in np.array(both)[:, first].T.tolist()} == {
        frozenset(pair) for pair in ((0, 1), (1, 2), (0, 2))
    }
    assert second.tolist() == [0, 1]


def test_runs_that_are_not_comparable_are_refused(runs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(GSATError, match="a comparison needs at least two runs, not 1"):
        stability(runs[:1])
    with pytest.raises(
        GSATError, match=r"a comparison needs runs of different seeds, not \[0, 0\]"
    ):
        stability([runs[0], runs[0]])
    gsat.train(make_recipe("ba2motifs", seed=1, settings={**SMALL, "lr": 0.1}), tmp_path / "other")
    with pytest.raises(GSATError, match="by their seed only"):
        stability([runs[0], tmp_path / "other"])
    for seed in (0, 1):
        plain = make_recipe("ba2motifs", method="erm", seed=seed, settings=SMALL)
        gsat.train(plain, tmp_path / f"erm-{seed}")
    with pytest.raises(GSATError, match="gives no explanations"):
        stability([tmp_path / "erm-0", tmp_path / "erm-1"])


def test_runs_on_other_graphs_than_today_are_refused(runs: list[Path], tmp_path: Path) -> None:
    for path in runs[:2]:
        copy = shutil.copytree(path, tmp_path / path.name)
        result = json.loads((copy / "result.json").read_text(encoding="utf-8"))
        text = json.dumps(result | {"data_hash": "0123"})
        (copy / "result.json").write_text(text, encoding="utf-8")
    with pytest.raises(GSATError, match=r"other graphs \(hash 0123\)"):
        stability([tmp_path / "0", tmp_path / "1"])


def test_labels_of_nodes_are_refused(tmp_path: Path) -> None:
    for seed in (0, 1):
        settings = {"motifs": 12, "epochs": 1, "hidden": 8}
        recipe = make_recipe("tree-cycles", seed=seed, settings=settings)
        gsat.train(recipe, tmp_path / str(seed))
    with pytest.raises(GSATError, match="tree-cycles has labels of nodes"):
        stability([tmp_path / "0", tmp_path / "1"])


def test_flat_explanations_are_left_out_and_counted(
    runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = module._scores

    def flat(run: object, graphs: gsat.GraphStore) -> list[np.ndarray]:
        return [np.ones_like(s) if i == 0 else s for i, s in enumerate(whole(run, graphs))]

    monkeypatch.setattr(module, "_scores", flat)
    line = stability(runs)
    assert line["undefined"] == math.comb(len(runs), 2)
    assert -1 <= line["mean"] <= 1


def test_graphs_are_spread_evenly_over_the_test_set() -> None:
    """In a store sorted by class and split, the first graphs are of one class."""

    def split(train: range, test: range) -> Any:
        return SimpleNamespace(
            name="made up", seed=0, store=range(1000), task=SimpleNamespace(level="graph"),
            splits={"train": np.arange(1000)[train.start : train.stop],
                    "test": np.arange(1000)[test.start : test.stop]},
        )  # fmt: skip

    rows, what = _same_graphs([split(range(500), range(600, 1000))] * 2, 10)
    assert what == "test graphs in no training set"
    assert (rows.min(), rows.max(), len(rows)) == (600, 999, 10)
    # Too few graphs are in no training set.
    shifted = [split(range(500), range(980, 1000)), split(range(10, 990), range(980, 1000))]
    rows, what = _same_graphs(shifted, 500)
    assert what == "test graphs of seed 0"
    rows, what = _same_graphs([split(range(500), range(400, 410))], 10)
    assert what == "graphs in no training set"
    assert (rows.min(), rows.max()) == (500, 999)
