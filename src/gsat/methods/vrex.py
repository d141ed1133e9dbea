"""V-REx: the risk must be the same in all environments."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from gsat.core.registry import register_method
from gsat.core.settings import ADDED_LATER
from gsat.methods.environments import EnvironmentMethod, EnvironmentSettings, Group


class VRExSettings(EnvironmentSettings):
    """``[method.vrex]``."""

    penalty: float = Field(10.0, ge=0, description="Weight of the penalty.")
    variance: Literal["population", "sample"] = Field(
        "population",
        json_schema_extra=ADDED_LATER,
        description="Variance of n risks: their squared deviations over n, or over n - 1 as in "
        "GOOD's code ('sample'), which is twice as much with two environments.",
    )


@register_method("vrex")
class VRExMethod(EnvironmentMethod):
    """Risk extrapolation by the variance of risks."""

    title = "V-REx"
    summary = "the backbone alone, with the same risk in all environments"
    paper = (
        "Krueger et al., Out-of-Distribution Generalization via Risk Extrapolation, ICML 2021 "
        "(arXiv:2003.00688)"
    )
    Settings = VRExSettings
    settings: VRExSettings

    def penalty(self, groups: list[Group]) -> Tensor:
        """The variance of the risks over environments; 0 where a batch has only one."""
        risks = torch.stack([self.model.task.loss(logits, y) for logits, y in groups])
        sample = self.settings.variance == "sample" and len(risks) > 1
        return risks.var(correction=1 if sample else 0)
