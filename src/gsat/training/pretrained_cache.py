"""First phases that are kept, so that runs which begin in the same way train them once.

GSAT* and all post-hoc explainers train the same backbone alone before they do anything of their
own. A pretrained_cache is a folder with such backbones by the hash of everything they depend on; a run that
takes one from there has the log, the time and, to the last bit, the weights of one that trained it.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gsat.errors import CheckpointError
from gsat.io.files import checksum, disk_errors
from gsat.methods import Method
from gsat.training import checkpoint
from gsat.training.checkpoint import State
from gsat.training.recipe import Recipe
from gsat.training.run_directory import RunDirectory, environment


def numerics(where: Mapping[str, Any]) -> dict[str, Any]:
    """What of an environment weights depend on, to the last bit."""
    return {key: where.get(key) for key in ("versions", "machine", "cpu", "threads", "ops")}


@dataclass(frozen=True)
class PretrainedCache:
    """The place of one first phase on a pretrained_cache.

    Attributes:
        folder: where it lies, as a checkpoint of the last epoch and the best one.
    """

    folder: Path

    @classmethod
    def of(
        cls,
        pretrained_cache: str | Path,
        run: RunDirectory,
        recipe: Recipe,
        method: Method,
        data_hash: str,
        **more: Any,
    ) -> PretrainedCache | None:
        """The place for the first phase of a run, if it has one and it can be shared: one that was
        begun elsewhere, with other numerics, is no other run's.

        Args:
            more: what else its weights depend on, as plain values.
        """
        here = numerics(environment())
        if method.first is None or numerics(run.environment) != here:
            return None
        told = {
            "data": recipe.data.model_dump(),
            "data_hash": data_hash,
            "split_seed": recipe.split_seed,
            "backbone": recipe.backbone.model_dump(),
            "seed": recipe.seed,
            **method.first.identity,
            "numerics": here,
            **more,
        }
        what = f"{recipe.data.label}-{recipe.backbone.name}-{checksum(told)[:16]}"
        return cls(Path(pretrained_cache) / what / f"seed-{recipe.seed}")

    def take(self, method: Method) -> tuple[list[dict[str, Any]], float] | None:
        """Give the method the network, if it is there.

        Returns:
            The log of its epochs and the seconds they took.
        """
        state = self._read()
        if state is None:
            return None
        assert method.first is not None
        assert state.best is not None
        method.first.take({"last": state.tensors, "best": state.best}, state.values["epochs"])
        return state.values["log"], state.values["seconds"]

    def put(self, method: Method, log: list[dict[str, Any]], seconds: float) -> None:
        """Keep the network whose training has just ended, unless it is there."""
        assert method.first is not None
        weights = method.first.weights
        values = {"epochs": method.first.epochs, "log": log, "seconds": seconds}
        with self._locked():
            if self._read() is None:
                state = State(len(log), weights["last"], weights["best"], values)
                checkpoint.write(self.folder, state)

    def _read(self) -> State | None:
        """What lies there; None if nothing does or it is damaged, for then it is trained again."""
        try:
            return checkpoint.read(self.folder)[0] if checkpoint.exists(self.folder) else None
        except CheckpointError:
            return None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Two runs may have trained it side by side."""
        with disk_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / ".lock").open("w") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX)
                yield
