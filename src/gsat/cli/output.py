"""Text and JSON that commands print about a finished run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gsat.core.errors import GSATError, printable
from gsat.core.terminal import echo

if TYPE_CHECKING:
    from gsat.training.loop import OnDone
    from gsat.training.recipe import Recipe
    from gsat.training.run import Run


def print_metrics(heading: str, metrics: Mapping[str, float | None]) -> None:
    """Print a line per metric, each after the heading; None is shown as undefined."""
    for title, value in metrics.items():
        shown = "undefined" if value is None else f"{value:.4f}"
        echo(f"{heading} {title:<18} {shown}")


@contextmanager
def member_progress(recipe: Recipe, jobs: int, quiet: bool) -> Iterator[OnDone | None]:
    """Show a bar over ensemble members that train in parallel; yield a callback for each end."""
    if recipe.members is None or jobs == 1:
        yield None
        return
    from gsat.launch.progress import Progress

    label = f"{recipe.data.label}, {recipe.members} members"
    with Progress(label, quiet).start(recipe.members) as bar:
        yield lambda name, _: bar.advance(f"{name} done")


def print_source(recipe: Recipe) -> None:
    """Print which graphs a recipe uses, if the files of this machine decided it."""
    from gsat.datasets.registry import find_source, is_own_data, make_options

    name = recipe.data.name
    if is_own_data(name) or not (source := find_source(name)).preferred:
        return
    chosen = source.default_source(name)
    options = make_options(name, {"source": chosen})
    if recipe.data.data_seed or recipe.data.options != options.model_dump():
        return
    if chosen == source.preferred:
        where = ", ".join(str(file.find()) for file in source.raw_files(name, options))
    else:
        where = f"for those of the paper, see: gsat datasets {name}"
    echo(f"{name}: {chosen} graphs ({where})")


def print_ending(run: Run, folder: Path, as_json: bool, audited: bool, quiet: bool) -> None:
    """Print the result of a training and, for the user's own data, the audit's verdict."""
    if not as_json:
        print_result(run, folder)
        print_source(run.recipe)
    audit = short_audit(run, quiet) if audited else None
    if as_json:
        echo(json.dumps({**run.result, **({"audit": audit} if audit else {})}))
    elif audit is not None:
        echo(audit_line(audit))


def short_audit(run: Run, quiet: bool) -> dict[str, str | None] | None:
    """Return the verdict on a run of the user's own data, with a command that may improve it.

    The last audit is used, else a short one; an audit that fails prints a note.
    """
    from gsat.datasets.registry import is_own_data
    from gsat.training.run_audit import outcome_of

    name = run.recipe.data.name
    try:
        if not (is_own_data(name) or name == "planted") or not run.model.explains:
            return None
        audit = run.last_audit
        if audit is None:
            report = run.short_audit(progress=not quiet)
            audit = None if report is None else report.as_dict()
    except GSATError as error:
        echo(f"note: the explanations were not audited: {error}", err=True)
        return None
    if audit is None:
        return None
    outcome, command = outcome_of(audit), None
    if outcome != "passed":
        data, remedy = shlex.quote(name), audit.get("remedy")
        command = f"gsat tune {data} --by audit"
        if remedy is not None:
            command = f"gsat train {data} … --set {shlex.quote(remedy)}"
    return {"outcome": outcome, "verdict": str(audit["verdict"]), "command": command}


def audit_line(audit: dict[str, str | None]) -> str:
    """Return the result of :func:`short_audit` as one line."""
    command = f"; try: {audit['command']}" if audit["command"] else ""
    return printable(f"audit {audit['verdict']}{command}")


def print_result(run: Run, folder: Path) -> None:
    """Print the test metrics, the selected epoch and the folder of a finished run."""
    result = run.result
    from gsat.methods import METHODS

    reports = METHODS[result["method"]].reports
    if "pretrained" in result:
        defined = {k: v for k, v in result["pretrained"]["test"].items() if v is not None}
        heading = "explained model:" if reports == "last" else "before fine-tuning:"
        print_metrics(heading, run.readable_metrics(defined))
    print_metrics("test", run.readable_metrics(result["test"]))
    epoch = f"best epoch {result['best_epoch']}"
    if "members" in result:
        epoch = f"{len(result['members'])} members"
    elif result["selected"] == "last":
        epoch = f"last epoch {result['best_epoch']}"
        if reports == "best" and run.recipe.training.selection != "last":
            epoch += " (too few epochs to choose the best)"
    echo(f"{epoch} · {result['seconds']:.0f} s · {printable(str(folder))}")
