"""Adam in one pass over all weights, without torch's compiler."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn


class Adam(torch.optim.Adam):
    """:class:`torch.optim.Adam` in its fused form, bit for bit, with the same state.

    Several methods of torch's optimisers import the compiler ``torch._dynamo`` on their first call,
    which takes longer than a short training: here they are free of it.

    Args:
        params: The weights.
        lr: Learning rate.
        weight_decay: Weight decay. (default: ``0.0``)
    """

    # torch wraps these methods so that the compiler skips them; unwrapped, they never import it.
    add_param_group = inspect.unwrap(torch.optim.Adam.add_param_group)
    state_dict = inspect.unwrap(torch.optim.Adam.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Adam.load_state_dict)
    zero_grad = inspect.unwrap(torch.optim.Adam.zero_grad)

    def __init__(
        self, params: Iterable[nn.Parameter], lr: float, weight_decay: float = 0.0
    ) -> None:
        super().__init__(params, lr, weight_decay=weight_decay, fused=True)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update the weights by their gradients; ``closure`` is not supported."""
        assert closure is None
        for group in self.param_groups:
            weights: list[Tensor] = []
            grads: list[Tensor] = []
            means: list[Tensor] = []
            squares: list[Tensor] = []
            steps: list[Tensor] = []
            self._init_group(group, weights, grads, means, squares, [], steps)
            if weights:
                torch._foreach_add_(steps, 1)
                torch._fused_adam_(
                    weights, grads, means, squares, [], steps,
                    lr=group["lr"], beta1=group["betas"][0], beta2=group["betas"][1],
                    weight_decay=group["weight_decay"], eps=group["eps"], amsgrad=False,
                    maximize=False, grad_scale=None, found_inf=None,
                )  # fmt: skip
