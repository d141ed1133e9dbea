"""Registries: names without imports, plug-ins of other packages, classes in a user's file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gsat.core.errors import GSATError, RecipeError
from gsat.core.registry import BACKBONES, DATASETS, METHODS, Registry, load_file, loaded_files


@pytest.fixture
def registry() -> Registry[type]:
    return Registry("method", "gsat.methods", "register_method", "gsat.none", RecipeError)


def test_names_import_nothing() -> None:
    code = (
        "import sys; from gsat.core.registry import METHODS, BACKBONES; "
        "print(*METHODS); print(*BACKBONES); assert 'gsatt' not in METHODS; "
        "assert not {'torch', 'numpy', 'pydantic'} & set(sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    methods, backbones = out.stdout.splitlines()
    assert {"gsat", "erm", "pgexplainer"} <= set(methods.split())
    assert {"gin", "pna"} <= set(backbones.split())


@pytest.mark.parametrize("parts", [METHODS, BACKBONES, DATASETS])
def test_a_registry_behaves_like_a_dictionary(parts: Registry[Any]) -> None:
    assert [*parts] == [*parts.names()] == [name for name, _ in parts.items()]
    assert len(parts) == len(parts.values()) == len(set(parts)) > 0
    for name, part in parts.items():
        assert parts[name] is part
        assert part.name == name or parts is DATASETS  # one class may have several names
        assert parts.accepts(part)
    assert parts.get("none", None) is None


def test_an_unknown_name_is_refused_with_the_closest() -> None:
    for ask in (METHODS.get, METHODS.check, METHODS.__getitem__, METHODS.resolve):
        with pytest.raises(RecipeError, match=r"'gsatt'.*'gsat'"):
            ask("gsatt")
    with pytest.raises(RecipeError) as caught:
        METHODS.check("a" * 3000)
    assert len(str(caught.value)) < 700


def test_a_name_is_taken_once(registry: Registry[type]) -> None:
    @registry.register("mine")
    class Mine: ...

    class Other: ...

    assert registry["mine"] is Mine
    assert Mine.name == "mine"  # type: ignore[attr-defined]
    registry["mine"] = Mine  # registering a class again is allowed
    for name in ("mine", "gsat"):
        with pytest.raises(RecipeError, match=name):
            registry[name] = Other
    with pytest.raises(RecipeError, match="a b/c"):
        registry["a b/c"] = Other
    del registry["mine"]
    assert "mine" not in registry


# -- plug-ins of other packages -------------------------------------------------------------------


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package, on the import path, whose entry points are methods."""
    (tmp_path / "outside_plugin.py").write_text(
        "from gsat.methods.erm import ERMMethod\n"
        "class Outside(ERMMethod):\n    title = 'Outside'\n"
        "class NoMethod: ...\n"
    )
    meta = tmp_path / "outside_plugin-1.0.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: outside-plugin\nVersion: 1.0\n")
    (meta / "entry_points.txt").write_text(
        "[gsat.methods]\noutside = outside_plugin:Outside\nno-method = outside_plugin:NoMethod\n"
        "gone = outside_nowhere:Gone\ngsat = outside_plugin:Outside\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_entry_points_are_found(package: Path) -> None:
    found = Registry[type](
        "method", "gsat.methods", "register_method", "gsat.methods", RecipeError,
        "gsat.methods.base.Method",
    )  # fmt: skip
    assert {"outside", "no-method", "gone"} <= set(found.names())
    assert "outside_plugin" not in sys.modules  # names are listed without imports
    outside = found["outside"]
    assert (outside.__name__, outside.name) == ("Outside", "outside")  # type: ignore[attr-defined]
    assert METHODS["gsat"].__module__ == "gsat.methods.gsat"  # plug-ins can't replace built-ins
    with pytest.raises(RecipeError, match=r"'gone' .*ModuleNotFoundError"):
        found["gone"]
    with pytest.raises(RecipeError, match=r"'no-method' .*gsat.methods.base"):
        found["no-method"]


# -- a user's file --------------------------------------------------------------------------------

FILE = """
from gsat.methods.erm import ERMMethod
from gsat.models import GIN
from gsat.core.registry import register_method

class ByName(ERMMethod):
    name = "by-name"

class Bare(ERMMethod): ...

@register_method("decorated")
class Decorated(ERMMethod): ...

class Nothing: ...

class Net(GIN):
    name = "by-name"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


def test_a_class_in_a_file_is_registered_under_its_name(file: Path) -> None:
    for wanted, name in (("ByName", "by-name"), ("Bare", "Bare"), ("Decorated", "decorated")):
        assert METHODS.resolve(f"{file}:{wanted}") == name
        assert METHODS[name].__name__ == wanted
        assert loaded_files("gsat", name) == [f"{file}:{wanted}"]
    assert BACKBONES.resolve(f"{file}:Net") == "by-name"  # as the method
    assert loaded_files("by-name", "by-name") == [f"{file}:ByName", f"{file}:Net"]
    first = METHODS["by-name"]
    assert load_file(f"{file}:ByName") == "by-name"  # a file is imported once
    assert METHODS["by-name"] is first


def test_unusable_files_are_one_line_errors(file: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("import no_such_module_at_all\n")
    for text, message in (
        ("gsat", "gsat"),
        (f"{tmp_path}/none.py:A", "none.py"),
        (f"{file}:Absent", "Absent"),
        (f"{file}:Nothing", "Nothing"),
        (f"{broken}:A", "ModuleNotFoundError"),
    ):
        with pytest.raises(GSATError, match=message) as caught:
            load_file(text)
        assert "\n" not in str(caught.value)
    with pytest.raises(RecipeError, match="ByName"):
        BACKBONES.resolve(f"{file}:ByName")
