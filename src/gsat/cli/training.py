"""`gsat train`, `gsat resume` and `gsat demo`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gsat.cli.app import app, print_error
from gsat.errors import GSATError

if TYPE_CHECKING:
    from gsat.training.recipe import Recipe

Out = Annotated[Path | None, typer.Option("--out", help="Run directory (a new one in runs/).")]
Device = Annotated[str, typer.Option(help="Where to compute: cpu, cuda, cuda:1, …")]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads of one run (1).")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

Backbone = Annotated[str, typer.Option(help="The network: gin, pna, leconv.")]
RecipeFile = Annotated[Path | None, typer.Option(help="A TOML file over the shipped recipe.")]
Epochs = Annotated[int | None, typer.Option(min=1, help="Short for --set epochs=N.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting.")
]


@app.command()
def train(
    dataset: Annotated[
        str,
        typer.Argument(
            help="A data set (see: gsat datasets), or graphs of your own: a .jsonl file, a TU "
            "folder or zip, a folder of saved graphs."
        ),
    ],
    backbone: Backbone = "gin",
    method: Annotated[str, typer.Option(help="How to train it; see: gsat methods")] = "gsat",
    seed: Annotated[
        int | None, typer.Option(min=0, help="Decides the split and the training (0).")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Train seeds 0 … N−1, in OUT/seed-K.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="With --seeds: how many at a time.")] = 1,
    recipe: RecipeFile = None,
    epochs: Epochs = None,
    set_: Set = None,
    out: Out = None,
    record: Annotated[
        Path | None, typer.Option(help="Append each finished run to this JSON-lines file.")
    ] = None,
    device: Device = "cpu",
    threads: Threads = None,
    quiet: Quiet = False,
    json_: Json = False,
) -> None:
    """Train on a data set by the paper's recipe for it."""
    _set_threads(threads)
    from gsat.training.process_group import join_processes
    from gsat.training.recipe import make_recipe
    from gsat.training.results import read_runs, record_once
    from gsat.training.train import train as train_recipe

    settings = [*(set_ or []), *([f"epochs={epochs}"] if epochs else [])]

    def made(number: int | None) -> Recipe:
        return make_recipe(
            dataset, backbone=backbone, method=method, seed=number, file=recipe, settings=settings
        )

    with join_processes() as group:
        with group.share_errors():
            if group.size > 1 and (seeds is not None or jobs > 1):
                raise GSATError(
                    f"torchrun shares one training among {group.size} processes; leave --seeds and "
                    "--jobs out, or run gsat without torchrun"
                )
            if record:
                read_runs(record)  # a broken file is better known before training than after
            if seeds is not None:
                if device != "cpu" or threads not in (None, 1):
                    raise GSATError(
                        "--seeds trains on the CPU with one thread per run; "
                        "leave --device and --threads out"
                    )
                recipes = [made(k) for k in range(seeds)]
                if seed is not None or any(r.seed != k for k, r in enumerate(recipes)):
                    raise GSATError(
                        f"--seeds {seeds} trains seeds 0 to {seeds - 1}; set no other seed"
                    )
                _train_seeds(recipes, out, jobs, record, quiet, json_)
                return
            if jobs > 1:
                raise GSATError("--jobs says how many of the --seeds to train at a time; give both")
            chosen = made(seed)
        folder = out or _new_folder(chosen)
        run = train_recipe(chosen, folder, device=device, progress=not quiet)
        if group.is_main:
            if record:
                record_once(record, run.record())
            _show(run.result, folder, json_)


@app.command()
def resume(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    device: Device = "cpu",
    threads: Threads = None,
    quiet: Quiet = False,
    json_: Json = False,
) -> None:
    """Go on with a run exactly where it stopped."""
    from gsat.training.process_group import join_processes
    from gsat.training.run_directory import RunDirectory
    from gsat.training.train import resume as resume_run

    with join_processes() as group:
        with group.share_errors():
            # Sums differ in the last bit between thread counts: the run's own count is taken.
            _set_threads(threads or RunDirectory.open(run).environment.get("threads", 1))
        finished = resume_run(run, device=device, progress=not quiet, warn=print_error)
        if group.is_main:
            _show(finished.result, run, json_)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the run and the picture.")] = Path("demo"),
    epochs: Annotated[int, typer.Option(min=1, help="Epochs to train.")] = 100,
    quiet: Quiet = False,
) -> None:
    """Train on BA-2Motifs and draw what was found.

    A minute or two from nothing to a picture.
    """
    _set_threads(1)
    from gsat.datasets.load import load_dataset
    from gsat.draw import draw_grid
    from gsat.training.recipe import make_recipe
    from gsat.training.train import train as train_recipe

    folder = _unused(out)
    typer.echo("BA-2Motifs: does a graph carry a house or a five-cycle, and which edges say so?")
    recipe = make_recipe("ba2motifs", settings={"epochs": epochs})
    run = train_recipe(recipe, folder / "run", progress=not quiet)
    data = load_dataset("ba2motifs")
    labels = data.test.per_graph("y")[:, 0]
    shown = [int(i) for c in (0, 1) for i in (labels == c).nonzero()[0][:4]]
    picture = folder / "explained.png"
    draw_grid(
        run.model.explain(data.test.select(shown)), picture, class_names=data.store.meta["classes"]
    )
    _show(run.result, folder / "run", as_json=False)
    typer.echo(f"picture of explained graphs: {picture}")


def _train_seeds(
    recipes: list[Recipe],
    out: Path | None,
    jobs: int,
    record: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    from gsat.launch.progress import Progress
    from gsat.training.many_runs import train_seeds

    first = recipes[0]
    folder = out or Path("runs") / _label(first)
    bar = Progress(f"{first.data.label}, {len(recipes)} seeds", quiet)
    bar.start(len(recipes))
    try:
        results = train_seeds(
            recipes,
            folder,
            jobs=jobs,
            record=record,
            done=lambda name, _: bar.advance(f"{name} done"),
        )
    finally:
        bar.stop()
    if as_json:
        typer.echo(json.dumps(results))
        return
    for name in results[0]["test"]:
        if name in _SHOWN:
            typer.echo(f"{_SHOWN[name]:<18} {_spread([r['test'][name] for r in results])}")
    typer.echo(f"test, mean ± standard deviation over seeds 0 to {len(results) - 1} · {folder}")


_SHOWN = {
    "accuracy": "accuracy",
    "roc_auc": "ROC AUC",
    "r2": "R²",
    "mae": "MAE",
    "explanation_auc": "explanation AUC",
    "precision_at_5": "precision@5",
}


def _spread(values: list[float | None]) -> str:
    from gsat.training.results import summarise

    spread = summarise(values)
    return "undefined" if spread is None else f"{spread[0]:.4f} ± {spread[1]:.4f}"


def show_metrics(split: str, measured: dict[str, Any]) -> None:
    """A line per metric, for people."""
    for name, label in _SHOWN.items():
        if name in measured:
            value = measured[name]
            shown = "undefined" if value is None else f"{value:.4f}"
            typer.echo(f"{split} {label:<18} {shown}")


def _show(result: dict[str, Any], folder: Path, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(result))
        return
    from gsat.methods import METHODS

    reports = METHODS[result["method"]].reports
    if "pretrained" in result:
        before = result["pretrained"]["test"]
        known = {name: value for name, value in before.items() if value is not None}
        show_metrics("explained model:" if reports == "last" else "before fine-tuning:", known)
    show_metrics("test", result["test"])
    epoch = f"best epoch {result['best_epoch']}"
    if result["selected"] == "last":
        epoch = f"last epoch {result['best_epoch']}"
        if reports == "best":
            epoch += " (too few epochs to choose the best)"
    typer.echo(f"{epoch} · {result['seconds']:.0f} s · {folder}")


def _label(recipe: Recipe) -> str:
    return f"{recipe.data.label}-{recipe.backbone.name}-{recipe.method}"


def _new_folder(recipe: Recipe) -> Path:
    return _unused(Path("runs") / f"{_label(recipe)}-seed-{recipe.seed}")


def _unused(path: Path) -> Path:
    """The path, or the first of path-2, path-3, … that does not exist."""
    candidate, number = path, 2
    while candidate.exists():
        candidate, number = path.with_name(f"{path.name}-{number}"), number + 1
    return candidate


def _set_threads(threads: int | None) -> None:
    import torch

    torch.set_num_threads(threads or 1)
