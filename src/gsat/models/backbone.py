"""What a backbone is: a network that gives node embeddings, and logits from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from gsat.errors import DataError, GSATError
from gsat.graphs import GraphBatch, GraphStore
from gsat.graphs.build import ranges
from gsat.models.encoder import CategoryEncoder, Encoder
from gsat.ops import Draws, pool
from gsat.tasks import Task

if TYPE_CHECKING:
    from gsat.datasets.load import Dataset


# Of a layer's number, input [N, h] and messages [E, d]: what share of each message passes [E] and
# the vector [d] that stands for the rest; None lets all pass.
Gate = Callable[[int, Tensor, Tensor], tuple[Tensor, Tensor] | None]


@contextmanager
def seeded(seed: int, *purpose: str) -> Iterator[None]:
    """Initial weights made inside depend on ``seed`` and ``purpose`` alone; torch's own generator
    is as before afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(Draws(seed, "initial weights", *purpose).torch_seed())
        yield


def check_dropout(share: float) -> None:
    """Raise unless ``share`` can be dropped."""
    if not 0 <= share < 1:
        raise GSATError(f"a dropout lies between 0 and 1 (not 1 itself), not at {share}")


def load_weights(network: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Load a state dict whose names and shapes are exactly the network's, or change nothing."""
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
        said = ", ".join(problems[:3])
        said += f" (and {len(problems) - 3} more)" if len(problems) > 3 else ""
        raise GSATError(
            f"the weights do not fit this {type(network).__name__}: {said}; "
            f"make the network with the settings it was trained with"
        )
    network.load_state_dict(dict(weights))


class Backbone(nn.Module, ABC):
    """A graph network whose messages can be weighted per edge.

    GSAT runs one backbone twice: :meth:`embed` without attention feeds the extractor, the full
    network with attention predicts.

    Attributes:
        hidden: width of the node embeddings. task: what the logits are for.
        config: the constructor's arguments as plain values, from which :meth:`from_config`
            builds the same network again.
        in_kernels: whether all its large products are in our kernels, none in torch.
    """

    name: ClassVar[str]
    in_kernels: ClassVar[bool] = False
    hidden: int
    task: Task
    config: dict[str, Any]
    encoder: Encoder

    def encode(self, batch: GraphBatch) -> Tensor:
        """Node features to the first layer's input [N, hidden]."""
        categories = isinstance(self.encoder, CategoryEncoder)
        return self.encoder(batch.x if categories else batch.x.to(self.encoder.weight.dtype))

    @abstractmethod
    def embed(
        self, batch: GraphBatch, attention: Tensor | None = None, draws: Draws | None = None
    ) -> Tensor:
        """Node embeddings [N, hidden] after the last layer.

        Messages are multiplied with ``batch.weighted(attention)``, that is, with the data's own
        edge weights, too.

        Args:
            attention: [E], a weight for the message on each edge; None for all ones.
            draws: the source of dropout masks; None for no dropout.
        """

    @abstractmethod
    def read_out(self, embeddings: Tensor, batch: GraphBatch) -> Tensor:
        """Logits from node embeddings [N, hidden]: [B, num_logits], or [M, num_logits] for the
        nodes asked for."""

    def pooled(
        self, embeddings: Tensor, batch: GraphBatch, how: Literal["sum", "mean"] = "sum"
    ) -> Tensor:
        """What the head reads: node embeddings [N, h] pooled over each graph [B, h], or at node
        level those of the nodes asked for [M, h]."""
        if self.task.level == "node":
            return batch.at_targets(embeddings)
        return pool(embeddings, batch.node_ptr, how)

    @property
    def hops(self) -> int:
        """How far away a node's answer looks: the rounds of message passing."""
        return int(self.config["layers"])

    def forward(
        self, batch: GraphBatch, attention: Tensor | None = None, draws: Draws | None = None
    ) -> Tensor:
        """Logits [B, num_logits] ([M, num_logits] at node level); arguments as in :meth:`embed`."""
        return self.read_out(self.embed(batch, attention, draws), batch)

    def check_fits(self, store: GraphStore) -> None:
        """Raise a :class:`DataError` when the graphs have other features than the network knows."""
        if len(store) == 0:
            return
        needed, came = self.config.get("in_features"), max(store.num_features, 1)
        if needed is not None and needed != came:
            raise DataError(
                f"the model was trained on graphs with {needed} node features, these have {came}"
            )
        if self.config.get("categories"):
            _check_categories(store, self.config["categories"])
        needed = self.config.get("edge_features")
        if needed and needed != store.num_edge_features and store.num_edges:
            raise DataError(
                f"the model was trained on graphs with {needed} edge features, these have "
                f"{store.num_edge_features}"
            )

    @classmethod
    def for_data(
        cls, data: Dataset, *, seed: int = 0, edge_features: bool = True, **settings: Any
    ) -> Self:
        """A backbone whose input and output fit the data; ``settings`` are the constructor's.

        Args:
            edge_features: False leaves the data's edge attributes aside.
        """
        from gsat.datasets.load import check_dataset

        check_dataset(data)
        fitting = {
            "in_features": max(data.store.num_features, 1),  # without any: a column of ones
            "task": data.task,
            "edge_features": data.store.num_edge_features if edge_features else 0,
            "categories": data.store.meta.get("categories"),
        }
        return cls(**fitting, seed=seed, **settings)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The network :attr:`config` describes, with fresh weights."""
        return cls(**{**config, "task": Task(**config["task"])})


def _check_categories(store: GraphStore, categories: Sequence[int]) -> None:
    """Raise unless every feature of the store is a category the network has an embedding for."""
    x = store.arrays["x"]
    if x.dtype.kind not in "iu":
        raise DataError("the model was trained on categories (whole numbers), these are fractions")
    x = x[ranges(store.arrays["node_ptr"][store.index], store.node_counts)]
    wrong = np.argwhere((x < 0) | (x >= np.array(categories)))
    if len(wrong):
        node, column = wrong[0]
        graph = int(np.searchsorted(np.cumsum(store.node_counts), node, side="right"))
        raise DataError(
            f"graph {graph} has the category {x[node, column]} in column {column} of its features; "
            f"the model knows 0 to {categories[column] - 1}"
        )


class GatedBackbone(Backbone):
    """A backbone whose messages can be seen, and replaced in part, layer by layer.

    Attributes:
        message_size: d, the width of a message.
    """

    message_size: int

    @abstractmethod
    def embed(
        self,
        batch: GraphBatch,
        attention: Tensor | None = None,
        draws: Draws | None = None,
        gate: Gate | None = None,
    ) -> Tensor:
        """Node embeddings [N, hidden]; see :meth:`Backbone.embed`.

        Args:
            gate: asked in every layer; where it gives z and b, a message m becomes
                z · m + (1 − z) · b before it is weighted.
        """


def withheld(keep: Tensor, weight: Tensor | None, batch: GraphBatch) -> Tensor:
    """Σ_{u→v} w_uv · (1 − z_uv) at each node [N, 1], for z [E] and w [E] (None: all ones)."""
    lost = 1 - keep if weight is None else weight * (1 - keep)
    return lost.new_zeros(batch.num_nodes).index_add(0, batch.dst, lost)[:, None]
