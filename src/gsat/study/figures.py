"""The paper's figures from runs: curves over epochs, sweeps of the regulariser, example graphs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gsat.core.errors import GSATError, RunError
from gsat.datasets.load import add_positions
from gsat.draw import ExampleRow, Line, Panel, draw_curves, draw_examples
from gsat.methods import METHODS
from gsat.metrics import explanation_auc
from gsat.study.bench_folders import BenchFolders
from gsat.study.records import Record, RecordedRuns, Records, is_current
from gsat.study.study import Experiment, Study
from gsat.study.tables import L1_SWEEP, R_SWEEP
from gsat.training.recipe import load_data
from gsat.training.results import read_records, summarise
from gsat.training.run import load
from gsat.training.run_directory import RunDirectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gsat.datasets.load import Dataset
    from gsat.explanation import Explanation

TITLES = {"ba2motifs": "BA-2Motifs", "mutag": "Mutag", "mnist75sp": "MNIST-75sp"}
# Names of classes that their data do not have.
CLASSES = {"ogbg-molhiv": ("inactive", "active")}
# How many graphs a page of examples shows, and how many side by side; 6 in one row elsewhere.
PAGES = {"mnist75sp": (10, 5), "graph-sst2": (6, 2), "mutag": (4, 4), "ogbg-molhiv": (4, 4)}
# Graphs of hundreds of nodes can't be read at the size of a page's pictures.
MOST_NODES = dict.fromkeys(("spmotif-0.5", "spmotif-0.7", "spmotif-0.9"), 80)
POSTHOC = ("gsat", "gnnexplainer", "pgexplainer", "graphmask")


def posthoc_curves(
    curves: Iterable[Record],
    *,
    datasets: Sequence[str] = ("ba2motifs", "mutag"),
    methods: Sequence[str] = POSTHOC,
    recipes: Collection[str] | None = None,
) -> list[Panel]:
    """Explanation AUC and training loss over epochs, in two panels for each data set.

    The AUC is that of validation graphs, which all methods log. Epochs are those of the method
    itself: the training of the network that a post-hoc method explains is left out.
    """
    known = [
        run
        for run in curves
        if is_current(run) and (recipes is None or run["recipe_hash"] in recipes)
    ]
    panels = []
    for dataset in datasets:
        auc, loss = [], []
        for method in methods:
            runs = [
                run
                for run in known
                if (run["dataset"], run["method"], run["backbone"]) == (dataset, method, "gin")
            ]
            if len({run["recipe_hash"] for run in runs}) > 1:
                raise GSATError(
                    f"{dataset} has runs of {method} by several recipes; choose with recipes="
                )
            title = METHODS[method].title
            phases = [list(run["phases"].values())[-1] for run in runs]
            auc.append(_over_epochs(title, [phase.get("valid_auc", []) for phase in phases]))
            loss.append(_over_epochs(title, [phase.get("loss", []) for phase in phases]))
        name, epoch = _title(dataset), "epoch"
        panels += [
            Panel(name, epoch, "explanation AUC\n(validation)", [a for a in auc if a.x],
                  y_range=(0, 1.03)),
            Panel(name, epoch, "training loss", [a for a in loss if a.x], y_scale="log"),
        ]  # fmt: skip
    panels = [panel for panel in panels if panel.lines]
    if not panels:
        raise GSATError(f"no curves are recorded of {', '.join(methods)} on {', '.join(datasets)}")
    return panels


def regulariser_curves(
    records: Records,
    *,
    datasets: Sequence[str] = ("spmotif-0.5", "spmotif-0.7", "spmotif-0.9"),
    backbone: str = "gin",
) -> list[Panel]:
    """Explanation AUC and accuracy over r, and over the weight λ₁ of the ℓ₁ norm."""
    panels = []
    for dataset in datasets:
        by_r, by_weight = (
            _sweep(
                {
                    value: records.of(Experiment(dataset, "gsat", backbone, settings))
                    for value, settings in points.items()
                }
            )
            for points in (R_SWEEP, L1_SWEEP)
        )
        name, axis = _title(dataset), "AUC, accuracy (test)"
        both = [
            Panel(name, "r", axis, by_r, y_range=(0, 1.03)),
            Panel(name, "λ₁ (ℓ₁ norm)", axis, by_weight, "log", y_range=(0, 1.03)),
        ]
        panels += [panel for panel in both if panel.lines[0].x]
    if not panels:
        raise GSATError(f"no sweep of r or λ₁ is recorded on {', '.join(datasets)}")
    return panels


def draw_run_examples(
    runs: Sequence[str | Path],
    path: str | Path | None = None,
    *,
    graphs: Sequence[int] | None = None,
    count: int = 6,
    columns: int | None = None,
    split: str = "test",
    truth: bool = False,
    most_nodes: int | None = None,
) -> Figure:
    """Draw the explanations of several runs for the same graphs, one row per run."""
    if not runs:
        raise GSATError("there is no run to take examples from: give at least one")
    recipes = [RunDirectory.open(run).recipe for run in runs]
    for run, recipe in zip(runs, recipes, strict=True):
        first = recipes[0]
        if recipe.data != first.data or recipe.split_seed != first.split_seed:
            raise RunError(
                f"{run} was trained on other data, or another split, than {runs[0]}; examples need "
                "runs of one data set and seed"
            )
    data = load_data(recipes[0])
    store = data.split(split)
    chosen = _first_of_each_class(data, split, count, most_nodes) if graphs is None else graphs
    numbers = list(chosen)
    if not numbers:
        raise GSATError(f"no graph of the split '{split}' has at most {most_nodes} nodes")
    meta = store.meta
    rows = []
    for run, recipe in zip(runs, recipes, strict=True):
        explained = [add_positions(e, meta) for e in load(run).explain(store.select(numbers))]
        rows.append(ExampleRow(METHODS[recipe.method].title, explained, _captions(explained)))
    shown = rows[0].explanations
    if truth and all(e.get("edge_truth") is not None for e in shown):
        rows.insert(0, ExampleRow("truth", [_as_truth(e) for e in shown], scored=False))
    names = meta.get("classes") or CLASSES.get(recipes[0].data.name)
    titles = [_class(e, names) for e in shown]
    return draw_examples(
        rows,
        path,
        titles=titles if any(titles) else None,
        node_types=meta.get("node_types"),
        columns=columns,
    )


def draw_figure(study: Study, folders: BenchFolders) -> list[Path]:
    """Draw a figure of the paper from what was recorded."""
    picture = folders.pictures / f"{study.name}.png"
    datasets = list(dict.fromkeys(experiment.dataset for experiment in study.experiments))
    records = Records.read(folders.record)
    if study.name == "fig-posthoc":
        hashes = {experiment.hash for experiment in study.experiments}
        curves = filter(records.matches, read_records(folders.curves))
        draw_curves(posthoc_curves(curves, datasets=datasets, recipes=hashes), picture)
        return [picture]
    if study.name == "fig-regulariser":
        panels = regulariser_curves(records, datasets=datasets)
        draw_curves(panels, picture, columns=2)
        return [picture]
    found: dict[str, list[Path]] = {}
    for experiment in study.experiments:
        run = folders.finished(experiment, records.of(experiment).data_hash).get(0)
        if run is not None:
            found.setdefault(experiment.dataset, []).append(run)
    if not found:
        raise GSATError(f"there are no finished runs in {folders.runs} to take examples from")
    pictures = []
    for dataset, runs in found.items():
        pictures.append(folders.pictures / f"examples-{dataset}.png")
        count, columns = PAGES.get(dataset, (6, None))
        most = MOST_NODES.get(dataset)
        draw_run_examples(
            runs, pictures[-1], count=count, columns=columns, truth=True, most_nodes=most
        )
    return pictures


def _title(dataset: str) -> str:
    name, _, bias = dataset.partition("-")
    return f"Spurious-Motif, b = {bias}" if name == "spmotif" else TITLES.get(dataset, dataset)


def _over_epochs(name: str, runs: Sequence[Sequence[float | None]]) -> Line:
    """Mean and deviation over the runs at each epoch that all of them have."""
    spread = [summarise(values) for values in zip(*runs, strict=False)]
    return _line(name, range(1, len(spread) + 1), spread)


def _sweep(runs: Mapping[float, RecordedRuns]) -> list[Line]:
    """Explanation AUC and accuracy over the values that have runs."""
    values = sorted(value for value, found in runs.items() if found.done)
    return [
        _line(name, values, [summarise(runs[value].values(metric).values()) for value in values])
        for name, metric in (("explanation AUC", "explanation_auc"), ("accuracy", "accuracy"))
    ]


def _line(name: str, x: Sequence[float], spread: Sequence[tuple[float, float] | None]) -> Line:
    means = [None if s is None else s[0] for s in spread]
    return Line(name, x, means, [None if s is None else s[1] for s in spread])


def _first_of_each_class(
    data: Dataset, split: str, count: int, most_nodes: int | None
) -> list[int]:
    """Numbers of ``count`` graphs of the split: the first small ones of every class, by class."""
    store = data.split(split)
    seen: dict[str, int] = {}
    ranked = []
    for number, label in enumerate(store.per_graph("y").reshape(len(store), -1)[:, 0].tolist()):
        if most_nodes is not None and store.node_counts[number] > most_nodes:
            continue
        turn = seen[str(label)] = seen.get(str(label), -1) + 1
        ranked.append((turn, str(label), number))
    chosen = sorted(ranked)[:count]
    return [number for _, number in sorted((label, number) for _, label, number in chosen)]


def _captions(explained: Sequence[Explanation]) -> list[str]:
    """The AUC of each explanation, and whether no edge stands out; none if all would be empty."""
    aucs = [
        None if e.get("edge_truth") is None else explanation_auc(e.edge_mask, e.edge_truth)
        for e in explained
    ]
    parts = [
        ["" if auc is None else f"AUC {auc:.2f}", "" if e.found else "no edge stands out"]
        for e, auc in zip(explained, aucs, strict=True)
    ]
    captions = [", ".join(filter(None, texts)) for texts in parts]
    return captions if any(captions) else []


def _as_truth(explanation: Explanation) -> Explanation:
    """The graph with the ground truth in place of the model's scores."""
    out = explanation.clone()
    out.edge_mask = explanation.edge_truth.to(explanation.edge_mask.dtype)
    for name in ("node_mask", "r"):
        if name in out:
            del out[name]
    return out


def _class(explanation: Explanation, names: Sequence[str] | None) -> str:
    """The name of a graph's class; empty where it has none."""
    y = explanation.get("y")
    if y is None or y.numel() != 1 or math.isnan(float(y)):
        return ""
    label = int(y)
    return names[label] if names is not None and label < len(names) else f"class {label}"
