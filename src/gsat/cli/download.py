"""``gsat datasets --download``: get the raw files of a data set before they are needed."""

from __future__ import annotations

import json

import typer

from gsat.core.errors import DataNotFoundError
from gsat.core.folders import offline
from gsat.datasets.fetch.raw_files import require_all
from gsat.datasets.registry import find_source


def download_files(name: str, as_json: bool) -> None:
    """Download, check and list the files of every source of a data set.

    A source that can't be downloaded does not stop the others; it is an error when no source is
    complete.
    """
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
        why = " while GSAT_OFFLINE is set" if offline() else ""
        raise DataNotFoundError(f"{name} can't be downloaded{why}: {missing[0]}")
    if as_json:
        typer.echo(json.dumps({"name": name, "files": list(here.values()), "missing": missing}))
        return
    for line in here.values():
        typer.echo(line)
    for needed in missing:
        typer.echo(f"needs {needed}")
    if not wanted:
        typer.echo(f"{name} is generated: there is nothing to download")
