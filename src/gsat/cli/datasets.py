"""`gsat datasets`: what there is, whether it is here, and what is in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gsat.cli.app import app
from gsat.cli.training import Json
from gsat.errors import DataError, GSATError

if TYPE_CHECKING:
    from gsat.datasets.fetch.raw_files import RawFile


@app.command()
def datasets(
    check: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Check a data set (or all that are here) and print its card."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="With --check: an option of the data set."),
    ] = None,
    write: Annotated[
        Path | None, typer.Option(help="With --check: a folder to put the cards in.")
    ] = None,
    download: Annotated[
        str | None, typer.Option(metavar="NAME", help="Get a data set's raw files now.")
    ] = None,
    json_: Json = False,
) -> None:
    """List the data sets and what is missing of them.

    Says which file to get from where, and where to put it.
    """
    if check is not None and download is not None:
        raise GSATError("--check and --download are two things to ask for: give one at a time")
    if check is not None:
        from gsat.cli.cards import show_cards

        return show_cards(check, set_ or [], write, json_)
    if set_ or write is not None:
        raise GSATError("--set and --write belong to a check; say of what: --check NAME")
    from gsat.datasets.registry import dataset_names

    if download is not None:
        from gsat.cli.download import download_files

        return download_files(download, json_)
    rows = [row for name in dataset_names() for row in _sources(name)]
    if json_:
        typer.echo(json.dumps(rows))
        return
    width = max(len(row["use"]) for row in rows)
    for row in rows:
        state = "here" if row["here"] else "missing"
        typer.echo(f"{row['use']:<{width}}  {state:<8} {row['summary']}")
        if row["missing"]:
            others = len(row["missing"]) - 1
            more = f"; and {others} more, see --json" if others else ""
            typer.echo(f"{'':<{width}}  {row['missing'][0]}{more}")


def _sources(name: str) -> list[dict[str, Any]]:
    """One row per source of a data set: the default first, others with the setting to choose."""
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
    from gsat.io.folders import offline

    if file.downloads() is None or offline():
        return file.instruction()
    return f"a download, made when first used; or by hand: {file.instruction()}"
