"""Figures of studies from records and runs."""

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
from gsat.study.figure import (
    curve_panels,
    draw_bars,
    draw_figure,
    draw_run_examples,
    sweep_panels,
)
from gsat.study.records import BenchFolders, Records
from gsat.study.study import ExamplePage, Experiment, Figure, Study, find_study
from gsat.study.table import measure
from gsat.training.recipe import make_recipe
from study_harness import failure, line, lines

CURVES, SWEEPS = find_study("fig-posthoc"), find_study("fig-regulariser")

# -- bars -----------------------------------------------------------------------------------------


def test_bars_have_the_means_and_deviations_of_the_table(tmp_path: Path) -> None:
    study = find_study("table5")
    runs = lines(study.experiment("spmotif-0.5", "gsat"), {0: 0.8, 1: 0.9})
    figure = draw_bars(study, measure(study, Records(runs)), tmp_path / "bars.svg")
    assert "<svg" in (tmp_path / "bars.svg").read_text(encoding="utf-8")
    (auc, prediction) = figure.axes
    assert [bar.get_height() for bar in auc.patches] == pytest.approx([85.0])
    assert [bar.get_height() for bar in prediction.patches] == pytest.approx([42.5])
    heights = [
        tuple(segment[:, 1].tolist()) for c in auc.collections for segment in c.get_segments()
    ]
    assert any(height == pytest.approx((80.0, 90.0)) for height in heights)  # an error bar
    assert {(mean, mean) for mean in (79.81, 74.07, 71.97, 66.0)} <= set(heights)  # published
    nothing = Study(title="T", datasets=["mutag"], table=[{"rows": [{"method": "gsat"}]}])
    with pytest.raises(GSATError, match="no run"):
        draw_bars(nothing, measure(nothing, Records([])))


# -- over epochs ----------------------------------------------------------------------------------


def curve(method: str, seed: int, auc: list[float | None], data: str = "ba2motifs") -> Any:
    own = {"loss": [1.0 + seed] * len(auc), "valid_auc": auc}
    return {
        "seed": seed,
        "recipe_hash": CURVES.point(data, method).hash,
        "phases": {"pretrain": {"loss": [5.0]}, "explain": own},
    }


def test_mean_and_deviation_at_each_epoch() -> None:
    aucs = np.random.default_rng(0).random((3, 4))
    runs = [curve("graphmask", seed, row.tolist()) for seed, row in enumerate(aucs)]
    runs += [curve("gsat", 0, [0.9, 0.8]), {**curve("gsat", 0, [0.1]), "recipe_hash": "other"}]
    auc, loss = curve_panels(CURVES, runs)
    assert [line.name for line in auc.lines] == ["GSAT", "GraphMask"]  # as in the paper's legend
    assert list(auc.lines[0].mean) == [0.9, 0.8]
    masks = auc.lines[1]
    assert list(masks.x) == [1, 2, 3, 4]
    assert list(masks.mean) == pytest.approx(aucs.mean(axis=0))
    assert list(masks.band) == pytest.approx(aucs.std(axis=0))
    assert list(loss.lines[1].mean) == pytest.approx([2.0] * 4)  # not the pre-training's
    assert (auc.title, loss.title) == ("BA-2Motifs", "BA-2Motifs")


def test_only_epochs_that_all_runs_have_and_gaps_where_one_is_undefined() -> None:
    runs = [curve("gsat", 0, [0.5, None, 0.7, 0.8]), curve("gsat", 1, [0.6, 0.6, 0.7])]
    auc, _ = curve_panels(CURVES, runs)
    assert list(auc.lines[0].mean) == [pytest.approx(0.55), None, pytest.approx(0.7)]


def test_data_sets_without_runs_have_no_panels(tmp_path: Path) -> None:
    runs = [curve("gsat", 0, [0.5, 0.6]), curve("gsat", 0, [0.9], "mutag")]
    assert [panel.title for panel in curve_panels(CURVES, runs)[::2]] == ["BA-2Motifs", "Mutag"]
    panels = curve_panels(CURVES, runs[1:])
    assert [panel.title for panel in panels] == ["Mutag"] * 2
    assert len(draw_curves(panels, tmp_path / "c.png").axes) == 2
    with pytest.raises(GSATError, match="fig-posthoc"):
        curve_panels(CURVES, [])


# -- sweeps ---------------------------------------------------------------------------------------


def swept(seed: int, auc: float | None, data: str = "spmotif-0.5", **settings: Any) -> Any:
    experiment = Experiment(data, "gsat", settings=tuple(settings.items()))
    return line(experiment, seed, test={"accuracy": 0.4, "explanation_auc": auc})


def test_a_sweep_of_r_and_one_of_the_norm() -> None:
    records = [swept(s, 0.5 + r / 4 + s / 10, r_final=r) for r in (0.9, 0.1) for s in (0, 1)]
    records += [swept(0, 0.3, regulariser="l1", info_coef=c) for c in (1.0, 1e-5)]
    by_r, by_weight = sweep_panels(SWEEPS, Records(records))
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
    (by_r,) = sweep_panels(SWEEPS, Records([*others, good]))  # none of the norm has runs
    assert by_r.x_label == "r"
    assert list(by_r.lines[0].mean) == [0.7]
    with pytest.raises(GSATError, match="fig-regulariser"):
        sweep_panels(SWEEPS, Records(others))


# -- examples -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs on the same 60 graphs, and one on another split."""
    folder = tmp_path_factory.mktemp("figures")
    for name, seed, r in (("a", 0, 0.6), ("b", 0, 0.4), ("other", 1, 0.7)):
        settings = {"graphs": 60, "epochs": 1, "hidden": 8, "r_final": r}
        gsat.train(make_recipe("ba2motifs", seed=seed, settings=settings), folder / name)
    return [folder / name for name in ("a", "b", "other")]


def words(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.texts]


def offsets(axes: Any) -> Any:
    return next(c for c in axes.collections if c.get_gid() == "nodes").get_offsets()


def test_runs_side_by_side(runs: list[Path], tmp_path: Path) -> None:
    page = ExamplePage(graphs=3)
    figure = draw_run_examples(runs[:2], tmp_path / "e.png", page)
    assert (tmp_path / "e.png").read_bytes().startswith(b"\x89PNG")
    assert len(figure.axes) == 9 + 1
    for column in range(3):
        places = [offsets(figure.axes[row * 3 + column]) for row in range(3)]
        assert (places[0] == places[1]).all()
        assert (places[0] == places[2]).all()
    data = gsat.load_dataset("ba2motifs", seed=0, graphs=60)
    labels = [int(data.test[i].y) for i in range(len(data.test))]
    chosen = [labels.index(0), [i for i, y in enumerate(labels) if y == 0][1], labels.index(1)]
    texts = words(figure)
    assert [w for w in texts if w in ("truth", "GSAT")] == ["truth", "GSAT", "GSAT"]
    expected = [
        f"AUC {roc_auc_score(e.edge_truth, e.edge_mask):.2f}"
        for run in runs[:2]
        for e in gsat.load(run).explain(data.test.select(chosen))
    ]
    assert [word[:8] for word in texts if word.startswith("AUC")] == expected
    classes = data.store.meta["classes"]
    titles = [axes.get_title() for axes in figure.axes[:3]]
    assert titles == [classes[labels[i]] for i in chosen]
    # The row of the truth: what is true is dark, the rest faint.
    edges = next(c for c in figure.axes[0].collections if c.get_gid() == "edges")
    assert len(np.unique(edges.get_colors()[:, 3].round(6))) == 2


def test_a_flat_explanation_has_a_caption(
    monkeypatch: pytest.MonkeyPatch, runs: list[Path]
) -> None:
    monkeypatch.setattr("gsat.explanation.AT_R", 2.0)
    texts = words(draw_run_examples(runs[:1], page=ExamplePage(graphs=2)))
    assert sum(word.endswith(", no edge stands out") for word in texts) == 2


def test_examples_can_be_kept_small(runs: list[Path]) -> None:
    sizes = gsat.load_dataset("ba2motifs", seed=0, graphs=60).test.node_counts
    most = int(sizes.max())
    figure = draw_run_examples(runs[:1], page=ExamplePage(graphs=99, most_nodes=most))
    assert len(figure.axes) == 2 * len(sizes) + 1
    with pytest.raises(GSATError, match="3 nodes"):
        draw_run_examples(runs[:1], page=ExamplePage(most_nodes=3))


def test_examples_are_of_one_split(runs: list[Path]) -> None:
    with pytest.raises(RunError, match="other data, or another split"):
        draw_run_examples([runs[0], runs[2]])


@pytest.mark.usefixtures("trained")
def test_a_study_of_examples_draws_its_finished_runs(folders: BenchFolders) -> None:
    from gsat.study.plan import make_plan, request_runs
    from gsat.study.run import run_plan

    study = Study(
        name="fig-mine", title="T", datasets=["houses"],
        settings={"graphs": 30, "epochs": 1, "hidden": 8, "layers": 1},
        figure=Figure(kind="examples", methods=["gsat"]),
    )  # fmt: skip
    with pytest.raises(GSATError, match="no finished runs"):
        draw_figure(study, folders)
    run_plan(make_plan(request_runs([study]), folders), folders)
    assert draw_figure(study, folders) == [folders.pictures / "mine-houses.png"]
    (own,) = draw_figure(study, folders, folders.runs / "own.svg")
    assert own == folders.runs / "own-houses.svg"
    assert own.is_file()
