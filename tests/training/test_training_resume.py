"""A resumed run equals the uninterrupted one, byte by byte; damage is noticed and reported."""

from __future__ import annotations

import functools
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import gsat
from gsat.core.errors import CheckpointError, RunError
from gsat.methods.gsat import GSATMethod
from gsat.training import checkpoint
from training_harness import (
    differing,
    epochs_logged,
    flip_byte,
    forget_recipe,
    one_line,
    outcome,
    small_recipe,
    stopping,
)


@pytest.fixture(scope="module")
def stopped_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, float], Path]:
    """Interrupted runs, each made once."""
    folder = tmp_path_factory.mktemp("stopped")

    @functools.cache
    def make(epochs: int, checkpoint_seconds: float) -> Path:
        path = folder / f"{epochs}-{checkpoint_seconds}"
        with stopping(epochs), pytest.raises(KeyboardInterrupt):
            gsat.train(small_recipe(), path, checkpoint_seconds=checkpoint_seconds)
        return path

    return make


@pytest.fixture
def stopped(run_path: Path, stopped_once: Callable[[int, float], Path]) -> Callable[[int], Path]:
    """``stopped(k)``: a run interrupted when k epochs were logged and k - 1 were saved."""

    def make(epochs: int, checkpoint_seconds: float = 0.0) -> Path:
        return shutil.copytree(stopped_once(epochs, checkpoint_seconds), run_path)

    return make


def last(path: Path) -> Path:
    """The folder of the last checkpoint."""
    return path / "ckpt" / (path / "ckpt" / "LAST").read_text().strip()


# -- exactly where it stopped ---------------------------------------------------------------------


@pytest.mark.parametrize("epochs", [2, 7, 13, 14])
def test_a_resumed_run_equals_the_uninterrupted_one(
    epochs: int, stopped: Callable[[int], Path], uninterrupted: dict[str, bytes]
) -> None:
    path = stopped(epochs)
    assert last(path).name == f"epoch-{epochs - 1}"
    assert len(epochs_logged(path)) == epochs  # one more than was saved
    run = gsat.resume(path)
    assert differing(outcome(path), uninterrupted) == []
    assert run.result == json.loads((path / "result.json").read_text())


def test_a_run_stopped_before_its_first_checkpoint_starts_again(
    stopped: Callable[..., Path], uninterrupted: dict[str, bytes]
) -> None:
    path = stopped(13, checkpoint_seconds=1e9)
    assert (path / "best" / "model.json").is_file()
    assert not (path / "ckpt" / "LAST").exists()
    gsat.resume(path)
    assert differing(outcome(path), uninterrupted) == []


def test_a_best_model_newer_than_the_checkpoint_is_taken_back(
    stopped: Callable[[int], Path], uninterrupted: dict[str, bytes]
) -> None:
    """Epoch 11 is always selected: its model is on disk, its checkpoint is not."""
    path = stopped(12)
    assert json.loads((path / "best" / "model.json").read_text())["epoch"] == 11
    assert last(path).name == "epoch-11"
    state, _ = checkpoint.read(path / "ckpt")
    assert state.best is None
    with pytest.MonkeyPatch.context() as patch:
        # Stop at once: what `resume` itself does must have removed it.
        patch.setattr(GSATMethod, "step", _stop)
        with pytest.raises(KeyboardInterrupt):
            gsat.resume(path)
    assert not (path / "best").exists()
    with pytest.raises(RunError, match="has no model yet; resume it with: gsat resume"):
        gsat.load(path)
    gsat.resume(path)
    assert differing(outcome(path), uninterrupted) == []


def _stop(*_: Any) -> Any:
    raise KeyboardInterrupt


def test_a_finished_run_is_just_read(run_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = gsat.train(small_recipe(), run_path)
    before = {f: f.stat().st_mtime_ns for f in run_path.rglob("*")}
    monkeypatch.setattr(GSATMethod, "step", _stop)
    for _ in range(2):
        again = gsat.resume(run_path)
        assert again.result == run.result
        assert again.recipe == run.recipe
        assert again.path == run_path
        for name, tensor in run.model.state_dict().items():
            assert torch.equal(again.model.state_dict()[name], tensor)
    assert {f: f.stat().st_mtime_ns for f in run_path.rglob("*")} == before


@pytest.mark.parametrize("epochs", [14, 8])
def test_a_run_that_lacks_only_its_result_gets_the_same(epochs: int, run_path: Path) -> None:
    """Also when the last epoch is reported because none could be selected."""
    run = gsat.train(small_recipe(epochs=epochs), run_path)
    assert run.result["selected"] == ("best" if epochs == 14 else "last")
    before = outcome(run_path)
    (run_path / "result.json").unlink()
    gsat.resume(run_path)
    assert differing(outcome(run_path), before) == []


def test_the_time_of_all_sessions_counts(
    stopped: Callable[[int], Path],
) -> None:
    path = stopped(5)
    timing = json.loads((path / "timing.json").read_text())
    assert timing["epochs"] == 4
    (path / "timing.json").write_text(json.dumps({**timing, "seconds": 1000.0}))
    result = gsat.resume(path).result
    assert 1000 < result["seconds"] < 1100
    kept = json.loads((path / "timing.json").read_text())
    assert 1000 < kept["seconds"] <= result["seconds"] + 0.01


def test_cpu_time_is_recorded_beside_the_time_by_the_clock(
    stopped: Callable[[int], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stopped(5)
    timing = json.loads((path / "timing.json").read_text())
    assert timing["cpu_seconds"] > 0
    (path / "timing.json").write_text(json.dumps({**timing, "cpu_seconds": 500.0}))
    now = iter(range(10**6))  # each look at the CPU's clock is 100 s later
    monkeypatch.setattr(time, "process_time", lambda: 100.0 * next(now))
    result = gsat.resume(path).result
    assert result["cpu_seconds"] >= 600
    assert result["cpu_seconds"] % 100 == 0
    assert result["seconds"] < 100


def test_a_run_begun_by_an_earlier_version_has_no_cpu_time(
    stopped: Callable[[int], Path],
) -> None:
    path = stopped(5)
    timing = json.loads((path / "timing.json").read_text())
    del timing["cpu_seconds"]
    (path / "timing.json").write_text(json.dumps(timing))
    result = gsat.resume(path).result
    assert result["seconds"] > 0
    assert "cpu_seconds" not in result


def test_checkpoints_are_written_as_often_as_asked(run_path: Path) -> None:
    gsat.train(small_recipe(epochs=6), run_path, checkpoint_seconds=1e9)
    assert sorted(f.name for f in (run_path / "ckpt").iterdir()) == ["LAST", "epoch-6"]
    often = run_path.with_name("often")
    gsat.train(small_recipe(epochs=6), often, checkpoint_seconds=0)
    kept = ["LAST", "epoch-5", "epoch-6"]
    assert sorted(f.name for f in (often / "ckpt").iterdir()) == kept


# -- damage ---------------------------------------------------------------------------------------


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def damage_by_flipping(name: str, where: float = 0.5) -> Callable[[Path], None]:
    return lambda folder: flip_byte(folder / name, where)


DAMAGE: dict[str, Callable[[Path], None]] = {
    "a weight": damage_by_flipping("state.safetensors", 0.9),
    "the header": damage_by_flipping("state.safetensors", 0.0),
    "a letter": damage_by_flipping("state.json", 0.4),
    "a value": lambda folder: edit(folder / "state.json", '"lr": 0.001', '"lr": 0.003'),
    "the epoch": lambda folder: edit(folder / "state.json", '"epoch": 13', '"epoch": 12'),
    "the checksums": damage_by_flipping("state.json", 0.95),
    "the best": damage_by_flipping("best.safetensors", 0.7),
    "cut short": lambda folder: (folder / "state.json").write_text(
        (folder / "state.json").read_text()[:50]
    ) and None,
    "not text": lambda folder: (folder / "state.json").write_bytes(b"\xff\xfe\x00") and None,
    "something else": lambda folder: (folder / "state.json").write_text("[1, 2]") and None,
    "a missing file": lambda folder: (folder / "state.safetensors").unlink(),
    "the folder": lambda folder: shutil.rmtree(folder),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_checkpoint_gives_way_to_the_one_before(
    kind: str, stopped: Callable[[int], Path], uninterrupted: dict[str, bytes]
) -> None:
    path = stopped(14)
    assert last(path).name == "epoch-13"
    DAMAGE[kind](last(path))
    warnings: list[str] = []
    gsat.resume(path, warn=warnings.append, checkpoint_seconds=0)
    (warning,) = warnings
    assert "epoch-13" in warning
    assert "resuming from the checkpoint before it" in warning
    assert "\n" not in warning
    assert differing(outcome(path), uninterrupted) == []


def test_the_fall_back_is_kept_until_there_is_another(
    stopped: Callable[[int], Path],
) -> None:
    """A run that has fallen back once can fall back again, from any later epoch."""
    path = stopped(9)
    flip_byte(path / "ckpt" / "epoch-8" / "state.json")
    for epochs, folder in ((2, "epoch-8"), (1, "epoch-8"), (2, "epoch-9")):
        with stopping(epochs), pytest.raises(KeyboardInterrupt):
            gsat.resume(path, checkpoint_seconds=0)
        assert last(path).name == folder
        shutil.copytree(path, path.with_name("copy"))
        flip_byte(last(path.with_name("copy")) / "state.safetensors")
        warnings: list[str] = []
        with stopping(1), pytest.raises(KeyboardInterrupt):
            gsat.resume(path.with_name("copy"), warn=warnings.append, checkpoint_seconds=0)
        assert len(warnings) == 1
        shutil.rmtree(path.with_name("copy"))


def test_a_damaged_checkpoint_of_a_later_epoch_is_not_kept_as_fall_back(
    stopped: Callable[[int], Path],
) -> None:
    """Checkpoints need not fall on the same epochs in the second session."""
    path = stopped(9)
    folder = path / "ckpt"
    (folder / "epoch-8").rename(folder / "epoch-12")
    (folder / "LAST").write_text("epoch-12\n")
    flip_byte(folder / "epoch-12" / "state.json")
    with stopping(2), pytest.raises(KeyboardInterrupt):
        gsat.resume(path, checkpoint_seconds=0)
    assert sorted(f.name for f in folder.iterdir()) == ["LAST", "epoch-7", "epoch-8"]


def test_two_damaged_checkpoints_are_an_error_in_one_line(stopped: Callable[[int], Path]) -> None:
    path = stopped(9)
    flip_byte(path / "ckpt" / "epoch-8" / "state.safetensors")
    flip_byte(path / "ckpt" / "epoch-7" / "state.json")
    before = (path / "metrics.jsonl").read_bytes()
    with pytest.raises(CheckpointError, match="no usable checkpoint") as caught:
        gsat.resume(path)
    message = one_line(caught.value)
    assert "epoch-8/state.safetensors is damaged" in message
    assert "epoch-7" in message
    assert (path / "metrics.jsonl").read_bytes() == before


def test_a_checkpoint_that_holds_test_metrics_as_older_versions_wrote_them_is_resumed(
    stopped: Callable[[int], Path], uninterrupted: dict[str, bytes]
) -> None:
    path = stopped(13)
    state, _ = checkpoint.read(path / "ckpt")
    state.values["best"]["test"] = {"accuracy": 0.123}
    checkpoint.write(path / "ckpt", state)
    gsat.resume(path)
    assert differing(outcome(path), uninterrupted) == []


@pytest.mark.parametrize("content", [b"", b"epoch-99\n", b"\xff\xfe\n", b"../../elsewhere\n"])
def test_a_last_file_that_names_nothing_is_a_warning(
    content: bytes, stopped: Callable[[int], Path], uninterrupted: dict[str, bytes]
) -> None:
    path = stopped(9)
    (path / "ckpt" / "LAST").write_bytes(content)
    warnings: list[str] = []
    gsat.resume(path, warn=warnings.append)
    assert len(warnings) == 1
    assert "LAST" in warnings[0]
    assert differing(outcome(path), uninterrupted) == []


def test_a_checkpoint_names_no_other_files(stopped: Callable[[int], Path]) -> None:
    path = stopped(9)
    for folder in (path / "ckpt").glob("epoch-*"):
        shutil.copy(folder / "state.safetensors", path / "other.safetensors")
        described = json.loads((folder / "state.json").read_text())
        checks = described["sha256"]
        checks["../../other.safetensors"] = checks["state.safetensors"]
        (folder / "state.json").write_text(json.dumps(described))
    with pytest.raises(CheckpointError, match="other files"):
        gsat.resume(path)


def test_a_checkpoint_of_another_model_is_refused(
    stopped: Callable[[int], Path], tmp_path: Path
) -> None:
    path = stopped(9)
    gsat.train(small_recipe(hidden=16, epochs=2), tmp_path / "other")
    shutil.rmtree(path / "ckpt")
    shutil.copytree(tmp_path / "other" / "ckpt", path / "ckpt")
    with pytest.raises(CheckpointError, match="does not fit"):
        gsat.resume(path)


def test_a_recipe_with_fewer_epochs_than_were_done_is_refused(
    stopped: Callable[[int], Path],
) -> None:
    path = stopped(9)
    recipe = path / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("epochs = 14", "epochs = 5"))
    forget_recipe(path)
    with pytest.raises(RunError, match="has 3 epochs fewer"):
        gsat.resume(path)


def test_a_recipe_that_was_edited_is_refused_and_a_comment_is_not(
    stopped: Callable[[int], Path], uninterrupted: dict[str, bytes]
) -> None:
    path = stopped(9)
    recipe = path / "recipe.toml"
    before = recipe.read_text()
    recipe.write_text(before.replace("epochs = 14", "epochs = 15"))
    with pytest.raises(RunError, match="not the recipe that the run was started with"):
        gsat.resume(path)
    recipe.write_text(f"# mine\n{before}")
    gsat.resume(path)
    assert differing(outcome(path), uninterrupted) == []
