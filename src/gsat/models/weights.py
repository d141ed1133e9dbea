"""Weights of networks: seeded initial ones, and checks of saved ones."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from gsat.core.errors import GSATError, shown
from gsat.core.limits import check_size
from gsat.ops import Draws

Network = TypeVar("Network", bound=nn.Module)
MOST_PARTS: Final = 20_000  # maximum number of layers and parameters of a network


@contextmanager
def seeded(seed: int, *purpose: str) -> Iterator[None]:
    """Seed torch's generator by a seed and a purpose, and restore it afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(Draws(seed, "initial weights", *purpose).torch_seed())
        yield


class _TooManyPartsError(GSATError):
    """A network has more parts than its saved weights allow."""


def outline(build: Callable[[], Network], parameters: int | None = None) -> Network | None:
    """Build a network without memory for its weights, to check its size."""
    most = MOST_PARTS if parameters is None else min(MOST_PARTS, 10 * parameters + 100)
    left, thread = [most], threading.get_ident()

    def count(module: nn.Module, name: str, part: object) -> None:
        if threading.get_ident() == thread:
            left[0] -= 1
            if left[0] < 0:
                raise _TooManyPartsError(f"its network has more than {most} parts")

    hooks = [
        register_module_parameter_registration_hook(count),
        register_module_module_registration_hook(count),
    ]
    try:
        with torch.device("meta"):
            network = build()
    except _TooManyPartsError:
        raise
    except Exception:  # the caller builds the network anyway and gets the error
        return None
    finally:
        for hook in hooks:
            hook.remove()
    size = sum(tensor.numel() * tensor.element_size() for tensor in network.state_dict().values())
    check_size(size, "its network", GSATError)
    return network


def load_weights(network: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Load a state dict with exactly the network's names and shapes, or change nothing.

    Raises:
        GSATError: If a name is missing or unknown, or a shape differs.
    """
    check_fit(network, weights)
    network.load_state_dict(dict(weights))


def check_fit(network: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Raise unless the names and shapes of weights are exactly a network's."""
    expected = network.state_dict()
    problems = [
        f"'{name}' is [{', '.join(map(str, weights[name].shape))}] but must be "
        f"[{', '.join(map(str, tensor.shape))}]"
        for name, tensor in expected.items()
        if name in weights and weights[name].shape != tensor.shape
    ]
    problems += [
        f"'{name}' is of {weights[name].dtype} but must be of {tensor.dtype}"
        for name, tensor in expected.items()
        if name in weights and _kind(weights[name]) != _kind(tensor)
    ]
    for what, names in (
        ("missing", expected.keys() - weights),
        ("unknown", weights.keys() - expected),
    ):
        problems += [f"'{shown(name, 60)}' is {what}" for name in sorted(names)]
    if problems:
        listed = ", ".join(problems[:3])
        listed += f" (and {len(problems) - 3} more)" if len(problems) > 3 else ""
        raise GSATError(
            f"the weights do not fit this {type(network).__name__}: {listed}; "
            f"make the network with the settings it was trained with"
        )


def _kind(tensor: Tensor) -> tuple[bool, bool, bool]:
    return tensor.is_floating_point(), tensor.is_complex(), tensor.dtype == torch.bool
