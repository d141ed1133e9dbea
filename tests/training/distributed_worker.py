"""Tasks of two processes under torchrun, all in one launch.

Each process writes the results of each task to ``FOLDER/NAME-RANK.safetensors`` or ``.json``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from distributed_tasks import NUMBERS, PLATEAU, ROWS, STAR, first_step, model_and_graphs
from safetensors.torch import save_file

import gsat
from gsat.core.errors import DataError, GSATError, RunError
from gsat.launch.progress import Progress
from gsat.training.process_group import ProcessGroup
from gsat.training.recipe import load_data, make_recipe
from training_harness import small_recipe


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    group = ProcessGroup()

    def keep(name: str, tensors: dict[str, torch.Tensor]) -> None:
        save_file(tensors, folder / f"{name}-{group.rank}.safetensors")

    def answer(name: str, values: Any) -> None:
        (folder / f"{name}-{group.rank}.json").write_text(json.dumps(values))

    _collectives(group, answer)
    data = load_data(small_recipe())
    for mode in ("eval", "train"):
        batch = data.train.batch(group.part(ROWS))
        method = first_step(small_recipe(), data, batch, mode, group)
        group.synchronise_statistics(method.networks().values())
        group.release()
        keep(f"gradients-{mode}", _gradients(method.model))
        keep(f"buffers-{mode}", dict(method.model.named_buffers()))
    for name, recipe in (
        ("gsat", small_recipe()),
        ("gsat-star", small_recipe(method="gsat-star", **STAR)),
        ("erm", small_recipe(method="erm", **PLATEAU)),
    ):
        run = gsat.train(recipe, folder / name)
        keep(name, run.model.state_dict())
        answer(name, [run.result, run.record().get("processes")])
    answer("unlike", _error(lambda: _unlike(folder / "unlike")))
    model, graphs = model_and_graphs()
    run = gsat.fit(model, graphs, epochs=2, batch_size=len(graphs.train) - 1)
    keep("of-one", run.model.state_dict())
    if group.is_main:  # nothing is left on the model that would wait for the other process
        model(graphs.train.batch([0, 1])).logits.sum().backward()
    _interrupted(folder / "interrupted", answer)
    answer("lost", _error(lambda: _killed(folder / "killed")))


def _collectives(group: ProcessGroup, answer: Any) -> None:
    """Every collective operation of the group."""
    mine = np.array_split(NUMBERS, [3])[group.rank]
    mean = group.mean(torch.tensor(np.nanmean(mine)), torch.tensor(mine))
    answers: dict[str, Any] = {
        "part": group.part(np.arange(7)).tolist(),
        "small part": group.part(np.arange(1)).tolist(),
        "mean": float(mean),
        "average": group.average({"a": float(group.rank), "b": 5.0}),
        "any": [group.any(group.rank == 1), group.any(False)],
        "on main": group.on_main(lambda: {"rank": group.rank, "third": 1 / 3, "none": None}),
    }

    def fails() -> None:
        raise RunError("the disk is full")

    answers["main fails"] = _error(lambda: group.on_main(fails))
    answers["second fails"] = _error(lambda: _agree(group, group.rank == 1))
    answers["both fail"] = _error(lambda: _agree(group, True))
    answers["none fails"] = _error(lambda: _agree(group, False))
    answers["same"] = _error(lambda: group.check_same("the data", ["a", 3]))
    answers["not the same"] = _error(lambda: group.check_same("the data", ["a", group.rank]))
    answer("group", answers)


def _unlike(out: Path) -> None:
    """The second process has no such data; the first must not begin a run."""
    recipe = small_recipe(epochs=1)
    if dist.get_rank() == 1:
        recipe = make_recipe(str(out / "nothing.jsonl"), settings={"epochs": 1})
    gsat.train(recipe, out)


def _agree(group: ProcessGroup, failing: bool) -> None:
    with group.share_errors():
        if failing:
            raise DataError(f"no data for {group.rank}")


def _error(task: Any) -> list[Any]:
    try:
        task()
    except GSATError as error:
        return [type(error).__name__, str(error), error.exit_code]
    return []


def _interrupted(out: Path, answer: Any) -> None:
    """Ctrl-C reaches the second process alone; then both resume."""
    seen = [0]
    before = Progress.advance

    def advance(self: Progress, status: str = "", steps: int = 1) -> None:
        seen[0] += 1
        if seen[0] == 5 and dist.get_rank() == 1:
            signal.raise_signal(signal.SIGINT)

    Progress.advance = advance  # type: ignore[method-assign]
    stopped = _error(lambda: gsat.train(small_recipe(), out))
    Progress.advance = before  # type: ignore[method-assign]
    answer("interrupted", [stopped, seen[0]])
    gsat.resume(out)


def _gradients(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def _killed(out: Path) -> None:
    """The second process is killed in the ninth epoch, without a message."""
    seen = [0]

    def advance(self: Progress, status: str = "", steps: int = 1) -> None:
        seen[0] += 1
        if seen[0] == 9 and dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun's, which may come first
    Progress.advance = advance  # type: ignore[method-assign]
    gsat.train(small_recipe(), out, checkpoint_seconds=0.0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
