"""A cache of pretrained backbones, so that runs which begin with the same one train it once.

GSAT* and all post-hoc explainers first train the same backbone without attention. The cache is a
folder of such backbones, keyed by the hash of everything their weights depend on. A run that loads
one has the log, the time and, to the last bit, the weights of a run that trained it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gsat.core.errors import CheckpointError
from gsat.core.files import checksum
from gsat.core.locks import locked
from gsat.core.parsing import ParseError, check_model
from gsat.core.writing import disk_errors
from gsat.methods import Method
from gsat.methods.pretraining import PretrainedMethod
from gsat.training import checkpoint
from gsat.training.checkpoint import State
from gsat.training.recipe import Recipe
from gsat.training.run_directory import RunDirectory, environment
from gsat.training.run_schemas import PretrainedValues
from gsat.training.time_spent import Spent


@dataclass(frozen=True)
class PretrainedEntry:
    """One pretrained backbone: its last epoch and its best one."""

    folder: Path  # has the form of a checkpoint
    method: PretrainedMethod

    def load(self) -> tuple[list[dict[str, Any]], Spent] | None:
        """Give the method the pretrained backbone in place of its first phase."""
        state = self._read()
        if state is None:
            return None
        assert state.best is not None
        epochs = state.values["epochs"]
        self.method.take_pretrained({"last": state.tensors, "best": state.best}, epochs)
        return state.values["log"], Spent.read(state.values)

    def store(self, log: list[dict[str, Any]], spent: Spent) -> None:
        """Store the backbone whose pretraining has just ended, unless the entry has one."""
        weights = self.method.pretrained_weights
        values = {"epochs": self.method.pretrained, "log": log, **spent.values()}
        with disk_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            with locked(self.folder / ".lock"):  # two runs may have trained it at the same time
                if self._read() is None:
                    state = State(len(log), weights["last"], weights["best"], values)
                    checkpoint.write(self.folder, state)

    def _read(self) -> State | None:
        """The stored state; None if there is none or it is damaged, so that it is trained again."""
        if not checkpoint.exists(self.folder):
            return None
        try:
            state = checkpoint.read(self.folder)[0]
            check_model(PretrainedValues, state.values)
        except (CheckpointError, ParseError):
            return None
        return None if state.best is None else state


def pretrained_entry(
    cache: str | Path, run: RunDirectory, recipe: Recipe, method: Method, data_hash: str
) -> PretrainedEntry | None:
    """The entry of a cache for the backbone that a run begins with; None if it has no such phase.

    None as well for a run that was started in another environment: its weights may differ.
    """
    here = numerics(environment())
    if not isinstance(method, PretrainedMethod) or numerics(run.environment) != here:
        return None
    key = {
        "data": recipe.data.model_dump(),
        "data_hash": data_hash,
        "split_seed": recipe.split_seed,
        "backbone": recipe.backbone.model_dump(),
        "seed": recipe.seed,
        **method.pretraining_key,
        "numerics": here,
        "results_version": method.model.backbone.results_version,
    }
    name = f"{recipe.data.label}-{recipe.backbone.name}-{checksum(key)[:16]}"
    return PretrainedEntry(Path(cache) / name / f"seed-{recipe.seed}", method)


def numerics(where: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an environment that weights depend on, to the last bit."""
    return {key: where.get(key) for key in ("versions", "machine", "cpu", "threads", "ops")}
