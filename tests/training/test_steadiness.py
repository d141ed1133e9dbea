"""``steady`` in the log: the rank correlation of an epoch's edge scores with the epoch before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import gsat
from gsat.training import steadiness
from gsat.training.steadiness import Steadiness


def test_each_epoch_is_compared_with_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    see = Steadiness.see

    def keep(self: Steadiness, scores: Any) -> None:
        seen.append(scores.copy())
        see(self, scores)

    monkeypatch.setattr(Steadiness, "see", keep)
    settings = {"graphs": 40, "epochs": 3, "hidden": 16, "layers": 2}
    run = gsat.train(gsat.make_recipe("ba2motifs", settings=settings), tmp_path / "run")
    counts = run.dataset.valid.edge_counts
    logged = [line["steady"] for line in run.log]
    assert logged[0] is None
    for epoch in (1, 2):
        parts = [np.split(seen[n], np.cumsum(counts)[:-1]) for n in (epoch - 1, epoch)]
        expected = [stats.spearmanr(a, b).statistic for a, b in zip(*parts, strict=True)]
        assert logged[epoch] == pytest.approx(np.mean(expected), abs=1e-9)


def test_no_more_than_some_edges_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    store = gsat.load_dataset("ba2motifs", graphs=20).store
    monkeypatch.setattr(steadiness, "MOST_EDGES", int(store.edge_counts[:3].sum()))
    compared = Steadiness(store)
    assert compared.correlation() is None
    scores = np.random.default_rng(0).random(store.num_edges)
    for given in (scores, scores):
        compared.see(given)
    assert compared.now is not None
    assert len(compared.now) == store.edge_counts[:3].sum()
    assert compared.correlation() == pytest.approx(1.0)
    compared.forget()
    assert compared.correlation() is None
