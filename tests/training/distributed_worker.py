"""What two processes do under torchrun for the tests: everything that needs both, in one launch.

Each writes what it has at the end of each task to ``FOLDER/NAME-RANK.safetensors`` or ``.json``.
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
from gsat.errors import DataError, GSATError, RunError
from gsat.launch.progress import Progress
from gsat.training.process_group import ProcessGroup
from gsat.training.recipe import make_recipe
from gsat.training.train import load_data
from training_harness import small_recipe


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    team = ProcessGroup()

    def keep(name: str, tensors: dict[str, torch.Tensor]) -> None:
        save_file(tensors, folder / f"{name}-{team.rank}.safetensors")

    def tell(name: str, values: Any) -> None:
        (folder / f"{name}-{team.rank}.json").write_text(json.dumps(values))

    _small_talk(team, tell)
    data = load_data(small_recipe())
    for mode in ("eval", "train"):
        batch = data.train.batch(team.part(ROWS))
        method = first_step(small_recipe(), data, batch, mode, team)
        team.synchronise_statistics(method.networks().values())
        team.release()
        keep(f"gradients-{mode}", _gradients(method.model))
        keep(f"buffers-{mode}", dict(method.model.named_buffers()))
    for name, recipe in (
        ("gsat", small_recipe()),
        ("gsat-star", small_recipe(method="gsat-star", **STAR)),
        ("erm", small_recipe(method="erm", **PLATEAU)),
    ):
        run = gsat.train(recipe, folder / name)
        keep(name, run.model.state_dict())
        tell(name, [run.result, run.record().get("processes")])
    tell("unlike", _error(lambda: _unlike(folder / "unlike")))
    model, graphs = model_and_graphs()
    run = gsat.fit(model, graphs, epochs=2, batch_size=len(graphs.train) - 1)
    keep("of-one", run.model.state_dict())
    if team.is_main:  # nothing is left on the model that would wait for the other process
        model(graphs.train.batch([0, 1])).logits.sum().backward()
    _interrupted(folder / "interrupted", tell)
    tell("lost", _error(lambda: _killed(folder / "killed")))


def _small_talk(team: ProcessGroup, tell: Any) -> None:
    """The words of the team, one by one."""
    mine = np.array_split(NUMBERS, [3])[team.rank]
    mean = team.mean(torch.tensor(np.nanmean(mine)), torch.tensor(mine))
    said: dict[str, Any] = {
        "part": team.part(np.arange(7)).tolist(),
        "small part": team.part(np.arange(1)).tolist(),
        "mean": float(mean),
        "averaged": team.averaged({"a": float(team.rank), "b": 5.0}),
        "any": [team.any(team.rank == 1), team.any(False)],
        "by main": team.by_main(lambda: {"rank": team.rank, "third": 1 / 3, "none": None}),
    }

    def fails() -> None:
        raise RunError("the disk is full")

    said["main fails"] = _error(lambda: team.by_main(fails))
    said["second fails"] = _error(lambda: _agree(team, team.rank == 1))
    said["both fail"] = _error(lambda: _agree(team, True))
    said["none fails"] = _error(lambda: _agree(team, False))
    said["same"] = _error(lambda: team.check_same("the data", ["a", 3]))
    said["not the same"] = _error(lambda: team.check_same("the data", ["a", team.rank]))
    tell("talk", said)


def _unlike(out: Path) -> None:
    """The second process has no such data; the first must not begin a run."""
    recipe = small_recipe(epochs=1)
    if dist.get_rank() == 1:
        recipe = make_recipe(str(out / "nothing.jsonl"), settings={"epochs": 1})
    gsat.train(recipe, out)


def _agree(team: ProcessGroup, failing: bool) -> None:
    with team.agreed():
        if failing:
            raise DataError(f"no data for {team.rank}")


def _error(task: Any) -> list[Any]:
    try:
        task()
    except GSATError as error:
        return [type(error).__name__, str(error), error.exit_code]
    return []


def _interrupted(out: Path, tell: Any) -> None:
    """Ctrl-C reaches the second process alone; then both go on."""
    seen = [0]
    before = Progress.advance

    def advance(self: Progress, status: str = "", steps: int = 1) -> None:
        seen[0] += 1
        if seen[0] == 5 and dist.get_rank() == 1:
            signal.raise_signal(signal.SIGINT)

    Progress.advance = advance  # type: ignore[method-assign]
    stopped = _error(lambda: gsat.train(small_recipe(), out))
    Progress.advance = before  # type: ignore[method-assign]
    tell("interrupted", [stopped, seen[0]])
    gsat.resume(out)


def _gradients(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def _killed(out: Path) -> None:
    """The second process is killed in the ninth epoch, with no time to say so."""
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
