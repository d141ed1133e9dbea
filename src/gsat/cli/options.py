"""Options and arguments that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from gsat.cli import names
from gsat.core.errors import GSATError
from gsat.training.run_files import check_run

T = TypeVar("T")


def _if_given(check: Callable[[T], T]) -> Callable[[T | None], T | None]:
    return lambda value: None if value is None else check(value)


def _data(name: str) -> str:
    from gsat.datasets.registry import is_path

    return name if is_path(name) else names.check_dataset(name)


def _settings(texts: list[str] | None) -> list[str]:
    return [names.check_setting(text) for text in texts or []]


DatasetArgument = Annotated[
    str,
    typer.Argument(
        callback=names.check_dataset,
        help="A data set (see: gsat datasets), a table of molecules (.csv, .tsv, .smi, .sdf, "
        ".parquet), or your own graphs: a .jsonl file, a TU folder or zip file, a folder of saved "
        "graphs.",
    ),
]
RunFolder = Annotated[Path, typer.Argument(callback=check_run, help="A run directory.")]
Data = Annotated[
    str | None,
    typer.Argument(
        callback=_if_given(_data),
        help="The name of a data set, or a path of graphs. [default: the data of the run]",
    ),
]
Split = Annotated[
    str, typer.Option(help="train, valid, test or all; graphs at a path are taken whole.")
]

Refine = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=20,
        help="Refinement passes, which score each graph again with its own edge weights. "
        "[default: as trained]",
    ),
]

Out = Annotated[
    Path | None,
    typer.Option("--out", help="Run directory. [default: a new one in runs/]"),
]
Device = Annotated[str, typer.Option(help="Where to compute: cpu, cuda, cuda:1, …")]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads of one run. [default: 1]")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress bar.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

Audit = Annotated[
    bool,
    typer.Option(
        "--audit/--no-audit",
        help="Own data: end with a short audit of the explanations, in at most a tenth of the "
        "training time.",
    ),
]

MethodOption = Annotated[
    str,
    typer.Option(
        "--method",
        callback=names.check_method,
        help="The method (see: gsat methods), or your own: file.py:Class.",
    ),
]
BackboneOption = Annotated[
    str,
    typer.Option(
        "--backbone",
        callback=lambda name: name and names.check_backbone(name),
        show_default=False,
        help="The network: gin, pna, leconv, dmpnn, or your own: file.py:Class. [default: dmpnn "
        "for tables of molecules, else gin]",
    ),
]
RecipeFile = Annotated[
    Path | None,
    typer.Option(
        "--recipe",
        callback=_if_given(names.check_recipe_file),
        help="A TOML file whose settings replace those of the shipped recipe.",
    ),
]
Epochs = Annotated[int | None, typer.Option(min=1, help="Short for --set epochs=N.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        callback=_settings,
        help="Change a setting (see: gsat settings); may be repeated.",
    ),
]


def all_settings(settings: list[str] | None, epochs: int | None) -> list[str]:
    """Return the settings of ``--set``, and that of ``--epochs``."""
    return [*(settings or []), *([f"epochs={epochs}"] if epochs else [])]


def set_threads(threads: int | None) -> None:
    """Set how many CPU threads torch uses; one by default."""
    import torch

    torch.set_num_threads(threads or 1)


def parse_time(text: str) -> float:
    """Return the seconds of a time such as 90s, 30m, 2h, 1h30m or 1d.

    Raises:
        GSATError: If it is not a time.
    """
    units = {"d": 86400, "h": 3600, "m": 60, "s": 1}
    parts = re.findall(r"(\d+(?:\.\d+)?)([dhms])", text)
    if not parts or "".join(f"{number}{unit}" for number, unit in parts) != text.replace(" ", ""):
        raise GSATError(f"a time is written like 2h, 90m or 1h30m, not '{text}'")
    return sum(float(number) * units[unit] for number, unit in parts)
