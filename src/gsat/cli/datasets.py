"""``gsat datasets``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gsat.cli.app import HOUSEKEEPING, command
from gsat.cli.options import Json, check_settings
from gsat.core.errors import DataError, DataNotFoundError, GSATError
from gsat.core.registry import DATASETS
from gsat.core.terminal import echo

if TYPE_CHECKING:
    from gsat.datasets.fetch.raw_files import RawFile


@command(
    HOUSEKEEPING,
    "gsat datasets",
    "gsat datasets mutag",
    "gsat datasets --download mutag",
    "gsat datasets --check ba2motifs --set graphs=60",
)
def datasets(
    name: Annotated[
        str | None,
        typer.Argument(help="Show the files and options of this data set, or of a file.py:Class."),
    ] = None,
    check: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Check a data set (or: all) and print a summary of it."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            callback=check_settings,
            help="With --check: option of the data set. Repeatable.",
        ),
    ] = None,
    write: Annotated[
        Path | None, typer.Option(help="With --check: folder for JSON files of the summaries.")
    ] = None,
    download: Annotated[
        str | None, typer.Option(metavar="NAME", help="Download the raw files of a data set now.")
    ] = None,
    json_: Json = False,
) -> None:
    """List the data sets and whether their files are available.

    With NAME: the files it needs, where to get them, and its options for --set.
    """
    if (name, check, download).count(None) < 2:
        raise GSATError("give only one of NAME, --check and --download")
    name, check, download = (
        DATASETS.resolve(text) if text and ".py:" in text else text
        for text in (name, check, download)
    )
    if check is not None:
        from gsat.cli.cards import show_cards

        return show_cards(check, set_ or [], write, json_)
    if set_ or write is not None:
        raise GSATError("--set and --write need --check NAME")
    if download is not None:
        return _download(download, json_)
    from gsat.datasets.registry import dataset_names, find_source, is_path

    if name is not None:
        if is_path(name):
            raise DataError(f"{name} is a path, not the name of a data set; try: --check {name}")
        find_source(name)
    names = dataset_names() if name is None else (name,)
    rows = [row for each in names for row in _sources(each)]
    if json_:
        echo(json.dumps(rows))
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
        echo(f"{name:<{width}}  {state:<8} {row['summary']}")
    if not all(row["here"] for row in defaults.values()):
        echo("to see missing files and options: gsat datasets NAME")


def _print_details(name: str, rows: list[dict[str, Any]]) -> None:
    """Print the summary of a data set, its missing files and its options."""
    from gsat.datasets.registry import describe_options

    echo(f"{name}: {rows[0]['summary']}")
    for row in rows:
        echo(f"{'here' if row['here'] else 'missing':<8} gsat train {row['use']}")
        for need in row["missing"]:
            echo(f"         {need}")
    for option in describe_options(name):
        echo(f"--set {option.name}={option.default}  {option.description}")


def _sources(name: str) -> list[dict[str, Any]]:
    """Describe the sources of a data set, the default one first."""
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
    """Describe how to get a file."""
    from gsat.core.folders import offline

    if file.downloads() is None or offline():
        return file.instruction()
    return f"a download at first use, or by hand: {file.instruction()}"


def _download(name: str, as_json: bool) -> None:
    """Download, check and list the raw files of a data set; raise if no source is complete."""
    from gsat.core.folders import offline
    from gsat.datasets.fetch.raw_files import require_all
    from gsat.datasets.registry import find_source

    source = find_source(name)
    sources = {value: files for value, files in source.sources(name).items() if files}
    wanted = list(dict.fromkeys(file for files in sources.values() for file in files))
    if not offline():
        require_all(file for file in wanted if file.find() or file.downloads())
    here = {}
    for file in wanted:
        if path := file.find():
            file.check(path)
            here[file] = str(path)
    missing = [file.instruction() for file in wanted if file not in here]
    if missing and not any(here.keys() >= set(files) for files in sources.values()):
        reason = " while GSAT_OFFLINE is set" if offline() else ""
        raise DataNotFoundError(f"{name} can't be downloaded{reason}: {missing[0]}")
    if as_json:
        echo(json.dumps({"name": name, "files": list(here.values()), "missing": missing}))
        return
    for line in here.values():
        echo(line)
    for needed in missing:
        echo(f"needs {needed}")
    if not wanted:
        echo(f"{name} is generated and needs no files")
