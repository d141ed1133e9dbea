"""Names, paths and settings checked before anything heavy is imported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gsat.core.errors import DataError, DataNotFoundError, RecipeError, shown
from gsat.core.files import exists, open_file
from gsat.core.registry import BACKBONES, METHODS, Registry, load_file

if TYPE_CHECKING:
    from gsat.datasets.source import DatasetSource


def check_method(name: str) -> str:
    """Return the name of a method, or a ``file.py:Class`` whose file is there; else raise."""
    return _check(METHODS, name)


def check_backbone(name: str) -> str:
    """Return the name of a backbone, or a ``file.py:Class`` whose file is there; else raise."""
    return _check(BACKBONES, name)


def check_dataset(name: str) -> str:
    """Return the name of a data set, or a path that is there; else raise."""
    from gsat.datasets.registry import find_source, full_name, is_path

    if not is_path(name):
        find_source(name)
    elif not exists(full_name(name)):
        raise DataNotFoundError(f"there is no file or folder {shown(full_name(name))}")
    return name


def find_dataset(name: str) -> DatasetSource:
    """Return what is known of a named data set; raise if there is none."""
    from gsat.datasets.registry import find_source, is_path

    if is_path(name):
        raise DataError(f"{name} is a path, not the name of a data set; check it with --check")
    return find_source(name)


def check_recipe_file(path: Path) -> Path:
    """Return the path of a recipe that can be read; else raise."""
    open_file(path, error=RecipeError, links=True).close()
    return path


def check_setting(text: str) -> str:
    """Return a text of the form ``key=value``; else raise."""
    from gsat.core.settings import parse_setting

    parse_setting(text)
    return text


def load_part(name: str) -> str:
    """Register the class of a ``file.py:Class``; return the name to use."""
    return load_file(name) if _is_file(name) else name


def _is_file(name: str) -> bool:
    return ".py:" in name


def _check(parts: Registry[Any], name: str) -> str:
    if _is_file(name):
        file = Path(name.rpartition(":")[0])
        if not file.is_file():
            raise RecipeError(f"there is no file {file} to load a {parts.kind} from")
        return name
    parts.check(name)
    return name
