"""``gsat bench``: studies, such as the paper's tables and figures, from real runs."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gsat.cli.app import PAPER, GroupedCommands, app, examples, print_error
from gsat.cli.options import Quiet, parse_time
from gsat.core.errors import GSATError
from gsat.core.terminal import echo

if TYPE_CHECKING:
    from gsat.launch.pool import PoolResult
    from gsat.study.plan import RunPlan, RunRequest
    from gsat.study.records import BenchFolders
    from gsat.study.study import Experiment, Study

bench = typer.Typer(
    cls=GroupedCommands,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Run and show studies: the paper's tables and figures, or your own.",
    epilog=examples(
        "gsat bench list",
        "gsat bench run table1 --only dataset=ba2motifs --seeds 2 --jobs 2",
        "gsat bench run my_study.toml",
        "gsat bench show table1 --format markdown",
        "gsat bench verify",
    ),
)
app.add_typer(bench, name="bench", rich_help_panel=PAPER)

_STUDIES = "Names of shipped studies (see: gsat bench list), or TOML files of your own"
Studies = Annotated[
    list[str], typer.Argument(metavar="STUDY", help=f"{_STUDIES}, or: all.", show_default=False)
]
SomeStudies = Annotated[
    list[str] | None, typer.Argument(metavar="STUDY", help=f"{_STUDIES}. [default: all]")
]
Only = Annotated[
    str, typer.Option(metavar="KEY=VALUE,…", help="Only some: dataset, method, backbone, variant.")
]
Format = Annotated[
    Literal["text", "markdown", "html", "latex", "csv"],
    typer.Option("--format", help="Format of tables."),
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
RecordsFolder = Annotated[
    Path,
    typer.Option(
        "--records", "--record", metavar="FOLDER",
        help="Folder of recorded results, or its file of runs.",
    ),
]  # fmt: skip
RESULTS = Path("results")
_WHOLE_DOCUMENTS = ("html", "latex", "csv")  # standard output holds nothing else


@bench.command("list", epilog=examples("gsat bench list", "gsat bench list my_study.toml"))
def list_studies(names: SomeStudies = None, records: RecordsFolder = RESULTS) -> None:
    """List studies, and how much of each was run."""
    from gsat.study.records import Records

    runs = Records.read(_record_file(records)).items()
    recorded = {recipe for recipe, recorded in runs if recorded.done}
    for study in _find(names or ["all"]):
        hashes = {e.hash for e in study.experiments}
        count = f"{len(hashes & recorded)} of {len(hashes)}"
        echo(f"{study.name:<16} {study.title} · {count} have runs")


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
        list[str] | None, typer.Argument(metavar="STUDY", help=f"{_STUDIES}, or: all.")
    ] = None,
    schedule: Annotated[
        Path | None,
        typer.Option("--plan", hidden=True),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="Seeds 0 … N−1 of every run. [default: the study's, often 10]"),
    ] = None,
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
        Literal["local", "ray"],
        typer.Option("--backend", "--engine", help="Worker processes here, or on a Ray cluster."),
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(
            help="Address of the Ray cluster. [default: RAY_ADDRESS, or a new one on this machine]"
        ),
    ] = None,
    format_: Format = "text",
    statistics: Statistics = False,
    stability: Stability = False,
    out: RunsFolder = Path("runs/bench"),
    records: RecordsFolder = RESULTS,
    quiet: Quiet = False,
) -> None:
    """Train the missing runs of studies, then show them.

    Recorded runs are not trained again, so after an interruption the same command continues.
    """
    if schedule is not None:
        raise GSATError(
            "'gsat bench run --plan' has moved: in a checkout of the repository, run: "
            f"python -m paper schedule {schedule}"
        )
    if not names:
        raise GSATError("name the studies to run, or: all")
    begun = time.monotonic()
    if address is not None and backend != "ray":
        raise GSATError("--address is that of a Ray cluster; give --backend ray as well")
    limit = None if budget is None else parse_time(budget)
    from gsat.study.plan import make_plan
    from gsat.study.run import run_plan
    from gsat.training.process_group import process_count

    if process_count() > 1:
        raise GSATError("bench starts its own processes; run it without torchrun")
    studies, requests, folders = _choose(names, seeds, only, format_, out, records)
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
        backend=backend,
        address=address,
        progress=not quiet,
    )
    _print_outcome(outcome, budget)
    _print_studies(studies, requests, folders, format_, statistics)
    if stability:
        _print_stability(requests, folders)
    raise typer.Exit(1 if outcome.failures else code)


@bench.command(
    "show",
    epilog=examples(
        "gsat bench show table1",
        "gsat bench show table1 table2 --format latex",
        "gsat bench show table1 --statistics --stability",
        "gsat bench show table1 --plot table1.svg",
        "gsat bench show fig-posthoc",
    ),
)
def show(
    names: Studies,
    only: Only = "",
    format_: Format = "text",
    statistics: Statistics = False,
    stability: Stability = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Draw the figure, or bars of the table: .svg, .png or .pdf."
        ),
    ] = None,
    out: RunsFolder = Path("runs/bench"),
    records: RecordsFolder = RESULTS,
) -> None:
    """Show recorded runs beside published numbers, without running anything."""
    if plot is not None:
        from gsat.core.writing import check_suffix
        from gsat.draw.figure import PICTURES

        check_suffix(plot, PICTURES)
        if len(names) > 1:
            raise GSATError("--plot draws one study; name only one")
    studies, requests, folders = _choose(names, None, only, format_, out, records)
    _print_studies(studies, requests, folders, format_, statistics, plot)
    if not folders.record.exists():
        echo(
            f"no run is recorded in {folders.record} yet; make some with: gsat bench run "
            f"{' '.join(names)}",
            err=format_ in _WHOLE_DOCUMENTS,
        )
    if stability:
        _print_stability(requests, folders)


@bench.command(
    "verify",
    epilog=examples(
        "gsat bench verify --count 6 --budget 2m",
        "gsat bench verify table1",
        "gsat bench verify --only method=gsat,backbone=pna --budget 10m",
    ),
)
def verify(
    names: SomeStudies = None,
    only: Only = "",
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only runs that took no longer.")
    ] = None,
    count: Annotated[
        int, typer.Option(min=1, help="How many runs, of different methods and backbones.")
    ] = 1,
    records: RecordsFolder = RESULTS,
    quiet: Quiet = False,
) -> None:
    """Train recorded runs again and compare them to the last bit.

    The runs are chosen at random. The exit code is 1 if a number differs.
    """
    limit = None if budget is None else parse_time(budget)
    from gsat.core.errors import Interrupted
    from gsat.study.verify import sample_runs, verifiable
    from gsat.study.verify import verify as verify_run

    file = _record_file(records)
    hashes = {e.hash for study in _find(names) for e in study.experiments} if names else None
    if not verifiable(file):
        raise GSATError(f"no run is recorded in {file}; make some with: gsat bench run table1")
    runs = verifiable(file, only, limit, hashes)
    if not runs:
        raise GSATError(f"no recorded run in {file} is within these studies, --only and --budget")
    differing = False
    with tempfile.TemporaryDirectory() as folder:
        for number, chosen in enumerate(sample_runs(runs, count)):
            keys = ("dataset", "backbone", "method")
            what = " ".join(chosen[key] for key in keys) + f" seed {chosen['seed']}"
            echo(f"training again: {what} (took {chosen['seconds']:.0f} s)")
            try:
                metrics, machine = verify_run(
                    chosen, Path(folder) / str(number), progress=not quiet
                )
            except Interrupted:
                raise Interrupted(f"stopped; {what} was not verified") from None
            for name, (before, now) in machine.items():
                print_error(f"recorded in another environment: {name} was {before}, is {now}")
            for name, (before, now) in metrics.items():
                print_error(f"{what}: {name} was {before}, is {now}")
            if not metrics:
                echo(f"{what}: reproduced to the last bit")
            differing = differing or bool(metrics)
    if differing:
        raise typer.Exit(1)


def _record_file(records: Path) -> Path:
    """The file of runs in a folder of results; it may be given itself."""
    return records if records.suffix == ".jsonl" else records / "runs.jsonl"


def _find(names: Sequence[str]) -> list[Study]:
    from gsat.study.study import find_study, shipped_studies

    named = [find_study(name) for name in names if name != "all"]
    every = [*(shipped_studies() if "all" in names else ()), *named]
    return list({id(study): study for study in every}.values())  # shipped ones are loaded once


def _choose(
    names: Sequence[str], seeds: int | None, only: str, style: str, out: Path, records: Path
) -> tuple[list[Study], list[RunRequest], BenchFolders]:
    """Find the studies, what they need, and where their runs are."""
    from gsat.study.plan import request_runs
    from gsat.study.records import BenchFolders

    studies = _find(names)
    if style in _WHOLE_DOCUMENTS and not any(study.table for study in studies):
        raise GSATError(f"--format {style} shows tables, and {', '.join(names)} has none")
    folders = BenchFolders(out, _record_file(records))
    return studies, request_runs(studies, seeds, only), folders


def _print_plan(plan: RunPlan, jobs: int | None) -> None:
    """Print what would run and how long it should take."""
    from gsat.study.cost import format_duration

    by_experiment: dict[Experiment, list[float]] = {}
    for run in plan.to_run:
        by_experiment.setdefault(run.experiment, []).append(run.seconds)
    for experiment, seconds in by_experiment.items():
        each = f"about {format_duration(seconds[0])} each"
        echo(f"{len(seconds):>3} x {experiment}, {each}")
    echo(
        f"{_count(plan.to_run)} to do, {len(plan.recorded)} recorded; about "
        f"{format_duration(plan.seconds(jobs or 1))} "
        f"{f'with --jobs {jobs}' if jobs else 'of one CPU'}"
    )


def _count(runs: Sized) -> str:
    return f"{len(runs)} run{'s' if len(runs) != 1 else ''}"


def _print_outcome(outcome: PoolResult, budget: str | None) -> None:
    """Print the runs that failed and the number of runs that remain."""
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
    plot: Path | None = None,
) -> None:
    """Print tables and the paths of pictures."""
    from gsat.study.figure import draw_figure
    from gsat.study.records import Records
    from gsat.study.render import render

    hashes = {request.experiment.hash for request in requests}
    records = Records.read(folders.record)
    document = render(studies, records, style, hashes=hashes, statistics=statistics)
    if document:
        echo(document)
    errors, pictures = [], []
    for study in studies:
        if (study.figure or plot) and hashes & {e.hash for e in study.experiments}:
            try:
                files = draw_figure(study, folders, plot, hashes)
            except GSATError as error:  # the other studies can still be shown
                errors.append(f"{study.name}: {error}")
            else:
                pictures += [f"{study.title}: {file}" for file in files]
    if errors and not (document or pictures):
        raise GSATError("; ".join(errors))
    for line in pictures:
        echo(line, err=style in _WHOLE_DOCUMENTS)
    for line in errors:
        print_error(line)


def _print_stability(requests: list[RunRequest], folders: BenchFolders) -> None:
    """Print how similar the explanations of different seeds are."""
    from gsat.study.stability import compare_seeds

    for text, error in compare_seeds([request.experiment for request in requests], folders):
        if error is None:
            echo(text)
        else:
            print_error(f"{text}: {error}")
