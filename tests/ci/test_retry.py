"""Failed tests are retried once: one that passes then is flaky, else it fails the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RETRY = Path(__file__).parents[2] / ".ci" / "retry.py"
TESTS = """
from pathlib import Path

def test_flaky():
    seen = Path("seen")
    before = seen.exists()
    seen.touch()
    assert before

def test_broken():
    assert False

def test_fine():
    pass
"""


def _pytest(folder: Path, *names: str) -> None:
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", *names]
    subprocess.run(command, cwd=folder, capture_output=True, check=False)


def _retry(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(RETRY)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_test_that_passes_alone_is_named_and_does_not_fail_the_run(tmp_path: Path) -> None:
    _pytest(tmp_path, "test_it.py::test_flaky", "test_it.py::test_fine")
    done = _retry(tmp_path)
    assert done.returncode == 0
    assert "FLAKY test_it.py::test_flaky" in done.stdout
    assert "test_fine" not in done.stdout


def test_a_test_that_fails_again_fails_the_run(tmp_path: Path) -> None:
    _pytest(tmp_path)
    done = _retry(tmp_path)
    assert done.returncode == 1
    assert "FAILED AGAIN test_it.py::test_broken" in done.stdout


@pytest.mark.parametrize("failed", [None, "{}"])
def test_a_failure_without_failed_tests_stays_one(tmp_path: Path, failed: str | None) -> None:
    if failed is not None:
        cache = tmp_path / ".pytest_cache" / "v" / "cache"
        cache.mkdir(parents=True)
        (cache / "lastfailed").write_text(failed)
    assert _retry(tmp_path).returncode == 1
