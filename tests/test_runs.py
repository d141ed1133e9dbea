"""`gsat.open_run`: description, graphs, predictions and explanations of a run."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import gsat
from gsat.core.errors import DataError, GSATError, RunError
from gsat.metric_names import shown_metrics
from gsat.training.recipe import make_recipe
from own_data import as_json, make_graphs, write_lines

SMALL = {"graphs": 60, "hidden": 8, "epochs": 2}


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> gsat.Run:
    """Two epochs on 60 graphs, opened again."""
    path = tmp_path_factory.mktemp("runs") / "run"
    gsat.train(make_recipe("ba2motifs", settings=SMALL), path)
    return gsat.open_run(path)


@pytest.fixture(scope="session")
def own(tmp_path_factory: pytest.TempPathFactory) -> gsat.Run:
    """One epoch on a file of graphs with labels no and yes, and without ground truth."""
    folder = tmp_path_factory.mktemp("own-runs")
    lines = [{**as_json(g), "y": ("no", "yes")[int(g.y)]} for g in make_graphs(40)]
    data = write_lines(folder / "toy.jsonl", lines)
    settings = {"hidden": 8, "layers": 1, "epochs": 1}
    return gsat.train(make_recipe(str(data), settings=settings), folder / "run")


# -- contents of a run -----------------------------------------------------------------------------


def test_opening_loads_neither_model_nor_data(run: gsat.Run) -> None:
    opened = gsat.open_run(run.path)
    assert opened.finished
    assert opened.test["accuracy"] is not None
    assert opened._model is None
    assert opened.loaded_dataset is None
    assert isinstance(opened.model, gsat.GSAT)
    assert opened.model is opened.model


def test_a_run_knows_its_recipe_result_and_log(run: gsat.Run) -> None:
    assert run.path is not None
    assert run.recipe == make_recipe("ba2motifs", settings=SMALL)
    assert run.result == json.loads((run.path / "result.json").read_text())
    assert [line["epoch"] for line in run.log] == [0, 1]
    assert run.valid == run.result["valid"]
    record = run.record()
    assert record["recipe"] == run.recipe.tables()
    assert record["test"] == run.test


def test_a_run_is_shown_in_a_few_lines(run: gsat.Run, own: gsat.Run) -> None:
    lines = [line.strip() for line in repr(run).splitlines()]
    assert lines[:2] == ["Run of gsat on ba2motifs", "backbone gin, seed 0"]
    assert lines[2].startswith(f"test accuracy {run.test['accuracy']:.4f}, explanation AUC ")
    assert lines[3:] == [str(run.path)]
    assert "explanation" not in repr(own)


def test_a_run_that_was_never_saved_still_answers() -> None:
    data = gsat.load_dataset(make_graphs(40), seed=1)
    model = gsat.GSAT(gsat.GIN.for_data(data, hidden=8, layers=1, seed=0), seed=0)
    run = gsat.fit(model, data, epochs=1, seed=1)
    assert run.path is None
    assert run.log == []
    assert run.model is model
    assert len(run.graphs()) == len(data.test)
    assert run.evaluate()["accuracy"] == run.test["accuracy"]
    assert repr(run).endswith("not saved")


def test_fit_resume_and_open_run_return_equal_runs(run: gsat.Run, tmp_path: Path) -> None:
    data = gsat.load_dataset(make_graphs(40), seed=1)
    model = gsat.GSAT(gsat.GIN.for_data(data, hidden=8, layers=1, seed=0), seed=0)
    fitted = gsat.fit(model, data, epochs=1, seed=1, out=tmp_path / "fitted")
    with pytest.raises(DataError, match="given in Python"):
        gsat.open_run(tmp_path / "fitted").graphs()
    opened = gsat.open_run(tmp_path / "fitted", data=data)
    assert opened.evaluate() == fitted.evaluate()
    resumed = gsat.resume(run.path)
    assert type(resumed) is type(fitted) is type(opened) is gsat.Run
    assert resumed.result == run.result


def test_unfinished_runs_and_other_folders_are_errors(run: gsat.Run, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a run"):
        gsat.open_run(tmp_path)
    assert run.path is not None
    half = Path(shutil.copytree(run.path, tmp_path / "half"))
    (half / "result.json").unlink()
    opened = gsat.open_run(half)
    assert not opened.finished
    assert "not finished, 2 epochs so far" in repr(opened)
    with pytest.raises(RunError, match="not finished"):
        _ = opened.result
    (half / "metrics.jsonl").unlink()
    assert gsat.open_run(half).log == []


# -- graphs, predictions, explanations -------------------------------------------------------------


def test_graphs_from_the_run_another_data_set_or_a_path(run: gsat.Run, tmp_path: Path) -> None:
    data = gsat.load_dataset("ba2motifs", graphs=60)
    assert run.graphs().index.tolist() == data.test.index.tolist()
    assert len(run.graphs(split="all")) == len(run.graphs("all")) == 60
    assert run.graphs("test").index.tolist() == data.test.index.tolist()
    assert len(run.predict("valid").logits) == len(data.valid)
    saved = data.train.select([3, 1]).save(tmp_path / "graphs")
    assert len(run.graphs(saved)) == len(run.graphs(str(saved))) == 2
    assert len(run.graphs(data, "valid")) == len(data.valid)
    assert run.graphs(data.test) is not None
    assert len(run.graphs("ba2motifs")) == 100
    with pytest.raises(DataError, match="no split 'tset'"):
        run.graphs(split="tset")
    with pytest.raises(DataError, match="no data set 'nosuch'"):
        run.graphs("nosuch")


def test_a_named_data_set_is_split_as_the_run_was(run: gsat.Run) -> None:
    """Or its test graphs would be among those the model has learnt from."""
    settings = {**SMALL, "data.split_seed": 5, "epochs": 1}
    other = gsat.Run(model=run.model, recipe=make_recipe("ba2motifs", settings=settings))
    expected = gsat.load_dataset("ba2motifs", seed=5).test.index
    assert other.graphs("ba2motifs").index.tolist() == expected.tolist()


def test_predictions_know_their_graphs_and_classes(run: gsat.Run, tmp_path: Path) -> None:
    predicted = run.predict()
    expected = run.model.predict(run.graphs())
    assert len(predicted) == 6
    assert torch.equal(predicted.logits, expected.logits)
    assert torch.equal(predicted.labels, expected.labels)
    assert predicted.class_names == ["five-cycle", "house"]
    assert predicted.graph.tolist() == list(range(6))
    assert predicted.node is None
    assert repr(predicted) == "PredictionTable(6 graphs, 2 probabilities each)"
    text = predicted.to_csv(tmp_path / "p.csv")
    assert (tmp_path / "p.csv").read_text() == text
    head, *rows = csv.reader(io.StringIO(text))
    assert head == ["graph", "prediction", "p(five-cycle)", "p(house)"]
    np.testing.assert_allclose(
        [[float(p) for p in row[2:]] for row in rows], expected.probabilities, atol=1e-6
    )


def test_one_explanation_or_all(run: gsat.Run) -> None:
    one, every = run.explain(graph=2), run.explain()
    assert len(every) == 6
    torch.testing.assert_close(one.edge_mask, every[2].edge_mask)
    assert one.class_names == ["five-cycle", "house"]
    assert "predicted" in repr(one)
    few = run.explain(graph=2, top=3)
    assert few.num_units == 3
    assert len(run.explain(top="20%")) == 6
    assert run.explain(graph=2, above=0.0).num_units == one.num_units
    for wrong in (-1, 6):
        with pytest.raises(GSATError, match=f"no graph {wrong}: the graphs are 0 to 5"):
            run.explain(graph=wrong)
    with pytest.raises(GSATError, match="give one of them"):
        run.explain(graph=0, top=3, above=0.5)
    with pytest.raises(GSATError, match="whole graphs"):
        run.explain(node=0)


def test_scores_of_a_split_are_saved_as_arrays(run: gsat.Run, tmp_path: Path) -> None:
    graphs, edges = run.save_scores(tmp_path / "s.npz", split="valid")
    with np.load(tmp_path / "s.npz") as arrays:
        assert (len(arrays["graph"]), len(arrays["scores"])) == (graphs, edges)
    assert graphs == len(run.graphs(split="valid"))


def test_a_run_is_measured(run: gsat.Run) -> None:
    measured = run.evaluate()
    assert measured["accuracy"] == run.test["accuracy"]
    assert measured == gsat.evaluate(run.model, gsat.load_dataset("ba2motifs", graphs=60))
    assert measured == gsat.evaluate(run.model, run.graphs())
    assert run.evaluate(split="train") != measured


def test_explanation_metrics_are_shown_only_with_ground_truth(run: gsat.Run, own: gsat.Run) -> None:
    assert run.has_truth()
    assert not own.has_truth()
    assert list(shown_metrics(own.evaluate(), own.has_truth())) == ["accuracy"]
    undefined = {**run.test, "explanation_auc": None}
    assert shown_metrics(undefined, has_truth=True)["explanation AUC"] is None


def test_labels_of_new_graphs_are_read_as_those_of_the_run(own: gsat.Run, tmp_path: Path) -> None:
    only = [{**as_json(g), "y": "yes"} for g in make_graphs(40) if int(g.y)]
    path = write_lines(tmp_path / "yes.jsonl", only)
    assert set(own.graphs(path).per_graph("y").ravel().tolist()) == {1}
    assert own.explain(path, graph=0).class_names == ["no", "yes"]
    share = float((own.predict(path).labels == 1).double().mean())
    assert own.evaluate(path)["accuracy"] == pytest.approx(share)


# -- lists of runs ---------------------------------------------------------------------------------


def test_runs_below_a_folder_are_listed_with_their_state(run: gsat.Run, tmp_path: Path) -> None:
    assert run.path is not None
    done = Path(shutil.copytree(run.path, tmp_path / "deep" / "done"))
    half = Path(shutil.copytree(run.path, tmp_path / "half"))
    (half / "result.json").unlink()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "recipe.toml").write_text("not [ toml")
    (tmp_path / "other").mkdir()
    first, second = gsat.list_runs(tmp_path)
    assert (first.path, first.state, first.test) == (done, "finished", run.test)
    assert (first.dataset, first.method, first.backbone) == ("ba2motifs", "gsat", "gin")
    assert (second.path, second.state) == (half, "stopped")
    assert (second.progress, second.test) == ("epoch 2 of 2", {})
    with (half / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert gsat.list_runs(half)[0].state == "running"
    (half / "metrics.jsonl").unlink()
    assert gsat.list_runs(half)[0].progress == "no epoch yet"
    with pytest.raises(GSATError, match="there is no folder"):
        gsat.list_runs(tmp_path / "nowhere")


def test_runs_are_sorted_by_a_metric_the_best_first(run: gsat.Run, tmp_path: Path) -> None:
    assert run.path is not None
    for name, value in (("a", 0.2), ("b", 0.9), ("c", None)):
        path = Path(shutil.copytree(run.path, tmp_path / name))
        result = json.loads((path / "result.json").read_text())
        result["test"] |= {"accuracy": value, "loss": value}
        (path / "result.json").write_text(json.dumps(result))

    def order(metric: str) -> list[str]:
        return [found.path.name for found in gsat.list_runs(tmp_path, sort=metric)]

    assert order("accuracy") == ["b", "a", "c"]
    assert order("loss") == ["a", "b", "c"]
    with pytest.raises(GSATError, match="no run has the metric 'nothing'"):
        order("nothing")


# -- public names ----------------------------------------------------------------------------------


def test_every_public_name_is_there() -> None:
    assert set(gsat.__all__) == set(gsat._HOMES)
    for name in gsat.__all__:
        assert getattr(gsat, name) is not None


def test_draw_is_the_package_before_and_after_it_is_imported() -> None:
    script = """
import sys, gsat
assert not {"torch", "numpy"} & set(sys.modules)
from gsat import list_runs, register_method, Registry
assert not {"torch", "numpy"} & set(sys.modules)
before = gsat.draw
import gsat.draw
from gsat import draw
assert before is gsat.draw is draw is sys.modules["gsat.draw"]
assert gsat.draw.draw_grid is gsat.draw_grid
import torch
ends = torch.tensor([[0, 1], [1, 0]])
edge = gsat.Explanation(edge_index=ends, edge_mask=torch.ones(2), num_nodes=2, undirected=True)
assert "matplotlib" not in sys.modules
gsat.draw.draw(edge)
assert "matplotlib.pyplot" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_training_imports_neither_pyg_nor_the_compiler_nor_drawings() -> None:
    script = f"""
import sys, gsat
run = gsat.train(gsat.make_recipe("ba2motifs", settings={SMALL}))
run.evaluate(), run.predict()
import gsat.cli.train
slow = {{"torch_geometric", "torch._dynamo", "transformers", "matplotlib", "rdkit",
        "gsat.draw"}}
assert not slow & set(sys.modules), slow & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
