"""`gsat evaluate`, `predict` and `explain`: look at what a run learnt."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gsat.cli.app import app
from gsat.cli.training import Json, show_metrics
from gsat.errors import DataError, GSATError

if TYPE_CHECKING:
    from gsat.explanation import Explanation
    from gsat.graphs import GraphStore
    from gsat.models import InterpretableModel

RunFolder = Annotated[Path, typer.Argument(help="A run directory.")]
Split = Annotated[
    str, typer.Option(help="train, valid, test or all; graphs at a path are taken whole.")
]
Data = Annotated[
    str | None,
    typer.Argument(help="A data set's name or a path of graphs (the run's own data)."),
]


@app.command()
def evaluate(run: RunFolder, data: Data = None, split: Split = "test", json_: Json = False) -> None:
    """Measure a run's predictions and explanations.

    Accuracy, ROC AUC, or R² and MAE; explanation AUC and precision@5 where the truth is known.
    """
    import gsat
    from gsat.datasets.registry import is_path
    from gsat.training.evaluation import evaluate_model

    model = gsat.load(run)
    store, _ = _graphs(run, data, split, model)
    measured = evaluate_model(model, store)
    if json_:
        typer.echo(json.dumps(measured))
        return
    show_metrics("all" if data is not None and is_path(data) else split, measured)


@app.command()
def predict(
    run: RunFolder,
    data: Data = None,
    split: Split = "test",
    out: Annotated[Path | None, typer.Option(help="A CSV file (standard output).")] = None,
) -> None:
    """Predict graphs or nodes, as CSV.

    A line per graph (or node) with the answer and the probability of each class.
    """
    import numpy as np

    import gsat

    model = gsat.load(run)
    store, meta = _graphs(run, data, split)
    answers = model.predict(store)
    classes = list(range(answers.probabilities.shape[1]))
    if classes and len(meta.get("classes") or ()) == len(classes):
        classes = meta["classes"]
    labels = answers.labels if answers.labels.ndim > 1 else answers.labels[:, None]
    level = model.task.level
    numbers = store.target_places() if level == "node" else (np.arange(len(store)),)
    places = np.stack(numbers, axis=1).tolist()
    table = io.StringIO()
    lines = csv.writer(table, lineterminator="\n")
    lines.writerow(
        [
            *(("graph", "node") if level == "node" else ("graph",)),
            *_numbered("prediction", labels.shape[1]),
            *(f"p({c})" for c in classes),
        ]
    )
    rows = zip(places, labels.tolist(), answers.probabilities.tolist(), strict=True)
    for place, label, probability in rows:
        lines.writerow([*place, *map(_written, label), *(f"{p:.6f}" for p in probability)])
    if out is None:
        typer.echo(table.getvalue(), nl=False)
        return
    from gsat.draw.files import write

    write(out, table.getvalue().encode())
    typer.echo(f"{len(labels)} {level}s · {out}")


@app.command()
def explain(
    run: RunFolder,
    data: Data = None,
    graph: Annotated[int | None, typer.Option(help="Number of a graph within the split.")] = None,
    node: Annotated[
        int | None, typer.Option(help="Number of a node, where nodes have answers (of graph 0).")
    ] = None,
    split: Split = "test",
    top: Annotated[
        str | None, typer.Option(help="Show the best edges: a number (6) or a share (20%).")
    ] = None,
    above: Annotated[
        float | None, typer.Option(min=0, max=1, help="Show the edges above a probability.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="One graph: .svg .png .pdf .json .html; a whole split: .npz"),
    ] = None,
    json_: Json = False,
) -> None:
    """Say which edges a run's model used.

    For one graph in words, a picture or a page; for a whole split as arrays.
    """
    import gsat
    from gsat.draw.caption import answer
    from gsat.draw.files import PICTURES, check_suffix

    if top is not None and above is not None:
        raise GSATError("--top and --above both set a budget; give one of them")
    if json_ and out is not None:
        raise GSATError(f"--json prints, and --out {out} writes a file; give one of them")
    model = gsat.load(run)
    if node is not None and graph is None:
        graph = 0
    if graph is not None and out is not None:
        check_suffix(out, (*PICTURES, ".json", ".html"))
    store, meta = _graphs(run, data, split, model)
    if graph is None:
        if out is None or out.suffix != ".npz" or top is not None or above is not None:
            raise GSATError("say which graph with --graph N, or give --out FILE.npz for all scores")
        from gsat.draw import write_scores_npz

        logits, scores = model.score_edges(store)
        level = model.task.level
        write_scores_npz(out, store, scores.numpy(), logits=logits.numpy(), level=level)
        typer.echo(f"{len(store)} graphs, {len(scores)} edges · {out}")
        return
    if graph < 0:  # Python's counting from the end has no place on a command line
        raise GSATError(f"there is no graph {graph}: the graphs are 0 to {len(store) - 1}")
    explanation = model.explain(store.select([graph]))[0]
    if node is not None:
        explanation = explanation.of_node(node)
    chosen = _budget(explanation, top, above)
    if json_:
        typer.echo(json.dumps(_subgraph(explanation, top, above).as_dict()))
        return
    typer.echo(answer(explanation, meta.get("classes")) or "a graph whose nodes have answers")
    typer.echo(explanation.message)
    if chosen == 0:
        highest = float(explanation.edge_mask.max()) if len(explanation.edge_mask) else 0.0
        typer.echo(f"no edge is above {above:g}; the highest is at {highest:.3f}")
        return
    if out is not None:
        from gsat.datasets.load import add_positions
        from gsat.draw import write_explanation

        write_explanation(
            add_positions(explanation, meta),
            out,
            top=chosen,
            node_types=meta.get("node_types"),
            class_names=meta.get("classes"),
        )
        typer.echo(str(out))
    elif explanation.found:
        _print_edges(_subgraph(explanation, top, above))


def _budget(explanation: Explanation, top: str | None, above: float | None) -> int | None:
    from gsat.explanation import parse_budget

    if top is not None:
        return parse_budget(top, explanation.num_units)
    return None if above is None else explanation.above(above).num_units


def _subgraph(explanation: Explanation, top: str | None, above: float | None) -> Explanation:
    if top is not None:
        return explanation.top(top)
    return explanation if above is None else explanation.above(above)


def _print_edges(explanation: Explanation) -> None:
    """Edges, best first; both directions of an undirected edge once. Nodes that are words are
    shown with them."""
    unit, score = explanation.units()
    words = (explanation.get("words") or "").split("\0")
    ends: dict[int, tuple[int, int]] = {}
    number = explanation.get("node_id")
    for position, (u, v) in enumerate(explanation.edge_index.T.tolist()):
        pair = (u, v) if number is None else (int(number[u]), int(number[v]))
        ends.setdefault(int(unit[position]), pair)
    arrow = "–" if explanation.undirected else "→"
    order = score.argsort(descending=True, stable=True).tolist()
    truth = explanation.get("edge_truth")
    for at in order:
        u, v = ends[at]
        true = truth is not None and bool(truth[(unit == at).nonzero()[0, 0]])
        shown = [f"{n} {words[n]}" if len(words) > 1 else str(n) for n in (u, v)]
        typer.echo(f"{score[at]:.3f}  {shown[0]} {arrow} {shown[1]}{'  (true)' if true else ''}")


def _graphs(
    run: Path, data: str | None, split: str, model: InterpretableModel | None = None
) -> tuple[GraphStore, dict[str, Any]]:
    """The graphs to look at, and what is known about their classes and node types.

    Labels of graphs at a path are read as those of the ``model``; without it, they do not count.
    """
    from gsat.datasets.labels import for_task
    from gsat.datasets.load import load_dataset
    from gsat.datasets.registry import full_name, is_path
    from gsat.training.run_directory import RunDirectory
    from gsat.training.train import load_data

    recipe = RunDirectory.open(run).recipe
    if data is not None and is_path(data):
        from gsat.datasets.own_data import read
        from gsat.graphs.validation import validate_graphs

        store, classes = read(Path(full_name(data))), recipe.data.options.get("classes") or []
        validate_graphs(store, name=data)
        if model is not None:
            model.check_fits(store)
            store = for_task(store, model.task, classes)
        return store, {**store.meta, "classes": classes or store.meta.get("classes")}
    loaded = load_data(recipe) if data is None else load_dataset(data, seed=recipe.split_seed)
    store = loaded.split(split)
    if not len(store):
        raise DataError(f"the split '{split}' of {loaded.name} is empty")
    return store, store.meta


def _written(value: float) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _numbered(name: str, count: int) -> list[str]:
    return [name] if count == 1 else [f"{name}_{i}" for i in range(count)]
