"""Commands that write this repository's result pages and run the studies behind its defaults."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from gsat.cli.app import examples, print_error, run_app
from gsat.core.errors import GSATError
from gsat.core.terminal import echo
from gsat.core.writing import check_appendable

app = typer.Typer(
    name="paper",
    help="Write this repository's result pages, and run the studies behind its defaults.",
    epilog=examples(
        "python -m paper results --all",
        "python -m paper results --page claims",
        "python -m paper schedule results/schedule.toml --jobs 2",
        "python -m paper defaults --group molecules --data nitrile",
        "python -m paper audit",
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
# The document that shows each page, relative to the repository.
DOCUMENTS = {
    "results": "docs/results.md",
    "headlines": "README.md",
    "claims": "docs/claims.md",
    "reproduction": "docs/reproduction.md",
    "runs": "docs/runs.md",
    "audit": "docs/audit.md",
    "defaults": "docs/defaults.md",
    "settings": "docs/settings.md",
    "overview": "docs/images/overview.svg",
}
Jobs = Annotated[int, typer.Option(min=1, help="Number of runs to train in parallel.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]


@app.command()
def results(
    file: Annotated[Path, typer.Argument(help="Recorded runs.")] = Path("results/runs.jsonl"),
    page: Annotated[str, typer.Option(help=f"Page to print: {', '.join(DOCUMENTS)}.")] = "results",
    write: Annotated[
        Path | None,
        typer.Option(
            help="Replace the text between the result marks of this file; the overview is a "
            "picture (.svg, .png or .pdf)."
        ),
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Write every page to its document in this repository.")
    ] = False,
) -> None:
    """Print or write the pages of recorded results, in Markdown."""
    from paper.pages import write_between_marks

    if not file.is_file():
        raise GSATError(
            f"there are no recorded runs at {file}; make some with: gsat bench run, "
            "gsat train --record"
        )
    if page not in DOCUMENTS:
        raise GSATError(f"--page is one of {', '.join(DOCUMENTS)}, not '{page}'")
    if page == "overview" and write is None and not all_:
        raise GSATError("the overview is a picture: give the file to write, --write FILE.svg")
    pages = make_pages(file)
    chosen = {name: Path(path) for name, path in DOCUMENTS.items()} if all_ else {page: write}
    for name, target in chosen.items():
        if name == "overview":
            _draw_overview(file, target)
        elif target is None:
            echo(pages[name](), nl=False)
        else:
            write_between_marks(target, pages[name]())


def make_pages(file: Path) -> dict[str, Callable[[], str]]:
    """Return the functions that write each page from a file of runs and the records beside it."""
    from gsat.study.records import Records
    from gsat.training.results import read_records
    from paper.audit_page import audit_study_page
    from paper.audit_study import read_audits
    from paper.claims import claims_page
    from paper.defaults import read_defaults
    from paper.defaults_page import defaults_page
    from paper.pages import headline_numbers, results_page, settings_page
    from paper.reproduction import reproduction_page
    from paper.runs_page import runs_page

    records = Records.read(file)
    stability, curves = file.with_name("stability.jsonl"), file.with_name("curves.jsonl")
    return {
        "results": lambda: results_page(records),
        "headlines": lambda: headline_numbers(records),
        "claims": lambda: claims_page(records, read_records(curves)),
        "reproduction": lambda: reproduction_page(
            records, read_records(stability, needs=("recipe_hash",))
        ),
        "runs": lambda: runs_page(records),
        "audit": lambda: audit_study_page(read_audits(file.with_name("audit.jsonl"))),
        "defaults": lambda: defaults_page(read_defaults(file.with_name("defaults.jsonl"))),
        "settings": settings_page,
    }


def _draw_overview(file: Path, target: Path | None) -> None:
    from gsat.study.records import Records
    from paper.overview import draw_overview

    draw_overview(Records.read(file), target)


@app.command()
def audit(
    out: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs/audit"),
    record: Annotated[Path, typer.Option(help="File to record in.")] = Path("results/audit.jsonl"),
    quiet: Quiet = False,
) -> None:
    """Audit models with known explanations, and compare the measures with the truth.

    Recorded models are skipped, so the same command continues after an interruption.
    """
    from paper.audit_page import audit_study_page
    from paper.audit_study import read_audits, run_study

    check_appendable(record)
    run_study(out, record, progress=not quiet, warn=print_error)
    echo(audit_study_page(read_audits(record)), nl=False)


@app.command()
def defaults(
    group: Annotated[
        list[str] | None,
        typer.Option(help="Groups of data sets: graphs, molecules, molecules-gin. [default: all]"),
    ] = None,
    trained: Annotated[
        list[str] | None, typer.Option(help="Names of candidate settings. [default: all]")
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option(help="Names of data sets. [default: all]")
    ] = None,
    jobs: Jobs = 1,
    out: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs/defaults"),
    record: Annotated[Path, typer.Option(help="File to record in.")] = Path(
        "results/defaults.jsonl"
    ),
    quiet: Quiet = False,
) -> None:
    """Compare default settings on data with known explanations, leaving out each set in turn.

    Recorded models are skipped, so the same command continues after an interruption.
    """
    from paper.defaults import GROUPS, read_defaults, run_study
    from paper.defaults_page import defaults_page

    check_appendable(record)
    if unknown := sorted({*(group or ())} - GROUPS.keys()):
        raise GSATError(f"--group is one of {', '.join(GROUPS)}, not '{unknown[0]}'")
    run_study(
        out, record, groups=group or (), trained=trained or (), data=data or (), jobs=jobs,
        progress=not quiet, warn=print_error,
    )  # fmt: skip
    echo(defaults_page(read_defaults(record)), nl=False)


@app.command()
def schedule(
    file: Annotated[Path, typer.Argument(help="Schedule: a TOML file of steps.")],
    jobs: Jobs = 1,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop cleanly after 2h, 90m, 1h30m, …")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print when each step and table would be complete.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs/bench"),
    record: Annotated[Path, typer.Option(help="File of recorded runs.")] = Path(
        "results/runs.jsonl"
    ),
    quiet: Quiet = False,
) -> None:
    """Train the missing runs of a schedule, step by step.

    Recorded runs are skipped, so the same command continues after an interruption.
    """
    from gsat.cli.options import parse_time
    from gsat.study.records import BenchFolders
    from gsat.study.run import run_plan
    from paper.schedule import describe_steps, plan_steps, read_schedule

    seconds = None if budget is None else parse_time(budget)
    steps, folders = read_schedule(file), BenchFolders(out, record)
    if not dry_run:
        folders.check()
    plan, parts = plan_steps(steps, folders, load=not dry_run)
    for name, reason in plan.unavailable.items():
        print_error(f"{name} is left out: {reason}")
    if dry_run:
        echo("\n".join(describe_steps(steps, plan, parts, folders, jobs)))
        return
    outcome = run_plan(plan, folders, jobs=jobs, budget=seconds, progress=not quiet)
    for name, reason in outcome.failures.items():
        print_error(f"{name} failed: {reason}")
    if outcome.unfinished:
        print_error(f"{len(outcome.unfinished)} runs are left; the same command continues")
    raise typer.Exit(1 if outcome.failures else 0)


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code."""
    return run_app(app, arguments, "python -m paper")


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
