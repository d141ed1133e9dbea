"""``gsat results``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from gsat.cli.app import PAPER, app, examples
from gsat.cli.bench import RECORD
from gsat.core.errors import GSATError


@app.command(
    rich_help_panel=PAPER,
    epilog=examples(
        "gsat results",
        "gsat results --page reproduction",
        "gsat results --page claims --write docs/claims.md",
    ),
)
def results(
    file: Annotated[Path, typer.Argument(help="Recorded runs.")] = RECORD,
    page: Annotated[
        str,
        typer.Option(
            help="results: tables; headlines: eight numbers; reproduction: cell by cell; runs: "
            "every run; claims: in prose; audit: the audit against known truth; defaults: default "
            "settings compared; settings: every key; overview: a picture, for --write."
        ),
    ] = "results",
    write: Annotated[
        Path | None,
        typer.Option(
            help="Replace what is between the result marks of this file; the overview is written "
            "to it, as .svg, .png or .pdf."
        ),
    ] = None,
) -> None:
    """Print all recorded runs beside the paper's numbers, in Markdown."""
    if not file.is_file():
        raise GSATError(
            f"there are no recorded runs at {file}; make some with: gsat bench run, "
            "gsat train --record"
        )
    from gsat.study.audit_page import audit_study_page
    from gsat.study.audit_study import read_audits
    from gsat.study.claims import claims_page
    from gsat.study.defaults import read_defaults
    from gsat.study.defaults_page import defaults_page
    from gsat.study.overview import draw_overview
    from gsat.study.pages import headline_numbers, results_page, write_between_marks
    from gsat.study.records import Records
    from gsat.study.reproduction import reproduction_page
    from gsat.study.runs_page import runs_page
    from gsat.training.results import read_records
    from gsat.training.settings_reference import settings_page

    records = Records.read(file)
    pages: dict[str, Callable[[], str]] = {
        "results": lambda: results_page(records),
        "headlines": lambda: headline_numbers(records),
        "reproduction": lambda: reproduction_page(
            records, read_records(file.with_name("stability.jsonl"), needs=("recipe_hash",))
        ),
        "runs": lambda: runs_page(records),
        "claims": lambda: claims_page(records, read_records(file.with_name("curves.jsonl"))),
        "audit": lambda: audit_study_page(read_audits(file.with_name("audit.jsonl"))),
        "defaults": lambda: defaults_page(read_defaults(file.with_name("defaults.jsonl"))),
        "settings": settings_page,
    }
    if page == "overview":
        if write is None:
            raise GSATError("the overview is a picture: give the file to write, --write FILE.svg")
        draw_overview(records, write)
        return
    if page not in pages:
        raise GSATError(f"--page is one of {', '.join([*pages, 'overview'])}, not '{page}'")
    if write is None:
        typer.echo(pages[page](), nl=False)
    else:
        write_between_marks(write, pages[page]())
