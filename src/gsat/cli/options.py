"""Options that several commands share; names and paths are checked before torch is imported."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from gsat.cli.app import Command
from gsat.core.errors import DataNotFoundError, GSATError, RecipeError, shown
from gsat.core.files import exists, open_file
from gsat.core.limits import raise_limits
from gsat.core.registry import BACKBONES, DATASETS, METHODS, Registry
from gsat.training.list_runs import check_run

T = TypeVar("T")


def resolve(parts: Registry[Any]) -> Callable[[str], str]:
    """Make a callback that checks a name, or registers the class of a ``file.py:Class``.

    An empty name stands for the default and passes.
    """
    return lambda name: parts.resolve(name) if name else name


def check_dataset(name: str) -> str:
    """Return the name of a data set, or the path of an existing file or folder.

    The class of a ``file.py:Class`` is registered.
    """
    from gsat.datasets.registry import find_source, full_name, is_path

    if ".py:" in name:
        name = DATASETS.resolve(name)
    if not is_path(name):
        find_source(name)
    elif not exists(full_name(name)):
        raise DataNotFoundError(f"there is no file or folder {shown(full_name(name))}")
    return name


def check_settings(texts: list[str] | None) -> list[str]:
    """Raise unless every text is ``key=value``."""
    from gsat.core.settings import parse_setting

    for text in texts or []:
        parse_setting(text)
    return texts or []


def _check_data(name: str) -> str:
    """Check the name of a data set; a path is checked when it is read."""
    from gsat.datasets.registry import is_path

    return name if is_path(name) and ".py:" not in name else check_dataset(name)


def _check_recipe_file(path: Path) -> Path:
    open_file(path, error=RecipeError, links=True).close()
    return path


def _if_given(check: Callable[[T], T]) -> Callable[[T | None], T | None]:
    return lambda value: None if value is None else check(value)


# -- data and runs ---------------------------------------------------------------------------------

DatasetArgument = Annotated[
    str,
    typer.Argument(
        callback=check_dataset,
        help="Name of a data set (see: gsat datasets) or your own as file.py:Class, a table of "
        "molecules (.csv, .tsv, .smi, .sdf, .parquet), or your own graphs: a .jsonl file, a TU "
        "folder or zip file, or a folder of saved graphs.",
    ),
]
RunFolder = Annotated[Path, typer.Argument(callback=check_run, help="Run directory.")]
Data = Annotated[
    str | None,
    typer.Argument(
        callback=_if_given(_check_data),
        help="Name of a data set, or your own: a path or file.py:Class. [default: the data of the "
        "run]",
    ),
]
_OWN_CLASSES = (("method", METHODS), ("backbone", BACKBONES), ("dataset", DATASETS))


def own_classes(command: Command) -> Command:
    """Add options to a command that opens runs: classes in files that the runs need."""
    return _with_options(command, [_own_class(name, parts) for name, parts in _OWN_CLASSES])


def _own_class(name: str, parts: Registry[Any]) -> inspect.Parameter:
    """Make the parameter of a class that a run needs."""
    option = typer.Option(
        f"--{name}",
        metavar="FILE.py:CLASS",
        callback=resolve(parts),
        show_default=False,
        help=f"Your own {parts.kind}, if the run needs it.",
    )
    only = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, only, default="", annotation=Annotated[str, option])


Split = Annotated[
    str, typer.Option(help="Split to use: train, valid, test or all. Data at a path has no splits.")
]
Out = Annotated[
    Path | None, typer.Option("--out", help="Run directory. [default: a new one in runs/]")
]

# -- how to train ----------------------------------------------------------------------------------

MethodOption = Annotated[
    str,
    typer.Option(
        "--method",
        callback=resolve(METHODS),
        help="Method (see: gsat methods), or your own as file.py:Class.",
    ),
]
BackboneOption = Annotated[
    str,
    typer.Option(
        "--backbone",
        callback=resolve(BACKBONES),
        show_default=False,
        help="Network: gin, pna, leconv, dmpnn, or your own as file.py:Class. [default: dmpnn for "
        "tables of molecules, else gin]",
    ),
]
RecipeFile = Annotated[
    Path | None,
    typer.Option(
        "--recipe",
        callback=_if_given(_check_recipe_file),
        help="TOML file of settings; they override the shipped recipe.",
    ),
]
Epochs = Annotated[int | None, typer.Option(min=1, help="Short for --set epochs=N.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        callback=check_settings,
        help="Change a setting (see: gsat settings). Repeatable.",
    ),
]
Device = Annotated[str, typer.Option(help="Torch device: cpu, cuda, cuda:1, …")]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads per run. [default: 1]")]
Refine = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=20,
        help="Refinement passes: explain again on the graph weighted by its own edge scores. "
        "[default: as trained]",
    ),
]


def limit_option(command: Command) -> Command:
    """Add ``--limit`` to a command that reads data."""
    option = typer.Option(
        "--limit",
        metavar="NAME=VALUE",
        callback=_raise_limits,
        is_eager=True,  # before any file is read
        show_default=False,
        help="Raise a limit on files that you trust, such as atoms=20000 or memory=4G (see "
        "docs/security.md). Repeatable.",
    )
    only = inspect.Parameter.KEYWORD_ONLY
    kind = Annotated[list[str] | None, option]
    return _with_options(command, [inspect.Parameter("limit", only, default=None, annotation=kind)])


def _with_options(command: Command, added: list[inspect.Parameter]) -> Command:
    """Add options whose callbacks do all the work: the command does not receive them."""
    signature = inspect.signature(command, eval_str=True)

    @functools.wraps(command)
    def run(*arguments: Any, **values: Any) -> Any:
        for parameter in added:
            values.pop(parameter.name, None)
        return command(*arguments, **values)

    kept = list(signature.parameters.values())
    last = [p for p in kept if p.kind is p.VAR_KEYWORD]
    kept = [p for p in kept if p.kind is not p.VAR_KEYWORD]
    run.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*kept, *added, *last]
    )
    return run  # type: ignore[return-value]


def _raise_limits(settings: list[str] | None) -> list[str] | None:
    raise_limits(settings or [])
    return settings


# -- output ----------------------------------------------------------------------------------------

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Hide progress bars.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Audit = Annotated[
    bool,
    typer.Option(
        "--audit/--no-audit",
        help="Your own data: finish with a short audit of the explanations, which takes at most a "
        "tenth of the training time.",
    ),
]


def all_settings(settings: list[str] | None, epochs: int | None) -> list[str]:
    """Return the settings of ``--set`` and ``--epochs``."""
    return [*(settings or []), *([f"epochs={epochs}"] if epochs else [])]


def set_threads(threads: int | None) -> None:
    """Set the number of CPU threads that torch uses; one by default."""
    import torch

    torch.set_num_threads(threads or 1)


def check_json_or_file(as_json: bool, out: Path | None) -> None:
    """Raise if both ``--json`` and ``--out`` are given."""
    if as_json and out is not None:
        raise GSATError(f"--json prints, and --out {out} writes a file; give one of them")


def parse_time(text: str) -> float:
    """Convert a time such as 90s, 30m, 2h, 1h30m or 1d to seconds."""
    units = {"d": 86400, "h": 3600, "m": 60, "s": 1}
    parts = re.findall(r"(\d+(?:\.\d+)?)([dhms])", text)
    if not parts or "".join(f"{number}{unit}" for number, unit in parts) != text.replace(" ", ""):
        raise GSATError(f"a time is written like 2h, 90m or 1h30m, not '{text}'")
    return sum(float(number) * units[unit] for number, unit in parts)
