"""GNNExplainer (Ying et al., 2019): a free mask for each graph, found by gradient descent.

    min over M of  −log P(answer | edges weighted by σ(M)) + size · Σ σ(M) + entropy · mean H(σ(M))

Whole batches are optimised at once. No term joins two graphs, and Adam works entry by entry, so a
graph's mask is the same in any batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from gsat.attention import average_directions
from gsat.graphs import GraphBatch
from gsat.methods.base import Context, TrainingSettings
from gsat.methods.posthoc import (
    Posthoc,
    PosthocMethod,
    PosthocSettings,
    Target,
    entropy,
    graph_mean,
    graph_sum,
)
from gsat.models import Backbone, ModelOutput
from gsat.ops import Draws


class GNNExplainerSettings(PosthocSettings):
    """``[method.gnnexplainer]``.

    Attributes:
        iterations: of Adam; each is an epoch of the second phase. explain_lr: its rate.
        size: weight of the ℓ1 norm, summed over a graph's edges. entropy: weight of the mean
            entropy.
    """

    iterations: PositiveInt = 100
    explain_lr: float = Field(1.0, gt=0)
    size: float = Field(1.0, ge=0)
    entropy: float = Field(1.0, ge=0)


@dataclass
class Search:
    """The masks of a batch on their way.

    Attributes:
        logits: [B, num_logits], the network's own. answer: what the masked run has to say.
        mask: [E] logits. adam: its optimiser. done: iterations so far. losses: of the last one.
    """

    logits: Tensor
    answer: Tensor
    mask: nn.Parameter
    adam: Adam
    done: int = 0
    losses: dict[str, Tensor] = field(default_factory=dict)


class GNNExplainer(Posthoc):
    """A network and, for each graph, the mask under which it still gives the same answer.

    Args:
        backbone: the network; it is not changed.
        iterations, lr, size, entropy, target: see :class:`GNNExplainerSettings`.
        seed: decides where masks start.
    """

    def __init__(
        self,
        backbone: Backbone,
        *,
        iterations: int = 100,
        lr: float = 1.0,
        size: float = 1.0,
        entropy: float = 1.0,
        target: Target = "prediction",
        seed: int = 0,
    ) -> None:
        super().__init__(
            backbone, target, iterations=iterations, lr=lr, size=size, entropy=entropy, seed=seed
        )
        self.iterations, self.lr, self.size, self.entropy = iterations, lr, size, entropy
        self.seed = seed

    def forward(self, batch: GraphBatch) -> ModelOutput:
        """Search for the masks of a batch from the start."""
        search = self.start(batch)
        self.go_on(search, batch, self.iterations)
        return self.said(search, batch)

    @torch.no_grad()
    def start(self, batch: GraphBatch) -> Search:
        """Masks as they are before the first iteration: N(1, 2 / nodes)."""
        logits = self.backbone(batch)
        u = Draws(self.seed, "masks").uniform(batch.edge_id)
        nodes = batch.node_ptr.diff()[batch.edge_graph]
        mask = nn.Parameter(1 + torch.special.ndtri(u) * (2 / nodes).sqrt())
        return Search(logits, self.answer(logits, batch), mask, Adam([mask], self.lr))

    def go_on(self, search: Search, batch: GraphBatch, iterations: int) -> None:
        """Search until so many iterations are done in all."""
        while search.done < iterations:
            with torch.enable_grad():
                mask = search.mask.sigmoid()
                logits = self.backbone(batch, attention=average_directions(mask, batch))
                losses = {
                    "answer": self.task.graph_losses(logits, search.answer),
                    "size": graph_sum(mask, batch),
                    "entropy": graph_mean(entropy(mask), batch),
                }
                loss = (
                    losses["answer"] + self.size * losses["size"] + self.entropy * losses["entropy"]
                )
                # The sum, not the mean: how far a mask goes must not depend on the others.
                (search.mask.grad,) = torch.autograd.grad(loss.sum(), search.mask)
            search.adam.step()
            search.done += 1
            means = {"loss": loss, **losses}
            search.losses = {name: value.detach().mean() for name, value in means.items()}

    def said(self, search: Search, batch: GraphBatch) -> ModelOutput:
        """The network's answers, and the masks so far."""
        mask = search.mask.detach().sigmoid()
        return ModelOutput(search.logits, average_directions(mask, batch), mask, mask)


class GNNExplainerMethod(PosthocMethod):
    """An iteration of Adam on all masks is an epoch, so that its course can be logged.

    Masks are a function of (network, graph, iterations), not a state: those of a split are kept
    from epoch to epoch in memory, and a resumed run, whose batches of a split are the same, finds
    the same ones again.
    """

    name = "gnnexplainer"
    title = "GNNExplainer"
    summary = "a mask for each graph, searched on the frozen backbone"
    paper = (
        "Ying et al., GNNExplainer: Generating Explanations for Graph Neural Networks, "
        "NeurIPS 2019 (arXiv:1903.03894)"
    )
    Settings = GNNExplainerSettings
    Model = GNNExplainer
    learns = False
    model: GNNExplainer
    settings: GNNExplainerSettings

    @classmethod
    def create(
        cls, backbone: Backbone, settings: Any, training: TrainingSettings, seed: int
    ) -> Self:
        """GNNExplainer of a fresh backbone."""
        model = GNNExplainer(
            backbone,
            iterations=settings.iterations,
            lr=settings.explain_lr,
            size=settings.size,
            entropy=settings.entropy,
            target=settings.target,
            seed=seed,
        )
        return cls(model, settings, training)

    @property
    def explain_epochs(self) -> int:
        """One per iteration."""
        return self.settings.iterations

    def make_optimisers(self) -> dict[str, Optimizer]:
        """None that lasts: every search has its own."""
        self._searches: dict[bytes, Search] = {}
        return {}

    def explain_step(self, batch: GraphBatch, context: Context) -> dict[str, Tensor]:
        """There are no weights to update."""
        return {}

    def explain(self, batch: GraphBatch, context: Context) -> tuple[ModelOutput, dict[str, Tensor]]:
        """The masks after as many iterations as there were epochs."""
        name = batch.graph_row.cpu().numpy().tobytes()
        if name not in self._searches:
            self._searches[name] = self.model.start(batch)
        search = self._searches[name]
        self.model.go_on(search, batch, context.epoch + 1)
        return self.model.said(search, batch), search.losses
