"""Snapshots: the weights after several epochs of a run that could be selected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from torch import Tensor

from gsat.core.errors import RecipeError
from gsat.graphs import GraphBatch
from gsat.methods import Method
from gsat.models import InterpretableModel
from gsat.models.weights import check_fit

Tensors = dict[str, Tensor]


class Snapshots:
    """The weights of a model after several epochs, of which the oldest are given up.

    Attributes:
        weights: State dicts by the number of the epoch, the oldest first.
    """

    def __init__(self, method: Method) -> None:
        self.most: int = method.training.snapshots or 0
        phases = method.phases()
        self._last = sum(phase.epochs for phase in phases) - 1
        selectable = [p.epochs - p.selectable_from for p in phases if p.selectable_from is not None]
        spread = self.most and method.training.snapshot_epochs == "spread"
        self._every = max(1, sum(n for n in selectable if n > 0) // self.most) if spread else 1
        self.weights: dict[int, Tensors] = {}
        if self.most and not method.model.takes_snapshots:
            raise RecipeError(
                f"a model of {method.title} can't use training.snapshots; leave it out"
            )

    def take(self, epoch: int, model: InterpretableModel) -> None:
        """Keep the weights of an epoch, if any are kept."""
        if self.most and (self._last - epoch) % self._every == 0:
            self.weights[epoch] = copy_weights(model)
            for old in sorted(self.weights)[: -self.most]:
                del self.weights[old]

    def restore(self, weights: Mapping[int, Tensors], model: InterpretableModel) -> None:
        """Take what a checkpoint holds."""
        if len(weights) > self.most:
            raise RecipeError(f"{len(weights)} snapshots, and the recipe keeps {self.most}")
        for state in weights.values():
            check_fit(model, state)
        self.weights = dict(weights)

    def complete(
        self,
        method: Method,
        best: Mapping[str, Tensor],
        batches: Callable[[], Iterator[GraphBatch]],
    ) -> bool:
        """Give a model its weights of the best epoch, and what is made after training."""
        model, ready, calibrated = method.model, [], False
        for weights in (*self.weights.values(), best):  # the best last: it stays
            model.load_state_dict(dict(weights))
            calibrated = method.calibrate(batches())
            ready.append(copy_weights(model))
        if self.weights:
            model.take_snapshots(ready[:-1])
        return calibrated or bool(self.weights)


def copy_weights(model: InterpretableModel) -> Tensors:
    """The model's weights as they are now."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
