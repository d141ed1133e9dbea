"""``gsat train``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gsat.cli.app import YOUR_DATA, command
from gsat.cli.options import (
    Audit,
    BackboneOption,
    DatasetArgument,
    Device,
    Epochs,
    Json,
    MethodOption,
    Out,
    Quiet,
    RecipeFile,
    Set,
    Threads,
    all_settings,
    limit_option,
    set_threads,
)
from gsat.cli.output import (
    audit_line,
    member_progress,
    print_ending,
    print_source,
    short_audit,
)
from gsat.cli.own_data import read_own_data, table_options, table_settings
from gsat.core.errors import GSATError
from gsat.core.terminal import echo

if TYPE_CHECKING:
    from gsat.training.recipe import Recipe


@command(
    YOUR_DATA,
    "gsat train ba2motifs",
    "gsat train spmotif-0.5 --backbone pna --seed 3 --out runs/x",
    "gsat train molecules.csv",
    "gsat train molecules.csv --smiles structure --label logS --split random",
    'gsat train graphs.jsonl --set classes=\'["inactive", "active"]\'',
    "gsat train mutag --method gsat-star --seeds 5 --jobs 2",
    "gsat train molecules.csv --members 5 --jobs 2",
    "gsat train ba2motifs --set r_final=0.6 --epochs 50",
)
@limit_option
# --set takes every setting; these are options as well.
@table_options("smiles", "label", "id", "split", "task", "largest_fragment")
def train(
    dataset: DatasetArgument,
    backbone: BackboneOption = "",
    method: MethodOption = "gsat",
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Random seed of the split and the training. [default: 0]"),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Train seeds 0 … N−1 in OUT/seed-K.")
    ] = None,
    members: Annotated[
        int | None,
        typer.Option(min=1, help="Train an ensemble of N models on one split."),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(min=1, help="With --seeds or --members: runs to train in parallel."),
    ] = 1,
    recipe: RecipeFile = None,
    epochs: Epochs = None,
    set_: Set = None,
    out: Out = None,
    record: Annotated[
        Path | None, typer.Option(help="Append each finished run to this JSON-lines file.")
    ] = None,
    audit: Audit = True,
    device: Device = "cpu",
    threads: Threads = None,
    quiet: Quiet = False,
    json_: Json = False,
    **table: Any,
) -> None:
    """Train a model on a data set, on your own graphs or on a table of molecules.

    Data sets of the paper use the paper's settings.
    """
    set_threads(threads)
    from gsat.training import train as training
    from gsat.training.loop import TrainOptions
    from gsat.training.process_group import join_processes
    from gsat.training.recipe import make_recipe
    from gsat.training.results import read_runs, record_once
    from gsat.training.run_directory import new_run_folder

    settings = [
        *table_settings(dataset, table),
        *all_settings(set_, epochs),
        *([] if members is None else [f"members={members}"]),
    ]

    def recipe_of(number: int | None) -> Recipe:
        return make_recipe(
            dataset, backbone=backbone, method=method, seed=number, file=recipe, settings=settings
        )

    with join_processes() as processes:
        with processes.share_errors():
            if processes.size > 1 and (seeds is not None or members is not None or jobs > 1):
                raise GSATError(
                    f"torchrun shares one training among {processes.size} processes; leave "
                    "--seeds, --members and --jobs out, or run gsat without torchrun"
                )
            if record:
                read_runs(record)  # find a broken file before training, not after
            if (seeds is not None or jobs > 1) and (device != "cpu" or threads not in (None, 1)):
                raise GSATError(
                    "--seeds and --jobs train on the CPU with one thread per run; leave --device "
                    "and --threads out"
                )
            if seeds is not None:
                recipes = [recipe_of(number) for number in range(seeds)]
                if seed is not None or any(r.seed != k for k, r in enumerate(recipes)):
                    raise GSATError(
                        f"--seeds {seeds} trains seeds 0 to {seeds - 1}; set no other seed"
                    )
                if not json_:
                    read_own_data(recipes[0])
                _train_seeds(recipes, out, jobs, record, audit, quiet, json_)
                return
            chosen = recipe_of(seed)
            if jobs > 1 and chosen.members is None:
                raise GSATError("--jobs needs --seeds or --members")
            data = read_own_data(chosen) if processes.is_main and not json_ else None
        folder = out or new_run_folder(chosen)
        with member_progress(chosen, jobs, quiet) as done:
            options = TrainOptions(
                device=device, progress=not quiet, jobs=jobs, done=done, group=processes
            )
            run = training.train(chosen, folder, options, data=data)
        if processes.is_main:
            if record:
                record_once(record, run.record())
            print_ending(run, folder, json_, audit, quiet)


def _train_seeds(
    recipes: list[Recipe],
    out: Path | None,
    jobs: int,
    record: Path | None,
    audited: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Train several seeds in worker processes and print the mean of their metrics."""
    from gsat.launch.progress import Progress
    from gsat.training.many_runs import train_seeds
    from gsat.training.results import summarise
    from gsat.training.run import open_run
    from gsat.training.run_directory import run_label

    folder = out or Path("runs") / run_label(recipes[0])
    label = f"{recipes[0].data.label}, {len(recipes)} seeds"
    with Progress(label, quiet).start(len(recipes)) as bar:
        results = train_seeds(
            recipes,
            folder,
            jobs=jobs,
            record=record,
            done=lambda name, _: bar.advance(f"{name} done"),
        )
    runs = {recipe.seed: open_run(folder / f"seed-{recipe.seed}") for recipe in recipes}
    audits = {}
    for seed, run in runs.items() if audited else ():
        if (audit := short_audit(run, quiet)) is not None:
            audits[seed] = audit
    if as_json:
        for seed, result in zip(runs, results, strict=True):
            result |= {"audit": audits[seed]} if seed in audits else {}
        echo(json.dumps(results))
        return
    tests = [run.readable_metrics(run.test) for run in runs.values()]
    for title in tests[0]:
        spread = summarise([test.get(title) for test in tests])
        shown = "undefined" if spread is None else f"{spread[0]:.4f} ± {spread[1]:.4f}"
        echo(f"{title:<18} {shown}")
    echo(f"test, mean ± standard deviation over seeds 0 to {len(results) - 1} · {folder}")
    print_source(recipes[0])
    if audits:
        outcomes = {seed: audit["outcome"] for seed, audit in audits.items()}
        passed = list(outcomes.values()).count("passed")
        line = f"audit: {passed} of {len(audits)} audited seeds passed"
        if passed < len(audits):
            worst = min(audits, key=lambda s: ("failed", "mixed", "passed").index(outcomes[s]))
            line += f"; seed {worst}: {audit_line(audits[worst])}"
        echo(line)
