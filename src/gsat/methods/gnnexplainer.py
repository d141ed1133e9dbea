"""GNNExplainer (Ying et al., 2019): a free mask for each graph, found by gradient descent.

    min over M of  −log P(answer | edges weighted by σ(M)) + size · Σ σ(M) + entropy · mean H(σ(M))

Whole batches are optimised at once. No term joins two graphs, and Adam works entry by entry, so a
graph's mask is the same in any batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from gsat.attention import average_directions
from gsat.core.registry import register_method
from gsat.graphs import GraphBatch
from gsat.methods.base import Context, Losses, MethodSettings
from gsat.methods.post_hoc import (
    PostHocMethod,
    PostHocModel,
    PostHocSettings,
    Target,
    entropy,
    graph_mean,
    graph_sum,
)
from gsat.models import Backbone, InterpretableModel, ModelOutput
from gsat.ops import Draws


class GNNExplainerSettings(PostHocSettings):
    """``[method.gnnexplainer]``."""

    iterations: PositiveInt = Field(
        100, description="Iterations of Adam; each is an epoch of the second phase."
    )
    explain_lr: float = Field(1.0, gt=0, description="Learning rate of Adam.")
    size: float = Field(1.0, ge=0, description="Weight of the sum of a graph's mask (ℓ1).")
    entropy: float = Field(1.0, ge=0, description="Weight of the mean entropy.")


DEFAULTS = GNNExplainerSettings.model_validate({})


@dataclass
class Search:
    """The state of the search for the masks of a batch.

    Attributes:
        logits: The network's own logits, ``[B, num_logits]``.
        answer: The answer that is explained, in the shape of labels.
        mask: Logits of the mask, ``[E]``.
        adam: Its optimiser.
        done: Iterations so far.
        losses: Losses of the last iteration.
    """

    logits: Tensor
    answer: Tensor
    mask: nn.Parameter
    adam: Adam
    done: int = 0
    losses: Losses = field(default_factory=dict)


class GNNExplainer(PostHocModel):
    """A network and, for each graph, the mask under which it still gives the same answer."""

    method = "gnnexplainer"

    def __init__(
        self,
        backbone: Backbone,
        *,
        iterations: int = DEFAULTS.iterations,
        lr: float = DEFAULTS.explain_lr,
        size: float = DEFAULTS.size,
        entropy: float = DEFAULTS.entropy,
        target: Target = DEFAULTS.target,
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
        self.search(search, batch, self.iterations)
        return self.output(search, batch)

    @torch.no_grad()
    def start(self, batch: GraphBatch) -> Search:
        """Start a search, with masks drawn from N(1, 2 / nodes)."""
        logits = self.backbone(batch)
        u = Draws(self.seed, "masks").uniform(batch.edge_id)
        nodes = batch.node_ptr.diff()[batch.edge_graph]
        mask = nn.Parameter(1 + torch.special.ndtri(u) * (2 / nodes).sqrt())
        return Search(logits, self.explained_label(logits, batch), mask, Adam([mask], self.lr))

    def search(self, search: Search, batch: GraphBatch, iterations: int) -> None:
        """Continue a search until so many iterations are done in all."""
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

    def output(self, search: Search, batch: GraphBatch) -> ModelOutput:
        """The network's own logits, and the masks so far."""
        mask = search.mask.detach().sigmoid()
        return ModelOutput(search.logits, average_directions(mask, batch), mask, mask)


@register_method("gnnexplainer")
class GNNExplainerMethod(PostHocMethod):
    """An iteration of Adam on all masks is an epoch, so that its course can be logged.

    Masks are a function of (network, graph, iterations), not a state: those of a split are kept
    from epoch to epoch in memory, and a resumed run, whose batches of a split are the same, finds
    the same ones again.
    """

    title = "GNNExplainer"
    summary = "a mask for each graph, searched on the frozen backbone"
    paper = (
        "Ying et al., GNNExplainer: Generating Explanations for Graph Neural Networks, "
        "NeurIPS 2019 (arXiv:1903.03894)"
    )
    Settings: ClassVar[type[MethodSettings]] = GNNExplainerSettings
    Model: ClassVar[type[InterpretableModel]] = GNNExplainer
    learns = False
    model: GNNExplainer
    settings: GNNExplainerSettings

    @classmethod
    def make_model(cls, backbone: Backbone, settings: Any, seed: int) -> GNNExplainer:
        """Make the model; what it calls ``lr`` is ``explain_lr`` in a recipe."""
        names = ("iterations", "size", "entropy", "target")
        given = {name: getattr(settings, name) for name in names}
        return GNNExplainer(backbone, lr=settings.explain_lr, seed=seed, **given)

    @property
    def explain_epochs(self) -> int:
        """One per iteration."""
        return self.settings.iterations

    def make_optimisers(self) -> dict[str, Optimizer]:
        """None: every search has its own."""
        self._searches: dict[bytes, Search] = {}
        return {}

    def explain_step(self, batch: GraphBatch, context: Context) -> Losses:
        """Do nothing: there are no weights to update."""
        return {}

    def explain(self, batch: GraphBatch, context: Context) -> tuple[ModelOutput, Losses]:
        """The masks after as many iterations as there were epochs."""
        name = batch.graph_row.cpu().numpy().tobytes()
        if name not in self._searches:
            self._searches[name] = self.model.start(batch)
        search = self._searches[name]
        self.model.search(search, batch, context.epoch + 1)
        return self.model.output(search, batch), search.losses
