"""What all tests share: a cache of their own, and the raw data where there is some."""

from __future__ import annotations

import os

# One thread each: the tests themselves run side by side, and two teams of threads on two cores
# wait for each other most of the time. Before torch is imported, and for child processes, too.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


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


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests never touch the user's cache or the network; GSAT_TEST_CACHE keeps one for sessions."""
    kept = os.environ.get("GSAT_TEST_CACHE")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSAT_CACHE", kept or str(tmp_path_factory.mktemp("cache")))
        patch.setenv("GSAT_OFFLINE", "1")
        yield


@pytest.fixture(scope="session")
def raw_data() -> Iterator[Path]:
    """The folder of raw files, in GSAT_DATA; tests that ask for it are skipped without one."""
    beside = ROOT.parent / "shared" / "data"
    if os.environ.get("GSAT_DATA"):
        yield Path(os.environ["GSAT_DATA"])
    elif beside.is_dir():
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GSAT_DATA", str(beside))
            yield beside
    else:
        pytest.skip("no raw data: set GSAT_DATA to the folder that holds it (docs/data.md)")


@pytest.fixture(scope="session")
def raw_file(raw_data: Path) -> Callable[[str], Path]:
    """A raw file by its path under GSAT_DATA; the test is skipped where it is missing."""

    def find(path: str) -> Path:
        if not (raw_data / path).is_file():
            pytest.skip(f"the raw file {path} is not under GSAT_DATA (docs/data.md)")
        return raw_data / path

    return find
