"""Fixtures of the tests of the command line: a trained run and an interrupted one."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_harness import SMALL, Trained, succeed

import gsat
from gsat.core.errors import Interrupted
from gsat.launch.progress import Progress
from gsat.training.recipe import make_recipe


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Two epochs on 60 graphs: 48 to train, 6 to validate, 6 to test."""
    path = tmp_path_factory.mktemp("cli") / "run"
    output = succeed("train", *SMALL, "--epochs", 2, "--out", path)
    return Trained(path, output)


@pytest.fixture
def copied(trained: Trained, tmp_path: Path) -> Path:
    """A copy of the trained run, to be changed."""
    return Path(shutil.copytree(trained.path, tmp_path / "copied"))


@pytest.fixture(scope="session")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Makes a run at a path that Ctrl-C stopped after epoch 3 of 4, with two checkpoints."""
    kept = tmp_path_factory.mktemp("cli-cut") / "run"
    done = 0

    def press(progress: Progress, status: str = "") -> None:
        nonlocal done
        done += 1
        if done == 3:
            signal.raise_signal(signal.SIGINT)

    recipe = make_recipe("ba2motifs", settings={"graphs": 60, "epochs": 4})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Progress, "advance", press)
        with pytest.raises(Interrupted):
            gsat.train(recipe, kept, checkpoint_seconds=0)
    return lambda path: Path(shutil.copytree(kept, path))


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, never stopped."""
    path = tmp_path_factory.mktemp("cli-whole") / "run"
    succeed("train", *SMALL, "--epochs", 4, "--out", path)
    return path
