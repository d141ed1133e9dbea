"""Checkpoints: all that a run needs to resume exactly, as safetensors and JSON, never pickled.

``ckpt/epoch-N/`` holds ``state.safetensors`` (weights, optimiser state), ``best.safetensors`` (the
weights of the best epoch so far, if any), ``snapshots.safetensors`` (those of the last epochs, if
the run keeps them) and ``state.json`` (the rest, with the checksums of the other files). It is
complete on disk before ``ckpt/LAST`` is replaced to name it. The previous checkpoint is kept, and
is used if the last one turns out to be damaged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from pydantic import Field
from torch import Tensor
from torch.optim import Optimizer

from gsat.core import system
from gsat.core.errors import CheckpointError, shown
from gsat.core.files import checksum, is_regular, read_file, read_json, sha256
from gsat.core.limits import memory_limit
from gsat.core.parsing import FileModel
from gsat.core.writing import sync_folder, write_bytes, write_text
from gsat.methods import Method
from gsat.models.saved import from_safetensors, to_safetensors
from gsat.models.weights import check_fit

Tensors = dict[str, Tensor]
_STATE: Final = "state.safetensors"
_BEST: Final = "best.safetensors"
_SNAPSHOTS: Final = "snapshots.safetensors"


class StateFile(FileModel):
    """The file ``state.json``; the ``values`` depend on the method."""

    epoch: int = Field(ge=0, lt=2**31)
    values: dict[str, Any]
    sha256: dict[str, str]


@dataclass
class State:
    """What a checkpoint holds."""

    epoch: int  # number of finished epochs, over all phases
    tensors: Tensors  # weights and optimiser state
    best: Tensors | None = None  # weights of the best epoch so far
    values: dict[str, Any] = field(default_factory=dict)  # of the loop, method and optimisers
    snapshots: dict[int, Tensors] = field(default_factory=dict)  # weights by epoch


def capture(method: Method) -> tuple[Tensors, dict[str, Any]]:
    """Collect the state of a method."""
    tensors: Tensors = {}
    for name, network in method.networks().items():
        tensors.update(_prefixed(f"network/{name}", network.state_dict()))
    groups: dict[str, Any] = {}
    for name, optimiser in method.optimisers().items():
        state = optimiser.state_dict()
        groups[name] = state["param_groups"]
        for index, entries in state["state"].items():
            tensors.update(_prefixed(f"optimiser/{name}/{index}", entries))
    return tensors, {"optimisers": groups, "method": method.extra_state()}


def restore(method: Method, tensors: Tensors, values: Mapping[str, Any]) -> None:
    """Load what :func:`capture` collected."""
    for name, network in method.networks().items():
        weights = _below(tensors, f"network/{name}")
        check_fit(network, weights)
        network.load_state_dict(weights)
    for name, optimiser in method.optimisers().items():
        optimiser.load_state_dict(_optimiser_state(optimiser, name, tensors, values))
    method.load_extra_state(values["method"])


def write(folder: Path, state: State) -> None:
    """Write a checkpoint and make it the last one."""
    target = folder / f"epoch-{state.epoch}"
    system.remove_tree(target)
    for path in (folder, target):
        system.make_folder(path)
    files = {_STATE: to_safetensors(state.tensors)}
    if state.best is not None:
        files[_BEST] = to_safetensors(state.best)
    if state.snapshots:
        named = [_prefixed(str(epoch), weights) for epoch, weights in state.snapshots.items()]
        files[_SNAPSHOTS] = to_safetensors({k: v for part in named for k, v in part.items()})
    for name, content in files.items():
        write_bytes(target / name, content)
    values = {"epoch": state.epoch, "values": state.values}
    checks = {name: sha256(content) for name, content in files.items()}
    checks["values"] = checksum(values)
    # Not write_json: the state may hold infinity (the lowest loss before the first epoch).
    text = json.dumps({**values, "sha256": checks}, indent=2)
    write_text(target / "state.json", f"{text}\n")
    sync_folder(folder)
    previous = _last_name(folder)
    write_text(folder / "LAST", f"{target.name}\n")
    for old in folder.glob("epoch-*"):
        if old.name not in (target.name, previous):
            system.remove_tree(old)


def read(folder: Path) -> tuple[State, list[str]]:
    """Read the newest intact checkpoint."""
    last, names = _last_name(folder), _names(folder)
    problems: list[str] = []
    # A folder newer than LAST was being written when the run was killed.
    if last in names:
        names = names[names.index(last) :]
    else:
        problems.append(f"LAST names '{shown(last, 40)}', which does not exist")
    for name in names:
        try:
            return _read_one(folder / name), problems
        except CheckpointError as error:
            problems.append(str(error).removeprefix(f"{folder}/"))
    detail = "; ".join(problems) or "there is none"
    raise CheckpointError(f"no usable checkpoint in {folder}: {detail}")


def discard_newer(folder: Path, epoch: int) -> None:
    """Make a checkpoint the last one; newer ones, which are damaged or unfinished, are removed."""
    name = f"epoch-{epoch}"
    if _last_name(folder) != name:
        write_text(folder / "LAST", f"{name}\n")
    names = _names(folder)
    for newer in names[: names.index(name)]:
        system.remove_tree(folder / newer)


def exists(folder: Path) -> bool:
    """Whether a checkpoint was ever completed below ``folder``."""
    return is_regular(folder / "LAST")


def _read_one(folder: Path) -> State:
    described = read_json(folder / "state.json", StateFile, error=CheckpointError, infinite=True)
    checks = dict(described.pop("sha256"))
    if checksum(described) != checks.pop("values", None):
        raise CheckpointError(f"{folder.name}/state.json is damaged: wrong checksum")
    if not {_STATE} <= checks.keys() <= {_STATE, _BEST, _SNAPSHOTS}:
        raise CheckpointError(f"{folder.name}/state.json is damaged: it names other files")
    loaded: dict[str, Tensors] = {}
    for name, expected in checks.items():
        content = read_file(folder / name, error=CheckpointError, limit=memory_limit())
        if sha256(content) != expected:
            raise CheckpointError(f"{folder.name}/{name} is damaged: wrong checksum")
        loaded[name] = from_safetensors(content, f"{folder.name}/{name}")
    values, snapshots = described["values"], _by_epoch(loaded.get(_SNAPSHOTS, {}))
    return State(described["epoch"], loaded[_STATE], loaded.get(_BEST), values, snapshots)


def _by_epoch(tensors: Tensors) -> dict[int, Tensors]:
    """Snapshots by the number of their epoch, from names that begin with it."""
    snapshots: dict[int, Tensors] = {}
    for name, tensor in tensors.items():
        epoch, _, rest = name.partition("/")
        if not epoch.isdecimal() or len(epoch) > 10:
            raise CheckpointError(f"{_SNAPSHOTS} is damaged: it names '{shown(name, 60)}'")
        snapshots.setdefault(int(epoch), {})[rest] = tensor
    return dict(sorted(snapshots.items()))


def _names(folder: Path) -> list[str]:
    """All checkpoint folders, finished or not, newest first."""
    return sorted(
        (p.name for p in folder.glob("epoch-*") if p.name.removeprefix("epoch-").isdecimal()),
        key=lambda name: int(name.removeprefix("epoch-")),
        reverse=True,
    )


def _last_name(folder: Path) -> str | None:
    file = folder / "LAST"
    if not is_regular(file):
        return None
    content = read_file(file, error=CheckpointError)
    return content.decode("utf-8", errors="replace").strip()


def _prefixed(prefix: str, tensors: Mapping[str, Any]) -> Tensors:
    return {f"{prefix}/{name}": torch.as_tensor(value) for name, value in tensors.items()}


def _below(tensors: Tensors, prefix: str) -> Tensors:
    start = f"{prefix}/"
    return {name[len(start) :]: t for name, t in tensors.items() if name.startswith(start)}


def _optimiser_state(
    optimiser: Optimizer, name: str, tensors: Tensors, values: Mapping[str, Any]
) -> dict[str, Any]:
    own = optimiser.state_dict()["param_groups"]
    groups = [
        # JSON has no tuples; Adam's betas are one.
        {k: tuple(v) if isinstance(v, list) and k == "betas" else v for k, v in group.items()}
        for group in values["optimisers"][name]
    ]
    if not _alike(groups, own) or [g["params"] for g in groups] != [g["params"] for g in own]:
        raise ValueError(f"the settings of the optimiser '{name}' are not those of this one")
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in _below(tensors, f"optimiser/{name}").items():
        index, entry = key.split("/", 1)
        if tensor.ndim and tensor.shape != parameters[int(index)].shape:
            raise ValueError(f"the state of the optimiser '{name}' is of another network")
        state.setdefault(int(index), {})[entry] = tensor
    return {"state": state, "param_groups": groups}


def _alike(loaded: Any, own: Any) -> bool:
    """Whether plain values have the same keys, lengths and types."""
    if isinstance(own, dict):
        same = isinstance(loaded, dict) and loaded.keys() == own.keys()
        return same and all(_alike(loaded[key], own[key]) for key in own)
    if isinstance(own, (list, tuple)):
        same = isinstance(loaded, (list, tuple)) and len(loaded) == len(own)
        return same and all(map(_alike, loaded, own))
    if isinstance(own, bool) or own is None:
        return type(loaded) is type(own)
    if isinstance(own, (int, float)):
        return isinstance(loaded, (int, float)) and not isinstance(loaded, bool)
    return True
