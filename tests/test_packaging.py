"""The wheel: contents, dependencies, and a run in an empty environment."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from source_tree import PACKAGE, ROOT, modules, relative, tree

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Distributions of modules with another name.
DISTRIBUTIONS = {
    "skimage": "scikit-image",
    "llvmlite": "numba",
    "pydantic_core": "pydantic",
    "sklearn": "scikit-learn",
    "starlette": "fastapi",
    "anyio": "fastapi",
    "markupsafe": "jinja2",
}


# Modules that are imported only where an extra is installed.
NEED_EXTRA = {"gsat.web.": "web", "gsat.molecules.parquet": "parquet"}


def _names(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=\[]", requirement)[0] for requirement in requirements}


def _third_party(module: str) -> Iterator[tuple[str, int, bool]]:
    """The distributions a module imports, where, and whether as soon as it is imported itself."""
    deferred = {
        id(inner)
        for node in ast.walk(tree(module))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.If | ast.Try)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        else:
            continue
        for top in {name.partition(".")[0] for name in names}:
            if top not in sys.stdlib_module_names and top != "gsat":
                distribution = DISTRIBUTIONS.get(top, top.replace("_", "-"))
                yield distribution, node.lineno, id(node) not in deferred


def test_all_imports_are_declared_dependencies() -> None:
    core, extras = _names(PROJECT["dependencies"]), PROJECT["optional-dependencies"]
    optional = set().union(*(_names(extras[name]) for name in extras if name != "dev"))
    undeclared = []
    for module in modules():
        needed = [extras[name] for start, name in NEED_EXTRA.items() if module.startswith(start)]
        first = core.union(*map(_names, needed))
        undeclared += [
            f"{relative(modules()[module])}:{line} {distribution}"
            for distribution, line, at_once in _third_party(module)
            if distribution not in (first if at_once else core | optional)
        ]
    assert not undeclared


def test_all_dependencies_are_imported() -> None:
    imported = {name for module in modules() for name, _, _ in _third_party(module)}
    assert _names(PROJECT["dependencies"]) - imported == set()


def test_the_development_extra_includes_all_others() -> None:
    extras = set(PROJECT["optional-dependencies"]) - {"dev"}
    (own,) = (r for r in PROJECT["optional-dependencies"]["dev"] if r.startswith(PROJECT["name"]))
    assert set(own.partition("[")[2].rstrip("]").split(",")) == extras


def test_the_hooks_run_the_tested_ruff() -> None:
    pinned = re.search(r"^ruff==(.+)$", (ROOT / "constraints.txt").read_text("utf-8"), re.MULTILINE)
    assert pinned is not None
    assert f"rev: v{pinned[1]}\n" in (ROOT / ".pre-commit-config.yaml").read_text("utf-8")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("build")
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, folder)
    litter = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", folder / "src", ignore=litter)
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=litter)
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", str(folder)],
        cwd=folder, env=_plain_environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "dist"


def _plain_environment() -> dict[str, str]:
    """The environment without access to this source tree."""
    return {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "GSAT_CACHE")}


def test_the_wheel_contains_exactly_the_package(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert wheel.name == f"torch_gsat-{PROJECT['version']}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    metadata = {name for name in held if ".dist-info/" in name}
    expected = {
        f"gsat/{path.relative_to(PACKAGE).as_posix()}"
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"gsat/py.typed", "gsat/recipes/default-gin.toml", "gsat/cli/__init__.py"} <= expected
    assert held - metadata == expected
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in metadata)
    assert any(name.endswith(".dist-info/entry_points.txt") for name in metadata)


def test_the_source_distribution_builds_without_the_repository(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "src/gsat/py.typed"} <= held


def test_versions_agree() -> None:
    import gsat

    assert gsat.__version__ == PROJECT["version"]
    assert f"## [{PROJECT['version']}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"version: {PROJECT['version']}" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_demo_runs_from_the_wheel_in_an_empty_environment(built: Path, tmp_path: Path) -> None:
    environment = _plain_environment()
    (wheel,) = built.glob("*.whl")
    python = tmp_path / "venv" / "bin" / "python"
    for command in (
        [sys.executable, "-m", "venv", tmp_path / "venv"],
        [python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel],
        [python.with_name("gsat"), "demo", "--epochs", "1", "--quiet", "--out", "demo"],
    ):
        done = subprocess.run(
            list(map(str, command)),
            cwd=tmp_path, env={**environment, "GSAT_CACHE": str(tmp_path / "cache")},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    assert (tmp_path / "demo" / "explained.png").stat().st_size > 0
    assert (tmp_path / "demo" / "run" / "result.json").is_file()
    # Extras are not installed.
    listed = subprocess.run(
        [str(python), "-m", "pip", "list", "--format=freeze"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
    ).stdout.lower()  # fmt: skip
    installed = {line.partition("==")[0].replace("_", "-") for line in listed.splitlines()}
    heavy = {"ray", "transformers", "ogb", "captum", "rdkit", "scikit-image", "pandas", "pytest"}
    assert not installed & heavy
