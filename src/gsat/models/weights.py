"""Weights of networks: initial ones by seed, and saved ones checked before they are loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from gsat.errors import GSATError
from gsat.ops import Draws


@contextmanager
def seeded(seed: int, *purpose: str) -> Iterator[None]:
    """Make initial weights depend on a seed and a purpose alone.

    Torch's own generator is as before afterwards.

    Args:
        seed: The seed.
        purpose: What the weights are for.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(Draws(seed, "initial weights", *purpose).torch_seed())
        yield


def load_weights(network: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Load a state dict whose names and shapes are exactly the network's, or change nothing.

    Args:
        network: What the weights go into.
        weights: A state dict.

    Raises:
        GSATError: If a name is missing or unknown, or a shape differs.
    """
    own = network.state_dict()
    problems = [
        f"'{name}' is [{', '.join(map(str, weights[name].shape))}] and has to be "
        f"[{', '.join(map(str, tensor.shape))}]"
        for name, tensor in own.items()
        if name in weights and weights[name].shape != tensor.shape
    ]
    for what, names in (("missing", own.keys() - weights), ("unknown", weights.keys() - own)):
        problems += [f"'{name}' is {what}" for name in sorted(names)]
    if problems:
        listed = ", ".join(problems[:3])
        listed += f" (and {len(problems) - 3} more)" if len(problems) > 3 else ""
        raise GSATError(
            f"the weights do not fit this {type(network).__name__}: {listed}; "
            f"make the network with the settings it was trained with"
        )
    network.load_state_dict(dict(weights))
