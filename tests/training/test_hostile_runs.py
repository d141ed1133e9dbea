"""Untrusted run directories are refused, and do no harm."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import gsat
from gsat.core.errors import CheckpointError, GSATError, RunError
from gsat.core.files import checksum
from gsat.models.weights import outline
from gsat.training.loop import Loop
from gsat.training.run_directory import RunDirectory
from training_harness import one_line, small_recipe

DEEP = "[" * 100_000


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trained") / "run"
    gsat.train(small_recipe(epochs=2), path, checkpoint_seconds=0)
    return path


@pytest.fixture
def finished(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


@pytest.fixture
def stopped(finished: Path) -> Path:
    (finished / "result.json").unlink()
    return finished


def refused(call: Any, kind: type[GSATError] = GSATError) -> str:
    with pytest.raises(kind) as caught:
        call()
    return one_line(caught.value)


# -- links -----------------------------------------------------------


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A folder that must stay as it is."""
    folder = tmp_path / "outside"
    (folder / "epoch-1").mkdir(parents=True)
    names = ("notes.txt", "model-old.safetensors", ".x.partial", "epoch-1/state.json")
    for name in names:
        (folder / name).write_text("mine")
    yield folder
    assert sorted(str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file()) == sorted(
        names
    )
    assert all((folder / name).read_text() == "mine" for name in names)


@pytest.mark.parametrize(
    "name",
    [
        ".lock", "best", "ckpt", "ckpt/epoch-2", "metrics.jsonl", "recipe.toml", "timing.json",
        "environment.json", "ckpt/LAST", "ckpt/epoch-2/state.json", "best/model.json", "another",
    ],
)  # fmt: skip
def test_no_link_in_a_run_is_followed(name: str, stopped: Path, outside: Path) -> None:
    place = stopped / name
    if place.is_dir():
        shutil.rmtree(place)
        place.symlink_to(outside)
    else:
        place.unlink(missing_ok=True)
        place.symlink_to(outside / "notes.txt")
    for use in (gsat.resume, lambda path: gsat.open_run(path).model, RunDirectory.open):
        assert "symbolic link" in refused(lambda use=use: use(stopped)) or name == "recipe.toml"
    assert gsat.list_runs(stopped) == []


@pytest.mark.parametrize("name", ["metrics.jsonl", "timing.json", "best/model.json", ".lock"])
def test_a_fifo_in_a_run_is_not_waited_for(name: str, stopped: Path) -> None:
    (stopped / name).unlink(missing_ok=True)
    os.mkfifo(stopped / name)
    assert "not a regular file" in refused(lambda: gsat.resume(stopped))


def test_a_hard_link_to_a_users_file_is_not_written_to(stopped: Path, tmp_path: Path) -> None:
    log = (stopped / "metrics.jsonl").read_bytes()
    (tmp_path / "mine").write_bytes(log)
    for name in ("metrics.jsonl", ".lock"):
        (stopped / name).unlink(missing_ok=True)
        (stopped / name).hardlink_to(tmp_path / "mine")
    gsat.resume(stopped)
    assert (tmp_path / "mine").read_bytes() == log


# -- descriptions -----------------------------------------------------------


def describe(run: Path, **changes: Any) -> None:
    """Change a description and its checksum."""
    file = run / "best" / "model.json"
    values = {**json.loads(file.read_text()), **changes}
    del values["check"]
    file.write_text(json.dumps({**values, "check": checksum(values)}))


@pytest.mark.parametrize(
    "name", ["/dev/zero", "../../x", "../recipe.toml", ".", "", "a\0b", "x" * 999]
)
def test_a_description_names_a_file_beside_it(name: str, finished: Path) -> None:
    describe(finished, file=name)
    refused(lambda: gsat.load(finished), CheckpointError)


@pytest.mark.parametrize(
    "change",
    [
        {"hidden": 10**9}, {"layers": 10**9}, {"in_features": 10**9}, {"hidden": 4}, {"layers": 2},
        {"hidden": "x"}, {"hidden": -1}, {"name": "nothing"}, {"name": 3}, {"task": {}},
        {"task": None}, {"more": 1}, {"categories": [10**9]}, {"categories": "x"},
        {"categories": [2] * 100_000}, {"dropout": 2}, {"edge_features": 10**9},
    ],
)  # fmt: skip
def test_sizes_are_compared_before_anything_is_allocated(
    change: dict[str, Any], finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = json.loads((finished / "best" / "model.json").read_text())["config"]
    config["model"]["backbone"] |= change
    describe(finished, config=config)
    made = torch.nn.Linear.__init__
    sizes: list[int] = []

    def watch(self: Any, inside: int, outside: int, *args: Any, **how: Any) -> None:
        made(self, inside, outside, *args, **how)
        if self.weight.device.type != "meta":
            sizes.append(self.weight.numel())

    monkeypatch.setattr(torch.nn.Linear, "__init__", watch)
    refused(lambda: gsat.load(finished), CheckpointError)
    assert sum(sizes) < 10_000


@pytest.mark.parametrize("setting", ["hidden = 1000000000", "layers = 1000000000"])
def test_a_recipe_can_not_ask_for_any_size(setting: str, stopped: Path) -> None:
    recipe, name = stopped / "recipe.toml", setting.split()[0]
    lines = [
        setting if line.startswith(f"{name} =") else line for line in recipe.read_text().split("\n")
    ]
    recipe.write_text("\n".join(lines))
    (stopped / "environment.json").write_text("{}")  # without the checksum of the recipe
    said = refused(lambda: gsat.resume(stopped))
    assert "1000000000" in said


def test_an_outline_takes_no_memory_and_counts_parts() -> None:
    made = outline(lambda: torch.nn.Linear(1000, 100_000))
    assert made is not None
    assert made.weight.device.type == "meta"
    with pytest.raises(GSATError, match="of memory"):
        outline(lambda: torch.nn.Linear(10**6, 10**6))
    with pytest.raises(GSATError, match="more than 110 parts"):
        outline(lambda: torch.nn.ModuleList(torch.nn.Identity() for _ in range(200)), 1)
    assert torch.nn.Linear(2, 2).weight.device.type == "cpu"
    assert outline(lambda: 1 / 0) is None  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize("name", ["environment.json", "timing.json", "ckpt/epoch-2/state.json"])
@pytest.mark.parametrize(
    "content", ["", "null", "[]", DEEP, '{"seconds": NaN}', '{"a": 1, "a": 1}', "\x00", "{}"]
)
def test_files_that_are_something_else(name: str, content: str, stopped: Path) -> None:
    (stopped / name).write_text(content)
    shutil.rmtree(stopped / "ckpt" / "epoch-1", ignore_errors=True)
    if name == "environment.json" and content == "{}":
        gsat.resume(stopped)  # a run of an earlier version
    else:
        refused(lambda: gsat.resume(stopped))


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        (("values", "best"), {"epoch": "x", "valid": {}}),
        (("values", "best"), 3),
        (("values", "optimisers"), {}),
        (("values", "optimisers"), {"model": [{"lr": "x"}]}),
        (("values", "optimisers", "model", 0, "lr"), None),
        (("values", "optimisers", "model", 0, "params"), [10**9]),
        (("values", "method"), None),
        (("epoch",), -1),
        (("epoch",), 10**9),
        (("epoch",), True),
    ],
)
def test_a_checkpoint_with_wrong_values(path: tuple[Any, ...], wrong: Any, stopped: Path) -> None:
    shutil.rmtree(stopped / "ckpt" / "epoch-1", ignore_errors=True)
    file = stopped / "ckpt" / "epoch-2" / "state.json"
    values = json.loads(file.read_text())
    place = values
    for key in path[:-1]:
        place = place[next(iter(place)) if key == "model" and key not in place else key]
    place[path[-1]] = wrong
    checks = values.pop("sha256")
    values["sha256"] = {**checks, "values": checksum(values)}
    file.write_text(json.dumps(values))
    refused(lambda: gsat.resume(stopped))


@pytest.mark.parametrize(
    "content",
    ["garbage\n" * 2, "{}\n{}\n", "", '{"phase": "train", "epoch": NaN}\n' * 2, DEEP + "\n" + DEEP],
)
def test_a_log_of_garbage_is_refused(content: str, stopped: Path) -> None:
    (stopped / "metrics.jsonl").write_text(content)
    assert "metrics.jsonl" in refused(lambda: gsat.resume(stopped), RunError)


# -- while it trains -----------------------------------------------------------


@pytest.mark.parametrize("how", ["removed", "replaced", "moved"])
def test_a_run_directory_that_goes_away_is_an_error(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, epoch = tmp_path / "run", Loop._epoch

    def lose(self: Loop, *args: Any) -> Any:
        line = epoch(self, *args)
        if self.done == 12:  # an epoch that may be selected: its weights would make the folder anew
            if how == "moved":
                out.rename(tmp_path / "elsewhere")
            else:
                shutil.rmtree(out)
            if how == "replaced":
                out.mkdir()
        return line

    monkeypatch.setattr(Loop, "_epoch", lose)
    said = refused(lambda: gsat.train(small_recipe(), out), RunError)
    assert "was removed or replaced while the run was training" in said
    assert not (out / "result.json").exists()


def test_a_model_is_not_used_while_another_thread_trains_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = gsat.load_dataset("ba2motifs", graphs=20)
    model = gsat.GSAT(gsat.GIN.for_data(data, hidden=8, layers=1))
    said: list[str] = []
    epoch = Loop._epoch

    def meanwhile(self: Loop, *args: Any) -> Any:
        def use() -> None:
            for call in (model.predict, model.explain):
                said.append(refused(lambda call=call: call(data.test)))

        other = threading.Thread(target=use)
        other.start()
        other.join()
        return epoch(self, *args)

    monkeypatch.setattr(Loop, "_epoch", meanwhile)
    gsat.fit(model, data, epochs=1)
    assert len(said) == 2
    assert all("being trained by another thread" in line for line in said)
    assert len(model.predict(data.test).labels) == len(data.test)
