"""``gsat bench``: the paper's tables and figures from real runs."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gsat.cli.app import PAPER, GroupedCommands, app, examples, print_error
from gsat.cli.options import Quiet, parse_time
from gsat.core.errors import GSATError

if TYPE_CHECKING:
    from gsat.launch.pool import PoolResult
    from gsat.study.bench_folders import BenchFolders
    from gsat.study.plan import RunPlan, RunRequest
    from gsat.study.study import Experiment, Study

RECORD = Path("results/runs.jsonl")

bench = typer.Typer(
    cls=GroupedCommands,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Run and show the paper's tables and figures.",
    epilog=examples(
        "gsat bench list",
        "gsat bench run table1 --only dataset=ba2motifs --seeds 2 --jobs 2",
        "gsat bench show table1 --format markdown",
        "gsat bench verify",
    ),
)
app.add_typer(bench, name="bench", rich_help_panel=PAPER)

Studies = Annotated[list[str], typer.Argument(metavar="STUDY", help="Tables and figures, or: all.")]
Seeds = Annotated[int, typer.Option(min=1, help="Seeds 0 … N−1 of every run.")]
Only = Annotated[
    str, typer.Option(metavar="KEY=VALUE,…", help="Only some: dataset, method, backbone, variant.")
]
Format = Annotated[
    str, typer.Option("--format", help="How to show tables: text, markdown, html or latex.")
]
Statistics = Annotated[
    bool, typer.Option("--statistics", help="Compare methods over the seeds that both have.")
]
Stability = Annotated[
    bool,
    typer.Option(
        "--stability", help="Compare explanations between seeds; needs the folders of the runs."
    ),
]
RunsFolder = Annotated[Path, typer.Option("--out", help="Folder of the runs.")]
Record = Annotated[Path, typer.Option(help="JSON-lines file of finished runs.")]


@bench.command("list", epilog=examples("gsat bench list"))
def list_studies(record: Record = RECORD) -> None:
    """List the tables and figures, and how much of each was run."""
    from gsat.study.records import Records
    from gsat.study.tables import STUDIES
    from gsat.training.results import read_runs

    run = {recipe for recipe, runs in Records(read_runs(record)).items() if runs.done}
    for study in STUDIES.values():
        hashes = {e.hash for e in study.experiments}
        typer.echo(
            f"{study.name:<16} {study.title} · {len(hashes & run)} of {len(hashes)} have runs"
        )


@bench.command(
    "run",
    epilog=examples(
        "gsat bench run table1 --seeds 3 --dry-run",
        "gsat bench run table1 --only dataset=ba2motifs --seeds 2 --jobs 2",
        "gsat bench run all --seeds 3 --jobs 2 --budget 8h",
        "gsat bench run table1 --backend ray --address auto",
    ),
)
def run_studies(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="STUDY", help="Tables and figures, or: all.")
    ] = None,
    schedule: Annotated[
        Path | None,
        typer.Option("--plan", hidden=True),
    ] = None,
    seeds: Seeds = 10,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many runs at the same time, a thread each. [default: 1; with Ray: all CPUs]",
        ),
    ] = None,
    only: Only = "",
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop cleanly after 2h, 90m, 1h30m, …")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would run, and how long it should take.")
    ] = False,
    backend: Annotated[
        str,
        typer.Option("--backend", "--engine", help="Worker processes here (local), or ray."),
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(help="Of a Ray cluster. [default: RAY_ADDRESS, or a new one on this machine]"),
    ] = None,
    format_: Format = "text",
    statistics: Statistics = False,
    stability: Stability = False,
    out: RunsFolder = Path("runs/bench"),
    record: Record = RECORD,
    quiet: Quiet = False,
) -> None:
    """Run what is missing of a table or figure, then show it.

    What is recorded is not run again, so after an interruption the same command continues.
    """
    if schedule is not None:
        raise GSATError(
            "'gsat bench run --plan' has moved: in a checkout of the repository, run: "
            f"python -m paper schedule {schedule}"
        )
    if not names:
        raise GSATError("name tables and figures to run, or: all")
    begun = time.monotonic()
    _check_format(format_)
    if backend not in ("local", "ray"):
        raise GSATError(f"--backend is local or ray, not '{backend}'")
    if address is not None and backend != "ray":
        raise GSATError("--address is that of a Ray cluster; give --backend ray as well")
    limit = None if budget is None else parse_time(budget)
    from gsat.study.plan import make_plan
    from gsat.study.runner import run_plan
    from gsat.training.process_group import process_count

    if process_count() > 1:
        raise GSATError("bench starts its own processes; run it without torchrun")
    studies, requests, folders = _choose(names, seeds, only, format_, out, record)
    if not dry_run:
        folders.check()
    plan = make_plan(requests, folders, load=not dry_run)
    code = 0
    for name, why in plan.unavailable.items():
        print_error(f"{name} is left out: {why}")
        code = 1 if plan.to_run or plan.recorded else GSATError.exit_code
    if dry_run:
        _print_plan(plan, jobs or (1 if backend == "local" else None))
        raise typer.Exit(code)
    outcome = run_plan(
        plan,
        folders,
        jobs=jobs,
        # Data was loaded, and perhaps generated, within the same time.
        budget=None if limit is None else max(limit - (time.monotonic() - begun), 0.0),
        backend="ray" if backend == "ray" else "local",
        address=address,
        progress=not quiet,
    )
    _print_outcome(outcome, budget)
    _print_studies(studies, requests, folders, format_, statistics)
    if stability:
        _print_stability([request.experiment for request in requests], folders)
    raise typer.Exit(1 if outcome.failures else code)


@bench.command(
    "show",
    epilog=examples(
        "gsat bench show table1",
        "gsat bench show table1 table2 --format latex",
        "gsat bench show table1 --statistics --stability",
        "gsat bench show fig-posthoc",
    ),
)
def show(
    names: Studies,
    only: Only = "",
    format_: Format = "text",
    statistics: Statistics = False,
    stability: Stability = False,
    out: RunsFolder = Path("runs/bench"),
    record: Record = RECORD,
) -> None:
    """Show recorded runs beside the paper's numbers; nothing is run."""
    _check_format(format_)
    studies, requests, folders = _choose(names, 1, only, format_, out, record)
    _print_studies(studies, requests, folders, format_, statistics)
    if stability:
        _print_stability([request.experiment for request in requests], folders)


@bench.command(
    "verify",
    epilog=examples(
        "gsat bench verify --count 6 --budget 2m",
        "gsat bench verify --only method=gsat,backbone=pna --budget 10m",
    ),
)
def verify(
    only: Only = "",
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only runs that took no longer.")
    ] = None,
    count: Annotated[
        int, typer.Option(min=1, help="How many runs, of different methods and backbones.")
    ] = 1,
    record: Record = RECORD,
    quiet: Quiet = False,
) -> None:
    """Train recorded runs again and compare them to the last bit.

    The runs are chosen at random. The exit code is 1 if a number differs.
    """
    limit = None if budget is None else parse_time(budget)
    from gsat.core.errors import Interrupted
    from gsat.study.verify import sample_runs, verifiable
    from gsat.study.verify import verify as verify_run

    if not verifiable(record):
        raise GSATError(f"no run is recorded in {record}; make some with: gsat bench run table1")
    records = verifiable(record, only, limit)
    if not records:
        raise GSATError(f"no recorded run in {record} is within --only and --budget")
    differing = False
    with tempfile.TemporaryDirectory() as folder:
        for number, chosen in enumerate(sample_runs(records, count)):
            names = ("dataset", "backbone", "method")
            what = " ".join(chosen[name] for name in names) + f" seed {chosen['seed']}"
            typer.echo(f"training again: {what} (took {chosen['seconds']:.0f} s)")
            try:
                verified = verify_run(chosen, Path(folder) / str(number), progress=not quiet)
            except Interrupted:
                raise Interrupted(f"stopped; {what} was not verified") from None
            for name, (before, now) in verified.environment.items():
                print_error(f"recorded in another environment: {name} was {before}, is {now}")
            for name, (before, now) in verified.differing.items():
                print_error(f"{what}: {name} was {before}, is {now}")
            if verified.is_same:
                typer.echo(f"{what}: reproduced to the last bit")
            differing = differing or not verified.is_same
    if differing:
        raise typer.Exit(1)


def _check_format(name: str) -> None:
    if name not in ("text", "markdown", "html", "latex"):
        raise GSATError(f"--format is text, markdown, html or latex, not '{name}'")


def _choose(
    names: Sequence[str], seeds: int, only: str, style: str, out: Path, record: Path
) -> tuple[list[Study], list[RunRequest], BenchFolders]:
    """Find the studies, what they need, and where their runs are."""
    from gsat.study.bench_folders import BenchFolders
    from gsat.study.plan import request_runs
    from gsat.study.study import TableStudy
    from gsat.study.tables import STUDIES, find_study

    known = [find_study(name) for name in names if name != "all"]
    studies = list(STUDIES.values()) if "all" in names else known
    if style in ("html", "latex") and not any(isinstance(s, TableStudy) for s in studies):
        raise GSATError(f"--format {style} shows tables, and {', '.join(names)} has none")
    return studies, request_runs(studies, seeds, only), BenchFolders(out, record)


def _print_plan(plan: RunPlan, jobs: int | None) -> None:
    """Print what would run and how long it should take."""
    from gsat.study.cost import format_duration

    by_experiment: dict[Experiment, list[float]] = {}
    for run in plan.to_run:
        by_experiment.setdefault(run.experiment, []).append(run.seconds)
    for experiment, seconds in by_experiment.items():
        each = f"about {format_duration(seconds[0])} each"
        typer.echo(f"{len(seconds):>3} x {experiment}, {each}")
    typer.echo(
        f"{_count(plan.to_run)} to do, {len(plan.recorded)} recorded; about "
        f"{format_duration(plan.seconds(jobs or 1))} "
        f"{f'with --jobs {jobs}' if jobs else 'of one CPU'}"
    )


def _count(runs: Sized) -> str:
    return f"{len(runs)} run{'s' if len(runs) != 1 else ''}"


def _print_outcome(outcome: PoolResult, budget: str | None) -> None:
    """Print which runs failed and which are left."""
    for name, why in outcome.failures.items():
        print_error(f"{name} failed: {why}")
    if outcome.busy:
        print_error(
            f"another process is training {_count(outcome.busy)} of these; the same command "
            "continues when it has ended"
        )
    stopped = set(outcome.unfinished) - set(outcome.busy)
    if stopped:
        why = f"the budget of {budget} is spent" if budget else "stopped"
        print_error(f"{why}, {_count(stopped)} left; the same command continues")


def _print_studies(
    studies: list[Study],
    requests: list[RunRequest],
    folders: BenchFolders,
    style: str,
    statistics: bool,
) -> None:
    """Print tables, claims and the paths of pictures."""
    from gsat.study.show import show_studies

    hashes = {request.experiment.hash for request in requests}
    shown = show_studies(studies, hashes, folders, style, statistics=statistics)
    if shown.errors and not (shown.document or shown.notes):
        raise GSATError("; ".join(shown.errors))
    if shown.document:
        typer.echo(shown.document)
    # What is not a table stays out of a page of HTML or LaTeX.
    aside = bool(shown.document) and style in ("html", "latex")
    for text in shown.notes:
        typer.echo(text, err=aside)
    for line in shown.errors:
        print_error(line)


def _print_stability(experiments: list[Experiment], folders: BenchFolders) -> None:
    """Print how similar the explanations of different seeds are."""
    from gsat.study.show import compare_seeds

    for text, error in compare_seeds(experiments, folders):
        if error is None:
            typer.echo(text)
        else:
            print_error(f"{text}: {error}")
