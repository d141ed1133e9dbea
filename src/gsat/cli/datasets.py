"""``gsat datasets``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gsat.cli.app import HOUSEKEEPING, app, examples
from gsat.cli.names import check_setting, find_dataset
from gsat.cli.options import Json
from gsat.core.errors import DataError, GSATError

if TYPE_CHECKING:
    from gsat.datasets.fetch.raw_files import RawFile


@app.command(
    rich_help_panel=HOUSEKEEPING,
    epilog=examples(
        "gsat datasets",
        "gsat datasets mutag",
        "gsat datasets --download mutag",
        "gsat datasets --check ba2motifs --set graphs=60",
    ),
)
def datasets(
    name: Annotated[
        str | None, typer.Argument(help="Show the files and options of one data set.")
    ] = None,
    check: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Check a data set (or all available ones) and print its card."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            callback=lambda texts: [check_setting(text) for text in texts or []],
            help="With --check: an option of the data set.",
        ),
    ] = None,
    write: Annotated[
        Path | None, typer.Option(help="With --check: a folder to write the cards to.")
    ] = None,
    download: Annotated[
        str | None, typer.Option(metavar="NAME", help="Download a data set's raw files now.")
    ] = None,
    json_: Json = False,
) -> None:
    """List the data sets, and whether their files are here.

    With a name: which files it needs, where to get them, and its options (for --set).
    """
    if (name, check, download).count(None) < 2:
        raise GSATError("NAME, --check and --download are three questions: ask one at a time")
    if check is not None:
        from gsat.cli.cards import show_cards

        return show_cards(check, set_ or [], write, json_)
    if set_ or write is not None:
        raise GSATError("--set and --write belong to a check; name the data set: --check NAME")
    if download is not None:
        from gsat.cli.download import download_files

        return download_files(download, json_)
    from gsat.datasets.registry import dataset_names

    if name is not None:
        find_dataset(name)
    names = dataset_names() if name is None else (name,)
    rows = [row for each in names for row in _sources(each)]
    if json_:
        typer.echo(json.dumps(rows))
    elif name is not None:
        _print_details(name, rows)
    else:
        _print_list(rows)


def _print_list(rows: list[dict[str, Any]]) -> None:
    """Print one line per data set: the state of its default source."""
    defaults = {row["name"]: row for row in reversed(rows)}
    width = max(map(len, defaults))
    for name, row in reversed(defaults.items()):
        state = "here" if row["here"] else "missing"
        typer.echo(f"{name:<{width}}  {state:<8} {row['summary']}")
    if not all(row["here"] for row in defaults.values()):
        typer.echo("files of a missing data set, and options of any: gsat datasets NAME")


def _print_details(name: str, rows: list[dict[str, Any]]) -> None:
    """Print what a data set is, which files are missing, and its options."""
    from gsat.datasets.registry import describe_options

    typer.echo(f"{name}: {rows[0]['summary']}")
    for row in rows:
        typer.echo(f"{'here' if row['here'] else 'missing':<8} gsat train {row['use']}")
        for need in row["missing"]:
            typer.echo(f"         {need}")
    for option in describe_options(name):
        typer.echo(f"--set {option.name}={option.default}  {option.description}")


def _sources(name: str) -> list[dict[str, Any]]:
    """Describe the sources of a data set: the default first, others with the setting to choose."""
    from gsat.datasets.registry import describe_options, find_source

    try:
        source = find_source(name)
    except DataError as error:  # a plug-in that can't be imported does not hide the others
        row = {"name": name, "use": name, "here": False, "summary": str(error)}
        return [{**row, "missing": [], "options": {}}]
    rows: list[dict[str, Any]] = []
    for value, files in source.sources(name).items():
        missing = [file for file in files if file.find() is None]
        chosen = f" --set source={value}" if rows else ""
        rows.append(
            {
                "name": name,
                "use": name + chosen,
                "here": not missing,
                "summary": source.summary(name) if not chosen else f"the same, {value}",
                "missing": [f"needs {_need(file)}" for file in missing],
                "options": {option.name: option.description for option in describe_options(name)},
            }
        )
    return rows


def _need(file: RawFile) -> str:
    """Say how to get a file."""
    from gsat.core.folders import offline

    if file.downloads() is None or offline():
        return file.instruction()
    return f"a download, made when first used; or by hand: {file.instruction()}"
