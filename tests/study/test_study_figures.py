"""The paper's figures from records and runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import gsat
from gsat.core.errors import GSATError, RunError
from gsat.draw import draw_curves
from gsat.models import GIN
from gsat.study.figures import draw_run_examples, posthoc_curves, regulariser_curves
from gsat.study.records import Records
from gsat.study.study import Experiment
from gsat.training.recipe import make_recipe
from study_harness import failure, line

# -- over epochs ----------------------------------------------------------------------------------


def curve(method: str, seed: int, auc: list[float | None], **changed: Any) -> dict[str, Any]:
    own = {"loss": [1.0 + seed] * len(auc), "valid_auc": auc}
    return {
        "dataset": "ba2motifs",
        "method": method,
        "backbone": "gin",
        "seed": seed,
        "recipe_hash": method,
        "data_hash": "d",
        "results_version": GIN.results_version,
        "phases": {"pretrain": {"loss": [5.0]}, "explain": own},
        **changed,
    }


def test_mean_and_deviation_at_each_epoch() -> None:
    aucs = np.random.default_rng(0).random((3, 4))
    runs = [curve("graphmask", seed, row.tolist()) for seed, row in enumerate(aucs)]
    runs.append(curve("gsat", 0, [0.9, 0.8]))
    auc, loss = posthoc_curves(runs, datasets=["ba2motifs"])
    assert [line.name for line in auc.lines] == ["GSAT", "GraphMask"]  # as in the paper's legend
    masks = auc.lines[1]
    assert list(masks.x) == [1, 2, 3, 4]
    assert list(masks.mean) == pytest.approx(aucs.mean(axis=0))
    assert list(masks.band) == pytest.approx(aucs.std(axis=0))
    assert list(loss.lines[1].mean) == pytest.approx([2.0] * 4)  # not the pre-training's
    assert "validation" in auc.y_label
    assert (auc.title, loss.title) == ("BA-2Motifs", "BA-2Motifs")


def test_only_epochs_that_all_runs_have_and_gaps_where_one_is_undefined() -> None:
    runs = [curve("gsat", 0, [0.5, None, 0.7, 0.8]), curve("gsat", 1, [0.6, 0.6, 0.7])]
    auc, _ = posthoc_curves(runs, datasets=["ba2motifs"])
    assert list(auc.lines[0].mean) == [pytest.approx(0.55), None, pytest.approx(0.7)]


def test_other_runs_are_left_out_and_recipes_never_mixed() -> None:
    runs = [
        curve("gsat", 0, [0.5]),
        curve("gsat", 1, [0.9], results_version=GIN.results_version - 1),
        curve("gsat", 2, [0.9], backbone="pna"),
        curve("gsat", 3, [0.9], dataset="mutag"),
    ]
    panels = posthoc_curves(runs)
    assert [p.title for p in panels] == ["BA-2Motifs", "BA-2Motifs", "Mutag", "Mutag"]
    assert [list(p.lines[0].mean) for p in panels[::2]] == [[0.5], [0.9]]
    runs.append(curve("gsat", 0, [0.1], recipe_hash="other"))
    with pytest.raises(GSATError, match="several recipes"):
        posthoc_curves(runs)
    assert list(posthoc_curves(runs, recipes={"other"})[0].lines[0].mean) == [0.1]
    with pytest.raises(GSATError, match="no curves are recorded"):
        posthoc_curves(runs, recipes=())


def test_a_data_set_without_runs_has_no_panels(tmp_path: Path) -> None:
    panels = posthoc_curves([curve("gsat", 0, [0.5, 0.6])])
    assert [len(p.lines) for p in panels] == [1, 1]
    assert len(draw_curves(panels, tmp_path / "c.png").axes) == 2


# -- sweeps ---------------------------------------------------------------------------------------


def swept(seed: int, auc: float | None, data: str = "spmotif-0.5", **settings: Any) -> Any:
    experiment = Experiment(data, "gsat", settings=tuple(settings.items()))
    return line(experiment, seed, test={"accuracy": 0.4, "explanation_auc": auc})


def test_a_sweep_of_r_and_one_of_the_norm() -> None:
    records = [swept(s, 0.5 + r / 4 + s / 10, r_final=r) for r in (0.9, 0.1) for s in (0, 1)]
    records += [swept(0, 0.3, regulariser="l1", info_coef=c) for c in (1.0, 1e-5)]
    by_r, by_weight = regulariser_curves(Records(records))
    assert by_r.title == "Spurious-Motif, b = 0.5"
    auc, accuracy = by_r.lines
    assert (auc.name, accuracy.name) == ("explanation AUC", "accuracy")
    assert list(auc.x) == [0.1, 0.9]
    assert list(auc.mean) == pytest.approx([0.575, 0.775])
    assert list(auc.band) == pytest.approx([0.05, 0.05])
    assert list(accuracy.mean) == pytest.approx([0.4, 0.4])
    assert by_weight.x_scale == "log"
    assert list(by_weight.lines[0].x) == [1e-5, 1.0]


def test_a_sweep_changes_one_thing() -> None:
    good = swept(0, 0.7, r_final=0.6)
    others = [
        swept(0, 0.1, r_final=0.6, epochs=3),
        swept(0, 0.1, r_final=0.6, info_coef=0.0),
        swept(0, 0.1, regulariser="none"),
        {**swept(0, 0.1, r_final=0.6), "results_version": GIN.results_version - 1},
        {**swept(0, 0.1, r_final=0.6), "data_hash": "old graphs"},
        line(Experiment("spmotif-0.5", "gsat-star", settings=(("r_final", 0.6),))),
        failure(Experiment("spmotif-0.5", "gsat", settings=(("r_final", 0.6),)), 1),
    ]
    (by_r,) = regulariser_curves(Records([*others, good]))  # none of the norm has runs
    assert by_r.x_label == "r"
    assert list(by_r.lines[0].mean) == [0.7]
    with pytest.raises(GSATError, match="no sweep"):
        regulariser_curves(Records(others))


def test_every_bias_has_its_panels() -> None:
    records = [swept(0, 0.5, data=f"spmotif-{b}", r_final=0.5) for b in ("0.9", "0.5")]
    titles = [panel.title for panel in regulariser_curves(Records(records))]
    assert titles == ["Spurious-Motif, b = 0.5", "Spurious-Motif, b = 0.9"]


# -- examples -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs on the same 60 graphs, and one on another split."""
    folder = tmp_path_factory.mktemp("figures")
    made = {"a": {"r_final": 0.6}, "b": {"r_final": 0.4}}
    for name, settings in made.items():
        recipe = make_recipe("ba2motifs", settings={"graphs": 60, "epochs": 1, **settings})
        gsat.train(recipe, folder / name)
    gsat.train(
        make_recipe("ba2motifs", seed=1, settings={"graphs": 60, "epochs": 1}), folder / "other"
    )
    return [folder / name for name in ("a", "b", "other")]


def words(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.texts]


def offsets(axes: Any) -> Any:
    return next(c for c in axes.collections if c.get_gid() == "nodes").get_offsets()


def test_runs_side_by_side(runs: list[Path], tmp_path: Path) -> None:
    figure = draw_run_examples(runs[:2], tmp_path / "e.png", graphs=[2, 0, 1], truth=True)
    assert (tmp_path / "e.png").read_bytes().startswith(b"\x89PNG")
    assert len(figure.axes) == 9 + 1
    legend = [text.get_text() for text in figure.axes[-1].texts]
    assert legend[0].startswith("GSAT: edge score")
    assert not [word for word in legend if word.startswith("truth")]
    for column in range(3):
        places = [offsets(figure.axes[row * 3 + column]) for row in range(3)]
        assert (places[0] == places[1]).all()
        assert (places[0] == places[2]).all()
    data = gsat.load_dataset("ba2motifs", seed=0, graphs=60)
    texts = words(figure)
    assert [w for w in texts if w in ("truth", "GSAT")] == ["truth", "GSAT", "GSAT"]
    captions = [w for w in texts if w.startswith("AUC")]
    expected = []
    for run in runs[:2]:
        for e in gsat.load(run).explain(data.test.select([2, 0, 1])):
            alike = float(abs(e.edge_mask - e.r).max()) <= 0.05
            area = f"AUC {roc_auc_score(e.edge_truth, e.edge_mask):.2f}"
            expected.append(area + ", no edge stands out" * alike)
    assert captions == expected
    classes = data.store.meta["classes"]
    assert texts[:3] == [classes[int(data.test[i].y)] for i in (2, 0, 1)]
    # The row of the truth: what is true is dark, the rest faint.
    edges = next(c for c in figure.axes[0].collections if c.get_gid() == "edges")
    assert len(np.unique(edges.get_colors()[:, 3].round(6))) == 2


def test_a_flat_explanation_has_a_caption(
    monkeypatch: pytest.MonkeyPatch, runs: list[Path]
) -> None:
    monkeypatch.setattr("gsat.explanation.AT_R", 2.0)
    texts = words(draw_run_examples(runs[:1], graphs=[0, 1]))
    assert sum(word.endswith(", no edge stands out") for word in texts) == 2


def test_by_default_the_first_graphs_of_each_class_are_drawn(runs: list[Path]) -> None:
    figure = draw_run_examples(runs[:1], count=4, columns=2)
    classes = gsat.load_dataset("ba2motifs", seed=0, graphs=60).store.meta["classes"]
    titles = [word for word in words(figure) if word in classes]
    assert sorted(titles) == sorted([*classes, *classes])
    assert titles[0] == titles[1]  # a row is of one class


def test_examples_can_be_kept_small(tmp_path: Path) -> None:
    recipe = make_recipe("houses", settings={"graphs": 60, "epochs": 1})
    gsat.train(recipe, tmp_path / "run")
    sizes = gsat.load_dataset("houses", seed=0, graphs=60).test.node_counts
    most = int(sizes.max()) - 1
    assert 0 < (sizes <= most).sum() < len(sizes)
    figure = draw_run_examples([tmp_path / "run"], count=len(sizes), most_nodes=most)
    drawn = [len(offsets(axes)) for axes in figure.axes[:-1]]
    assert sorted(drawn) == sorted(sizes[sizes <= most])
    with pytest.raises(GSATError, match="no graph of the split 'test' has at most 3 nodes"):
        draw_run_examples([tmp_path / "run"], most_nodes=3)


def test_examples_are_of_one_split(runs: list[Path]) -> None:
    with pytest.raises(RunError, match="other data, or another split"):
        draw_run_examples([runs[0], runs[2]])
    with pytest.raises(GSATError, match="no run to take examples from"):
        draw_run_examples([])
