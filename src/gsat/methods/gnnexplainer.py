"""GNNExplainer (Ying et al., 2019): gradient descent on a mask for each graph.

    min over M of  −log P(answer | edges weighted by σ(M)) + size · Σ σ(M) + entropy · mean H(σ(M))

It optimises whole batches at once. No term couples two graphs, and Adam works on each entry by
itself, so a graph's mask is the same in any batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from gsat.attention import average_directions
from gsat.core.registry import register_method
from gsat.graphs import GraphBatch
from gsat.methods.base import Context, Losses
from gsat.methods.post_hoc import (
    PostHocMethod,
    PostHocModel,
    PostHocSettings,
    Target,
    mask_losses,
)
from gsat.models import Backbone, ModelOutput
from gsat.ops import Draws


class GNNExplainerSettings(PostHocSettings):
    """``[method.gnnexplainer]``."""

    iterations: PositiveInt = Field(
        100, le=100_000, description="Iterations of Adam; each is an epoch of the second phase."
    )
    explain_lr: float = Field(1.0, gt=0, description="Learning rate of Adam.")
    size: float = Field(1.0, ge=0, description="Weight of the sum of a graph's mask (ℓ1).")
    entropy: float = Field(1.0, ge=0, description="Weight of the mean entropy.")


DEFAULTS = GNNExplainerSettings.model_validate({})


@dataclass
class Search:
    """The state of the search for the masks of a batch."""

    logits: Tensor  # of the network without a mask, [B, num_logits]
    answer: Tensor  # the prediction that is explained, in the shape of labels
    mask: nn.Parameter  # logits of the mask, [E]
    adam: Adam
    done: int = 0  # iterations so far
    losses: Losses = field(default_factory=dict)


class GNNExplainer(PostHocModel):
    """A network and, for each graph, the mask under which it makes the same prediction."""

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
        """Continue a search until it has done ``iterations`` in total."""
        while search.done < iterations:
            with torch.enable_grad():
                mask = search.mask.sigmoid()
                logits = self.backbone(batch, attention=average_directions(mask, batch))
                losses = mask_losses(self.task, logits, search.answer, mask, batch)
                loss = (
                    losses["answer"] + self.size * losses["size"] + self.entropy * losses["entropy"]
                )
                # The sum, not the mean: a mask must not depend on the number of graphs.
                (search.mask.grad,) = torch.autograd.grad(loss.sum(), search.mask)
            search.adam.step()
            search.done += 1
            means = {"loss": loss, **losses}
            search.losses = {name: value.detach().mean() for name, value in means.items()}

    def output(self, search: Search, batch: GraphBatch) -> ModelOutput:
        """The logits without a mask, and the masks so far."""
        mask = search.mask.detach().sigmoid()
        return ModelOutput(search.logits, average_directions(mask, batch), mask, mask)


@register_method("gnnexplainer")
class GNNExplainerMethod(PostHocMethod):
    """Each iteration of Adam on all masks is an epoch, so that its progress is logged.

    Masks are a function of (network, graph, iterations), not a state. They are kept in memory from
    epoch to epoch; a resumed run has the same batches and computes the same masks again.
    """

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
    def make_model(cls, backbone: Backbone, settings: Any, seed: int) -> GNNExplainer:
        """Make the model; its ``lr`` is called ``explain_lr`` in a recipe."""
        chosen = settings.model_dump(include={"iterations", "size", "entropy", "target"})
        return GNNExplainer(backbone, lr=settings.explain_lr, seed=seed, **chosen)

    @property
    def explain_epochs(self) -> int:
        """One per iteration."""
        return self.settings.iterations

    def make_optimisers(self) -> dict[str, Optimizer]:
        """None: each search has its own."""
        self._searches: dict[bytes, Search] = {}
        return {}

    def explain_step(self, batch: GraphBatch, context: Context) -> Losses:
        """Do nothing: there are no weights to update."""
        return {}

    def explain(self, batch: GraphBatch, context: Context) -> tuple[ModelOutput, Losses]:
        """The masks after one iteration per epoch so far."""
        name = batch.graph_row.cpu().numpy().tobytes()
        if name not in self._searches:
            self._searches[name] = self.model.start(batch)
        search = self._searches[name]
        self.model.search(search, batch, context.epoch + 1)
        return self.model.output(search, batch), search.losses
