"""The information bottleneck (Eq. 9 of the paper): what attention costs, and the schedule of r.

The objective (Eq. 8) is the prediction loss plus β times KL(P_φ(G_S | G) ‖ Q(G_S)), an upper bound
of the information I(G_S; G) that the attended graph carries. The prior Q keeps every edge with the
same probability r, so the KL is a sum over edges:

    Σ_uv  p_uv log(p_uv / r) + (1 − p_uv) log((1 − p_uv) / (1 − r))

As in the published code, we average it over all entries of a batch (β = 1 / |E|), and by default
compute it on the sample α instead of p.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from gsat.ops import bernoulli_kl


def information(alpha: Tensor, r: float) -> Tensor:
    """KL(Bern(α) ‖ Bern(r)), averaged over all entries; 0 where every α is r, and for no entries.

    Example:
        >>> import torch
        >>> from gsat.bottleneck import information
        >>> [round(information(torch.full((4,), a), 0.7).item(), 3) for a in (0.0, 0.7, 1.0)]
        [1.204, 0.0, 0.357]
    """
    return bernoulli_kl(alpha, r)


def sparsity(alpha: Tensor) -> Tensor:
    """The ℓ1 loss of the paper's ablation: the mean of α, 0 for no entries."""
    return alpha.mean() if alpha.numel() else alpha.sum()


@dataclass(frozen=True)
class Schedule:
    """The prior by epoch: r(t) = max(start − ⌊t / interval⌋ · step, final).

    Training starts with a prior close to 1, which keeps almost everything, and lowers it stepwise.

    Example:
        >>> from gsat.bottleneck import Schedule
        >>> [round(Schedule().r(epoch), 1) for epoch in (0, 9, 10, 20, 99)]
        [0.9, 0.9, 0.8, 0.7, 0.7]
    """

    start: float = 0.9
    final: float = 0.7
    step: float = 0.1
    interval: int = 10

    def r(self, epoch: int) -> float:
        """The prior in an epoch, counted from 0."""
        steps = min(epoch // self.interval, self.steps)
        return self.final if steps == self.steps else self.start - steps * self.step

    @property
    def steps(self) -> int:
        """The number of times r falls. An integer: comparing r with final would compare floats."""
        fall = self.start - self.final
        if fall <= 0 or self.step <= 0:
            return 0
        # 0.9 − 0.5 over 0.1 is 4.000000000000001 in floating point and must count as 4.
        return math.ceil(fall / self.step - 1e-9)

    @property
    def epochs_to_final(self) -> int:
        """The first epoch in which r is final."""
        return self.steps * self.interval
