"""Checkpoints: all that a run needs to resume exactly, as safetensors and JSON, never pickled.

``ckpt/epoch-N/`` holds ``state.safetensors`` (weights, optimiser state), ``best.safetensors`` (the
weights of the best epoch so far, if any) and ``state.json`` (the rest, with the checksums of the
other files). It is complete on disk before ``ckpt/LAST`` is replaced to name it. The previous
checkpoint is kept, and is used if the last one turns out to be damaged.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor
from torch.optim import Optimizer

from gsat.errors import CheckpointError
from gsat.io.atomic import sync_folder, write_bytes, write_text
from gsat.io.hashes import checksum, sha256
from gsat.methods import Method
from gsat.models.saved import to_safetensors

Tensors = dict[str, Tensor]


@dataclass
class State:
    """What a checkpoint holds.

    Attributes:
        epoch: How many epochs are done, over all phases.
        tensors: Weights and optimiser state by name.
        best: Weights of the best epoch so far, if any.
        values: Plain values: the state of the loop, the method and the optimisers.
    """

    epoch: int
    tensors: Tensors
    best: Tensors | None = None
    values: dict[str, Any] = field(default_factory=dict)


def capture(method: Method) -> tuple[Tensors, dict[str, Any]]:
    """Collect the state of a method.

    Args:
        method: The method, in any phase.

    Returns:
        Its tensors by name, and its plain values.
    """
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
    """Load what :func:`capture` collected.

    Args:
        method: A method in the same phase.
        tensors: Tensors by name.
        values: Plain values.
    """
    for name, network in method.networks().items():
        network.load_state_dict(_below(tensors, f"network/{name}"))
    for name, optimiser in method.optimisers().items():
        optimiser.load_state_dict(_optimiser_state(optimiser, name, tensors, values))
    method.load_extra_state(values["method"])


def write(folder: Path, state: State) -> None:
    """Write a checkpoint and make it the last one.

    Args:
        folder: The folder of all checkpoints (``ckpt``).
        state: What to write; its epoch names the checkpoint.
    """
    target = folder / f"epoch-{state.epoch}"
    if target.exists():
        shutil.rmtree(target)
    target.mkdir(parents=True)
    files = {"state.safetensors": to_safetensors(state.tensors)}
    if state.best is not None:
        files["best.safetensors"] = to_safetensors(state.best)
    for name, content in files.items():
        write_bytes(target / name, content)
    values = {"epoch": state.epoch, "values": state.values}
    checks = {name: sha256(content) for name, content in files.items()}
    checks["values"] = checksum(values)
    # Not write_json: a method's state may be infinite (the lowest loss of no epoch).
    text = json.dumps({**values, "sha256": checks}, indent=2)
    write_text(target / "state.json", f"{text}\n")
    sync_folder(folder)
    previous = _last_name(folder)
    write_text(folder / "LAST", f"{target.name}\n")
    for old in folder.glob("epoch-*"):
        if old.name not in (target.name, previous):
            shutil.rmtree(old, ignore_errors=True)


def read(folder: Path) -> tuple[State, list[str]]:
    """Read the newest intact checkpoint.

    Args:
        folder: The folder of all checkpoints (``ckpt``).

    Returns:
        What it holds, and what was wrong with newer ones.

    Raises:
        CheckpointError: If there is no intact checkpoint.
    """
    last, names = _last_name(folder), _names(folder)
    problems: list[str] = []
    # A folder newer than LAST was being written when the run was killed.
    if last in names:
        names = names[names.index(last) :]
    else:
        problems.append(f"LAST names '{last}', which does not exist")
    for name in names:
        try:
            return _read_one(folder / name), problems
        except CheckpointError as error:
            problems.append(str(error))
    detail = "; ".join(problems) or "there is none"
    raise CheckpointError(f"no usable checkpoint in {folder}: {detail}")


def discard_newer(folder: Path, epoch: int) -> None:
    """Remove checkpoints newer than one, which are damaged or unfinished, and make it the last.

    Args:
        folder: The folder of all checkpoints (``ckpt``).
        epoch: The epoch of the one to keep.
    """
    name = f"epoch-{epoch}"
    if _last_name(folder) != name:
        write_text(folder / "LAST", f"{name}\n")
    names = _names(folder)
    for newer in names[: names.index(name)]:
        shutil.rmtree(folder / newer, ignore_errors=True)


def exists(folder: Path) -> bool:
    """Whether a checkpoint was ever completed below ``folder``."""
    return (folder / "LAST").is_file()


def _read_one(folder: Path) -> State:
    try:
        described = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        checks = dict(described.pop("sha256"))
        if checksum(described) != checks.pop("values"):
            raise CheckpointError(f"{folder.name}/state.json is damaged: wrong checksum")
        loaded: dict[str, Tensors] = {}
        for name, expected in checks.items():
            content = (folder / name).read_bytes()
            if sha256(content) != expected:
                raise CheckpointError(f"{folder.name}/{name} is damaged: wrong checksum")
            loaded[name] = load(content)
        return State(
            epoch=int(described["epoch"]),
            tensors=loaded["state.safetensors"],
            best=loaded.get("best.safetensors"),
            values=described["values"],
        )
    except (OSError, ValueError, KeyError, AttributeError, TypeError, SafetensorError) as error:
        raise CheckpointError(f"{folder.name} can't be read ({error})") from error


def _names(folder: Path) -> list[str]:
    """All checkpoint folders, finished or not, newest first."""
    return sorted(
        (p.name for p in folder.glob("epoch-*") if p.name.removeprefix("epoch-").isdecimal()),
        key=lambda name: int(name.removeprefix("epoch-")),
        reverse=True,
    )


def _last_name(folder: Path) -> str | None:
    file = folder / "LAST"
    return file.read_text(encoding="utf-8", errors="replace").strip() if file.is_file() else None


def _prefixed(prefix: str, tensors: Mapping[str, Any]) -> Tensors:
    return {f"{prefix}/{name}": torch.as_tensor(value) for name, value in tensors.items()}


def _below(tensors: Tensors, prefix: str) -> Tensors:
    start = f"{prefix}/"
    return {name[len(start) :]: t for name, t in tensors.items() if name.startswith(start)}


def _optimiser_state(
    optimiser: Optimizer, name: str, tensors: Tensors, values: Mapping[str, Any]
) -> dict[str, Any]:
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in _below(tensors, f"optimiser/{name}").items():
        index, entry = key.split("/", 1)
        state.setdefault(int(index), {})[entry] = tensor
    groups = [
        # JSON has no tuples; Adam's betas are one.
        {k: tuple(v) if isinstance(v, list) and k == "betas" else v for k, v in group.items()}
        for group in values["optimisers"][name]
    ]
    return {"state": state, "param_groups": groups}
