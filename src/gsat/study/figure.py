"""Figures of studies: bars of a table, curves over epochs, sweeps of a setting, example graphs."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gsat.core.errors import GSATError, RunError
from gsat.core.writing import check_suffix, write_output
from gsat.datasets.load import add_positions
from gsat.draw import ExampleRow, Line, Panel, draw_curves, draw_examples
from gsat.draw.curves import COLOURS
from gsat.draw.figure import PICTURES, new_figure, render
from gsat.draw.shapes import INK
from gsat.methods import METHODS
from gsat.metric_names import METRIC_TITLES
from gsat.metrics import explanation_auc
from gsat.study.records import BenchFolders, Record, Records
from gsat.study.render import metric_title
from gsat.study.study import ExamplePage, Figure, Study
from gsat.study.table import Section, measure, row_name
from gsat.training.recipe import load_data
from gsat.training.results import read_records, summarise
from gsat.training.run import load
from gsat.training.run_directory import RunDirectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

    from gsat.datasets.load import Dataset
    from gsat.explanation import Explanation


def draw_figure(
    study: Study,
    folders: BenchFolders,
    path: Path | None = None,
    hashes: Collection[str] | None = None,
) -> list[Path]:
    """Draw the figure of a study, or bars of its tables, from all records or certain recipes."""
    figure = study.figure or Figure(kind="bars")
    picture = path or folders.pictures / f"{study.name}.png"
    check_suffix(picture, PICTURES)
    chosen = {e.hash for e in study.experiments if hashes is None or e.hash in hashes}
    records = Records.read(folders.record).only(chosen)
    if figure.kind == "bars":
        draw_bars(study, measure(study, records, chosen), picture)
    elif figure.kind == "curves":
        curves = filter(records.matches, read_records(folders.curves))
        draw_curves(curve_panels(study, list(curves)), picture, columns=figure.columns)
    elif figure.kind == "sweep":
        draw_curves(sweep_panels(study, records), picture, columns=figure.columns)
    else:
        stem = path.with_suffix("") if path else folders.pictures / study.name.removeprefix("fig-")
        return _draw_examples(study, folders, records, chosen, stem, picture.suffix)
    return [picture]


# -- bars -----------------------------------------------------------------------------------------


def draw_bars(study: Study, sections: Sequence[Section], path: Path | None = None) -> Picture:
    """Draw the means of each table as bars with deviations, and published means as lines."""
    sections = [s for s in sections if any(c.ours or c.published for c in s.cells.values())]
    if not sections:
        raise GSATError(f"no run of {study.name} is recorded, and no number is published")
    names = list(dict.fromkeys(row_name(study, r) for s in sections for r in s.table.rows))
    width, high = 1.2 + 0.14 * len(study.datasets) * (len(names) + 2), 2.6
    legend = 0.25 * (len(names) // 4 + 1)
    figure = new_figure(max(width, 5.0), high * len(sections) + legend)
    panels = figure.subplots(len(sections), squeeze=False)[:, 0]
    for axes, section in zip(panels, sections, strict=True):
        for (number, dataset), cell in section.cells.items():
            place = names.index(row_name(study, section.table.rows[number]))
            x = study.datasets.index(dataset) + (place + 1) / (len(names) + 2)
            if cell.spread is not None:
                mean, std = cell.spread
                axes.bar(
                    x, mean, 0.9 / (len(names) + 2), yerr=std, align="edge",
                    color=COLOURS[place % len(COLOURS)], hatch="///"[: 3 * (place // len(COLOURS))],
                    ecolor=INK, error_kw={"elinewidth": 0.8}, label=names[place],
                )  # fmt: skip
            if cell.published is not None:
                right = x + 0.9 / (len(names) + 2)
                axes.hlines(cell.published[0], x, right, color=INK, label=study.published_by)
        centres = [number + 0.5 for number in range(len(study.datasets))]
        axes.set_xticks(centres, [study.title_of(d) for d in study.datasets], fontsize=8)
        axes.set_ylabel(metric_title(section.table.metric), fontsize=8.5, parse_math=False)
        axes.tick_params(labelsize=7.5)
    drawn = [
        pair for axes in panels for pair in zip(*axes.get_legend_handles_labels(), strict=True)
    ]
    entries = {text: handle for handle, text in drawn}
    figure.legend(
        entries.values(), entries.keys(), loc="lower center", ncols=4, fontsize=7.5, frameon=False
    )
    figure.tight_layout(rect=(0, legend / (high * len(sections) + legend), 1, 1))
    if path is not None:
        write_output(path, render(figure, check_suffix(path, PICTURES)))
    return figure


# -- curves and sweeps ----------------------------------------------------------------------------


def curve_panels(study: Study, curves: Sequence[Record]) -> list[Panel]:
    """Explanation AUC and training loss over epochs, in two panels for each data set.

    The AUC is that of validation graphs, which all methods log. Epochs are those of the method
    itself: the training of the network that a post-hoc method explains is left out.
    """
    assert study.figure is not None
    panels = []
    for dataset in study.datasets:
        auc, loss = [], []
        for method in study.figure.methods:
            recipe = study.point(dataset, method).hash
            runs = [run["phases"] for run in curves if run["recipe_hash"] == recipe]
            phases = [list(logged.values())[-1] for logged in runs]
            title = METHODS[method].title
            auc.append(_over_epochs(title, [phase.get("valid_auc", []) for phase in phases]))
            loss.append(_over_epochs(title, [phase.get("loss", []) for phase in phases]))
        title, epoch, label = study.title_of(dataset), "epoch", "explanation AUC\n(validation)"
        panels += [
            Panel(title, epoch, label, [line for line in auc if line.x], y_range=(0, 1.03)),
            Panel(title, epoch, "training loss", [line for line in loss if line.x], y_scale="log"),
        ]
    panels = [panel for panel in panels if panel.lines]
    if not panels:
        raise GSATError(f"no curves of {study.name} are recorded")
    return panels


def sweep_panels(study: Study, records: Records) -> list[Panel]:
    """Metrics of the test data over the values of a setting, in a panel for each sweep."""
    figure = study.figure
    assert figure is not None
    panels = []
    for dataset in study.datasets:
        for sweep in figure.sweep:
            lines = []
            for method in figure.methods:
                places = [(v, study.point(dataset, method, sweep, v)) for v in sorted(sweep.values)]
                runs = {v: records.of(point) for v, point in places if records.of(point).done}
                for metric in figure.metrics:
                    spread = [summarise(some.values(metric).values()) for some in runs.values()]
                    name = METRIC_TITLES.get(metric, metric)
                    several = len(figure.methods) > 1
                    name = f"{METHODS[method].title}, {name}" if several else name
                    lines.append(_line(name, list(runs), spread))
            lines = [line for line in lines if line.x]
            axis = sweep.title or sweep.setting
            title, limits = study.title_of(dataset), (0, 1.03)
            panels.append(Panel(title, axis, "test set", lines, sweep.scale, y_range=limits))
    panels = [panel for panel in panels if panel.lines]
    if not panels:
        raise GSATError(f"no run of {study.name} is recorded")
    return panels


def _over_epochs(name: str, runs: Sequence[Sequence[float | None]]) -> Line:
    """Mean and deviation over the runs at each epoch that all of them have."""
    spread = [summarise(values) for values in zip(*runs, strict=False)]
    return _line(name, range(1, len(spread) + 1), spread)


def _line(name: str, x: Sequence[float], spread: Sequence[tuple[float, float] | None]) -> Line:
    means = [None if s is None else s[0] for s in spread]
    return Line(name, x, means, [None if s is None else s[1] for s in spread])


# -- examples -------------------------------------------------------------------------------------


def _draw_examples(
    study: Study,
    folders: BenchFolders,
    records: Records,
    hashes: Collection[str],
    stem: Path,
    suffix: str,
) -> list[Path]:
    """Draw a page of example graphs for each data set with trained runs of seed 0."""
    assert study.figure is not None
    pictures = []
    for dataset in study.datasets:
        points = [study.point(dataset, method) for method in study.figure.methods]
        runs = [
            finished[0]
            for point in points
            if point.hash in hashes
            and 0 in (finished := folders.finished(point, records.of(point).data_hash))
        ]
        if runs:
            pictures.append(stem.with_name(f"{stem.name}-{Path(dataset).name}{suffix}"))
            page = study.figure.pages.get(dataset, ExamplePage())
            draw_run_examples(runs, pictures[-1], page)
    if not pictures:
        raise GSATError(f"there are no finished runs in {folders.runs} to take examples from")
    return pictures


def draw_run_examples(
    runs: Sequence[str | Path], path: str | Path | None = None, page: ExamplePage | None = None
) -> Picture:
    """Draw the explanations of several runs for the same test graphs, one row per run."""
    page = page or ExamplePage()
    recipes = [RunDirectory.open(run).recipe for run in runs]
    for run, recipe in zip(runs, recipes, strict=True):
        if recipe.data != recipes[0].data or recipe.split_seed != recipes[0].split_seed:
            raise RunError(
                f"{run} was trained on other data, or another split, than {runs[0]}; examples need "
                "runs of one data set and seed"
            )
    data = load_data(recipes[0])
    numbers = _first_of_each_class(data, page)
    if not numbers:
        raise GSATError(f"no test graph of {data.name} has at most {page.most_nodes} nodes")
    meta = data.test.meta
    rows = []
    for run, recipe in zip(runs, recipes, strict=True):
        explained = [add_positions(e, meta) for e in load(run).explain(data.test.select(numbers))]
        rows.append(ExampleRow(METHODS[recipe.method].title, explained, _captions(explained)))
    first = rows[0].explanations
    if all(e.get("edge_truth") is not None for e in first):
        rows.insert(0, ExampleRow("truth", [_as_truth(e) for e in first], scored=False))
    titles = [_class(e, meta.get("classes") or page.classes) for e in first]
    return draw_examples(
        rows,
        path,
        titles=titles if any(titles) else None,
        node_types=meta.get("node_types"),
        columns=page.columns,
    )


def _first_of_each_class(data: Dataset, page: ExamplePage) -> list[int]:
    """Numbers of test graphs: the first small ones of every class, by class."""
    store = data.test
    seen: dict[str, int] = {}
    ranked = []
    for number, label in enumerate(store.per_graph("y").reshape(len(store), -1)[:, 0].tolist()):
        if page.most_nodes is None or store.node_counts[number] <= page.most_nodes:
            turn = seen[str(label)] = seen.get(str(label), -1) + 1
            ranked.append((turn, str(label), number))
    chosen = sorted(ranked)[: page.graphs]
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
