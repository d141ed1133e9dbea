"""The information bottleneck: what attention costs, and the schedule of its prior r."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from gsat.ops import bernoulli_kl


def information(alpha: Tensor, r: float) -> Tensor:
    """KL(Bernoulli(α) ‖ Bernoulli(r)), averaged over all entries; a scalar.

    Args:
        alpha: keep-probabilities or samples of them, any shape, in [0, 1].
        r: the prior probability.
    """
    return bernoulli_kl(alpha, r)


def sparsity(alpha: Tensor) -> Tensor:
    """The ℓ1 alternative of the paper's ablation: the mean of α; a scalar."""
    return alpha.mean() if alpha.numel() else alpha.sum()


@dataclass(frozen=True)
class Schedule:
    """r(t) = max(start − ⌊t / interval⌋ · step, final), over epochs t = 0, 1, …"""

    start: float = 0.9
    final: float = 0.7
    step: float = 0.1
    interval: int = 10

    def r(self, epoch: int) -> float:
        """The prior in this epoch."""
        steps = min(epoch // self.interval, self.steps)
        return self.final if steps == self.steps else self.start - steps * self.step

    @property
    def steps(self) -> int:
        """How many times r falls. Counted, so that no two floats have to be equal."""
        fall = self.start - self.final
        if fall <= 0 or self.step <= 0:
            return 0
        # 0.9 − 0.5 over 0.1 is 4.000000000000001 in floating point and must count as 4.
        return math.ceil(fall / self.step - 1e-9)

    @property
    def epochs_to_final(self) -> int:
        """The first epoch in which r is final."""
        return self.steps * self.interval
