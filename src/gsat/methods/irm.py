"""IRM: one scale of the logits must be optimal in all environments."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from gsat.core.registry import register_method
from gsat.methods.environments import EnvironmentMethod, EnvironmentSettings, Group


class IRMSettings(EnvironmentSettings):
    """``[method.irm]``."""

    penalty: float = Field(0.1, ge=0, description="Weight of the penalty.")


@register_method("irm")
class IRMMethod(EnvironmentMethod):
    """Invariant risk minimisation, the practical version (IRMv1)."""

    title = "IRM"
    summary = "the backbone alone, optimal at one scale of the answers in all environments"
    paper = "Arjovsky et al., Invariant Risk Minimization, 2019 (arXiv:1907.02893)"
    Settings = IRMSettings

    def penalty(self, groups: list[Group]) -> Tensor:
        """The mean over environments of the squared gradient of the risk.

        The gradient is taken with respect to a factor of the logits, at 1.
        """
        slopes = []
        for logits, y in groups:
            scale = logits.new_ones(()).requires_grad_()
            risk = self.model.task.loss(scale * logits, y)
            slopes.append(torch.autograd.grad(risk, scale, create_graph=True)[0])
        return torch.stack(slopes).square().mean()
