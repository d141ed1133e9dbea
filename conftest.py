"""What all tests share: a cache of their own, and raw data files for the tests that ask for them.

A test asks for raw files by the fixture ``raw_data`` or ``raw_file``, or by the mark ``raw_data``.
The mark is added to every test that uses the fixtures, so ``-m "not raw_data"`` leaves them out.
Environment variables:

- ``GSAT_DATA``: the folder of raw files; without it, ``../shared/data`` where it exists.
- ``GSAT_TEST_RAW=none``: hide the raw files even where they are found; those tests are skipped.
- ``GSAT_TEST_CACHE``: a cache folder to keep between test runs.
"""

from __future__ import annotations

import os

# One thread each: the tests themselves run side by side, and two pools of threads on two cores
# wait for each other most of the time; and equal bytes are promised at equal thread counts. Before
# torch is imported, and for child processes, too.
os.environ["OMP_NUM_THREADS"] = "1"

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch

from gsat.core.registry import BACKBONES, DATASETS, METHODS

ROOT = Path(__file__).resolve().parent
HIDDEN = os.environ.get("GSAT_TEST_RAW") == "none"
# Several folders have a conftest.py; as doctest modules they would all have the same name.
collect_ignore_glob = ["*/conftest.py"]


def _raw_folder() -> Path | None:
    beside = ROOT.parent / "shared" / "data"
    if HIDDEN:
        return None
    if os.environ.get("GSAT_DATA"):
        return Path(os.environ["GSAT_DATA"])
    return beside if beside.is_dir() else None


RAW = _raw_folder()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests that use raw files, directly or through another fixture."""
    if "raw_data" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.raw_data)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Set GSAT_DATA for the tests that ask for raw files and for no other.

    A test that needs them without asking would pass here and fail for everybody else.
    """
    if RAW is not None and item.get_closest_marker("raw_data"):
        os.environ["GSAT_DATA"] = str(RAW)
    else:
        os.environ.pop("GSAT_DATA", None)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Beside the slowest tests, show the slowest files: many short tests take time, too."""
    shown = config.getoption("durations")
    if not shown:
        return
    seconds: Counter[str] = Counter()
    for report in chain.from_iterable(terminalreporter.stats.values()):
        if isinstance(report, pytest.TestReport):
            seconds[report.nodeid.split("::")[0]] += report.duration
    terminalreporter.section(f"slowest {shown} files, of {sum(seconds.values()):.0f}s in all")
    for file, duration in seconds.most_common(shown):
        terminalreporter.write_line(f"{duration:.2f}s {file}")


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> Iterator[None]:
    """Tests press Ctrl-C, which is ignored in the background of a script and under nohup.

    Processes that tests start are interruptible as well: a handler of ours is none of theirs, and
    they begin with the system's default.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _examples_write_elsewhere(request: pytest.FixtureRequest) -> None:
    """Run doctests in a temporary folder: an example may write files."""
    if isinstance(request.node, pytest.DoctestItem):
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """A test or a command that sets the number of threads does so for itself alone."""
    yield
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _own_names() -> Iterator[None]:
    """What a test registers is forgotten after it."""
    registries = (METHODS, BACKBONES, DATASETS)
    before = [set(registry.names()) for registry in registries]
    yield
    for registry, known in zip(registries, before, strict=True):
        for name in registry._registered.keys() - known:
            del registry[name]


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep tests away from the user's cache and from the network."""
    # A kept cache holds data sets made from raw files: they would be in reach again.
    kept = None if HIDDEN else os.environ.get("GSAT_TEST_CACHE")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSAT_CACHE", kept or str(tmp_path_factory.mktemp("cache")))
        patch.setenv("GSAT_OFFLINE", "1")
        yield


@pytest.fixture(scope="session")
def raw_data() -> Path:
    """The folder of raw files; tests that use it are skipped where there is none."""
    if RAW is None:
        pytest.skip("no raw data: set GSAT_DATA to the folder that holds it (docs/data.md)")
    return RAW


@pytest.fixture(scope="session")
def raw_file(raw_data: Path) -> Callable[[str], Path]:
    """Find a raw file by its path under GSAT_DATA; the test is skipped where it is missing."""

    def find(path: str) -> Path:
        if not (raw_data / path).is_file():
            pytest.skip(f"the raw file {path} is not under GSAT_DATA (docs/data.md)")
        return raw_data / path

    return find
