"""`gsat bench` and `gsat results`: the paper's tables and figures from real runs."""

from __future__ import annotations

import random
import re
import tempfile
import time
from collections.abc import Callable, Sized
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gsat.cli.app import app, print_error
from gsat.cli.training import Quiet
from gsat.errors import GSATError

if TYPE_CHECKING:
    from gsat.studies.bench_folders import BenchFolders
    from gsat.studies.plan import RunPlan
    from gsat.studies.study import Experiment, Study

RECORD = Path("results/runs.jsonl")


@app.command()
def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="STUDY",
            help="Tables and figures, or all; none: list them; verify: train a recorded run again",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds 0 … N−1 of every run.")] = 10,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="How many at a time, a thread each (1; on Ray all CPUs)."),
    ] = None,
    only: Annotated[
        str, typer.Option(metavar="KEY=VALUE,…", help="Only some: dataset, method, backbone.")
    ] = "",
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Stop cleanly after 2h, 90m, 1h30m, …; verify: only runs that took no longer.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would run, and how long it should take.")
    ] = False,
    show: Annotated[bool, typer.Option("--show", help="Run nothing; show what there is.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Show as Markdown.")] = False,
    html: Annotated[bool, typer.Option("--html", help="Show as a web page.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Show as LaTeX.")] = False,
    statistics: Annotated[
        bool, typer.Option("--statistics", help="Compare methods over the seeds both have.")
    ] = False,
    stability: Annotated[
        bool,
        typer.Option("--stability", help="Compare explanations between seeds; needs the runs."),
    ] = False,
    engine: Annotated[str, typer.Option(help="Worker processes here (local), or ray.")] = "local",
    address: Annotated[
        str | None,
        typer.Option(help="Of a Ray cluster (RAY_ADDRESS, or a new one on this machine)."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs/bench"),
    record: Annotated[Path, typer.Option(help="JSON-lines file of finished runs.")] = RECORD,
    quiet: Quiet = False,
) -> None:
    """Make the paper's tables and figures.

    Runs only what is not recorded yet and shows ours beside the paper's; the same command goes on
    where it was stopped.
    """
    from gsat.training.process_group import process_count
    from gsat.training.results import read_runs

    begun = time.monotonic()
    if process_count() > 1:
        raise GSATError("bench starts its own processes; run it without torchrun")
    if engine not in ("local", "ray"):
        raise GSATError(f"--engine is local or ray, not '{engine}'")
    if address is not None and engine != "ray":
        raise GSATError("--address is of a Ray cluster; give --engine ray, too")
    limit = None if budget is None else parse_time(budget)
    style = _style(markdown, html, latex)
    if dry_run and show:
        raise GSATError("--dry-run says what would run, --show what was; give one of them")
    if not names:
        _list(read_runs(record))
        return
    if "verify" in names:
        if names != ["verify"]:
            raise GSATError("'verify' trains a recorded run again; it stands by itself")
        if dry_run or show or statistics or stability or style != "text" or engine != "local":
            raise GSATError(
                "'verify' trains a recorded run again; it takes --only, --budget, --record and "
                "--quiet, nothing else"
            )
        _verify(record, only, limit, quiet)
        return
    from gsat.studies.bench_folders import BenchFolders
    from gsat.studies.plan import make_plan, request_runs
    from gsat.studies.runner import run_plan
    from gsat.studies.study import TableStudy
    from gsat.studies.tables import STUDIES, find_study

    known = [find_study(name) for name in names if name != "all"]
    studies = list(STUDIES.values()) if "all" in names else known
    if style in ("html", "latex") and not any(isinstance(s, TableStudy) for s in studies):
        raise GSATError(f"--{style} shows tables, and {', '.join(names)} has none; leave it out")
    wants = request_runs(studies, seeds, only)
    place = BenchFolders(out, record)
    outcome, code = None, 0
    if not show:
        if not dry_run:
            place.check()
        plan = make_plan(wants, place, load=not dry_run)
        for name, why in plan.unavailable.items():
            print_error(f"{name} is left out: {why}")
            code = 1 if plan.to_run or plan.recorded else GSATError.exit_code
        if dry_run:
            _say_plan(plan, jobs or (1 if engine == "local" else None))
            raise typer.Exit(code)
        outcome = run_plan(
            plan,
            place,
            jobs=jobs,
            # Data was loaded, and made perhaps, within the same time.
            budget=None if limit is None else max(limit - (time.monotonic() - begun), 0.0),
            engine="ray" if engine == "ray" else "local",
            address=address,
            progress=not quiet,
        )
        _say_outcome(outcome, budget)
    _show(studies, {want.experiment.hash for want in wants}, place, style, statistics)
    if stability:
        _say_stability([want.experiment for want in wants], place)
    raise typer.Exit(1 if outcome and outcome.failures else code)


def parse_time(text: str) -> float:
    """Seconds from 90s, 30m, 2h, 1h30m or 1d."""
    units = {"d": 86400, "h": 3600, "m": 60, "s": 1}
    parts = re.findall(r"(\d+(?:\.\d+)?)([dhms])", text)
    if not parts or "".join(f"{number}{unit}" for number, unit in parts) != text.replace(" ", ""):
        raise GSATError(f"a time is written like 2h, 90m or 1h30m, not '{text}'")
    return sum(float(number) * units[unit] for number, unit in parts)


def _style(markdown: bool, html: bool, latex: bool) -> str:
    asked = [n for n, on in (("markdown", markdown), ("html", html), ("latex", latex)) if on]
    if len(asked) > 1:
        raise GSATError(f"--{asked[0]} and --{asked[1]} can't both be had; choose one")
    return asked[0] if asked else "text"


def _list(records: list[dict[str, Any]]) -> None:
    from gsat.studies.records import Records
    from gsat.studies.tables import STUDIES

    run = {recipe for recipe, runs in Records(records).items() if runs.done}
    for study in STUDIES.values():
        hashes = {e.hash for e in study.experiments}
        typer.echo(
            f"{study.name:<16} {study.title} · {len(hashes & run)} of {len(hashes)} have runs"
        )


def _say_plan(plan: RunPlan, jobs: int | None) -> None:
    from gsat.studies.cost import format_duration

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


def _say_outcome(outcome: PoolResult, budget: str | None) -> None:
    for name, why in outcome.failures.items():
        print_error(f"{name} failed: {why}")
    on = "the same command goes on"
    if outcome.busy:
        print_error(f"another process is at {_count(outcome.busy)} of these; {on} after it")
    stopped = set(outcome.unfinished) - set(outcome.busy)
    if stopped:
        why = f"{budget} are spent" if budget else "stopped"
        print_error(f"{why}, {_count(stopped)} left; {on}")


def _show(
    studies: list[Study], chosen: set[str], place: BenchFolders, style: str, statistics: bool
) -> None:
    """Tables of the recipes that were chosen, and pictures, one after the other."""
    from gsat.studies.claims import claims_page
    from gsat.studies.figures import draw_figure
    from gsat.studies.records import Records
    from gsat.studies.report import render
    from gsat.studies.study import TableStudy
    from gsat.training.results import read_records

    records = Records.read(place.record)
    tables = [s.restricted(chosen) for s in studies if isinstance(s, TableStudy)]
    tables = [table for table in tables if table.parts]
    # What is no table stays out of a page of HTML or LaTeX.
    apart = bool(tables) and style in ("html", "latex")
    errors, shown = [], bool(tables)
    if tables:
        typer.echo(render(tables, records, style, statistics=statistics))
    for study in studies:
        if study.name == "claims":
            typer.echo(claims_page(records, read_records(place.curves)), err=apart)
            shown = True
        elif not isinstance(study, TableStudy):
            experiments = tuple(e for e in study.experiments if e.hash in chosen)
            if not experiments:
                continue
            try:
                pictures = draw_figure(replace(study, experiments=experiments), place)
            except GSATError as error:  # the other studies are still to be shown
                errors.append(f"{study.name}: {error}")
                continue
            shown = True
            for picture in pictures:
                typer.echo(f"{study.title}: {picture}", err=apart)
    if errors and not shown:
        raise GSATError("; ".join(errors))
    for line in errors:
        print_error(line)


def _say_stability(experiments: list[Experiment], place: BenchFolders) -> None:
    """How alike the explanations of seeds are, where several finished runs are there."""
    from gsat.methods import METHODS
    from gsat.studies.records import Records
    from gsat.studies.stability import record_stability
    from gsat.studies.stability import stability as measure

    found, records = False, Records.read(place.record)
    for experiment in experiments:
        runs = place.finished(experiment, records.of(experiment).data_hash)
        if len(runs) > 1 and METHODS[experiment.method].Model.explains:
            found = True
            try:
                line = measure(list(runs.values()))
            except GSATError as error:  # others may still be compared
                print_error(f"{experiment}: {error}")
                continue
            record_stability(place.stability, line)
            mean = "undefined" if line["mean"] is None else f"{line['mean']:.3f}"
            spread = "" if line["std"] is None else f" ± {line['std']:.3f}"
            typer.echo(
                f"{experiment}: rank correlation between {len(runs)} seeds {mean}{spread} "
                f"({line['graphs']} graphs, {line['explained']})"
            )
    if not found:
        raise GSATError(
            f"there are no two finished runs of one recipe in {place.runs} to compare; the folders "
            "of the runs are needed"
        )


@app.command()
def results(
    file: Annotated[Path, typer.Argument(help="Recorded runs.")] = RECORD,
    page: Annotated[
        str,
        typer.Option(
            help="results: tables; headlines: eight numbers; reproduction: cell by cell; claims."
        ),
    ] = "results",
    write: Annotated[
        Path | None, typer.Option(help="Put it between the result marks of this file.")
    ] = None,
) -> None:
    """Print what was recorded, ours beside the paper's."""
    from gsat.studies.claims import claims_page
    from gsat.studies.pages import headline_numbers, results_page, write_between_marks
    from gsat.studies.records import Records
    from gsat.studies.reproduction import reproduction_page
    from gsat.training.results import read_records

    if not file.is_file():
        raise GSATError(
            f"there are no recorded runs at {file}; make some with: gsat bench, gsat train --record"
        )
    records = Records.read(file)
    pages: dict[str, Callable[[], str]] = {
        "results": lambda: results_page(records),
        "headlines": lambda: headline_numbers(records),
        "reproduction": lambda: reproduction_page(
            records, read_records(file.with_name("stability.jsonl"), needs=("recipe_hash",))
        ),
        "claims": lambda: claims_page(records, read_records(file.with_name("curves.jsonl"))),
    }
    if page not in pages:
        raise GSATError(f"--page is one of {', '.join(pages)}, not '{page}'")
    if write is None:
        typer.echo(pages[page](), nl=False)
    else:
        write_between_marks(write, pages[page]())


def _verify(record: Path, only: str, limit: float | None, quiet: bool) -> None:
    from gsat.errors import Interrupted
    from gsat.studies.verify import verifiable, verify

    if not verifiable(record):
        raise GSATError(f"no run is recorded in {record}; make some with: gsat bench table1")
    records = verifiable(record, only, limit)
    if not records:
        raise GSATError(
            f"no recorded run in {record} is all of what --only and --budget ask for; what there "
            "is: gsat results"
        )
    chosen = random.choice(records)
    names = ("dataset", "backbone", "method")
    what = " ".join(chosen[name] for name in names) + f" seed {chosen['seed']}"
    typer.echo(f"training again: {what} (took {chosen['seconds']:.0f} s)")
    with tempfile.TemporaryDirectory() as folder:
        try:
            verified = verify(chosen, Path(folder) / "run", progress=not quiet)
        except Interrupted:
            raise Interrupted(f"stopped; {what} was not verified") from None
    for name, (before, now) in verified.environment.items():
        print_error(f"recorded elsewhere: {name} was {before}, is {now}")
    for name, (before, now) in verified.differing.items():
        print_error(f"{what}: {name} was {before}, is {now}")
    if verified.differing:
        raise typer.Exit(1)
    typer.echo(f"{what}: reproduced to the last bit")
