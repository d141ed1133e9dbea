"""The Graph Isomorphism Network, with edge features when the data has them (then it is GINE)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from torch import Tensor, nn

from gsat.graphs import GraphBatch
from gsat.models.backbone import Backbone, seeded
from gsat.ops import Draws, EdgeTerm, ScalarTerm, aggregate, pool, relu_dropout
from gsat.tasks import Task

if TYPE_CHECKING:
    from gsat.datasets.load import Dataset


class GINLayer(nn.Module):
    """x'_v = MLP(x_v + Σ_{u→v} w_uv · m_uv), with m = x_u, or ReLU(x_u + W_e e_uv)."""

    def __init__(self, hidden: int, edge_features: bool) -> None:
        super().__init__()
        self.edge = nn.Linear(hidden, hidden) if edge_features else None
        self.mlp = nn.Sequential(
            nn.Linear(hidden, hidden),
            nn.BatchNorm1d(hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
        )

    def forward(
        self, x: Tensor, batch: GraphBatch, attention: Tensor | None, term: EdgeTerm
    ) -> Tensor:
        """[N, hidden] to [N, hidden]."""
        return self.mlp(x + aggregate(x, batch, attention, term))


class GIN(Backbone):
    """GIN: linear encoder, ``layers`` of :class:`GINLayer` with ReLU and dropout, sum pooling and
    one linear layer.

    Args:
        in_features: columns of ``x``. edge_features: columns of ``edge_attr``, 0 to ignore it.
        task: what the logits are for. hidden: width. layers: depth. dropout: after every layer.
        seed: decides the initial weights.
    """

    name = "gin"

    def __init__(
        self,
        in_features: int,
        task: Task,
        *,
        edge_features: int = 0,
        hidden: int = 64,
        layers: int = 2,
        dropout: float = 0.3,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.hidden, self.task, self.dropout = hidden, task, dropout
        self.config = {
            "in_features": in_features,
            "task": task.as_dict(),
            "edge_features": edge_features,
            "hidden": hidden,
            "layers": layers,
            "dropout": dropout,
        }
        with seeded(seed, "gin"):
            self.encoder = nn.Linear(in_features, hidden)
            self.edge_encoder = nn.Linear(edge_features, hidden) if edge_features else None
            self.layers = nn.ModuleList(GINLayer(hidden, edge_features > 0) for _ in range(layers))
            self.head = nn.Linear(hidden, task.num_logits)

    @classmethod
    def for_data(
        cls, data: Dataset, *, seed: int = 0, edge_features: bool = True, **settings: Any
    ) -> Self:
        """A GIN that fits the data; ``edge_features=False`` leaves its edge attributes aside."""
        return cls(
            data.store.num_features,
            data.task,
            edge_features=data.store.num_edge_features if edge_features else 0,
            seed=seed,
            **settings,
        )

    def embed(
        self, batch: GraphBatch, attention: Tensor | None = None, draws: Draws | None = None
    ) -> Tensor:
        """Node embeddings [N, hidden]; see :meth:`Backbone.embed`."""
        x = self.encoder(batch.x.to(self.encoder.weight.dtype))
        for number, layer in enumerate(self.layers):
            x = layer(x, batch, attention, self._edge_term(layer, batch))
            source = draws.child("dropout", number) if draws else None
            x = relu_dropout(x, batch.node_id, self.dropout, source)
        return x

    def read_out(self, embeddings: Tensor, batch: GraphBatch) -> Tensor:
        """Logits [B, num_logits] by sum pooling and one linear layer."""
        return self.head(pool(embeddings, batch.node_ptr, "sum"))

    def _edge_term(self, layer: nn.Module, batch: GraphBatch) -> EdgeTerm:
        if self.edge_encoder is None or batch.edge_attr is None:
            return None
        assert isinstance(layer, GINLayer)
        assert layer.edge is not None
        attribute = batch.edge_attr.to(self.encoder.weight.dtype)
        if attribute.shape[1] == 1:
            # Two linear layers on a scalar a are a · slope + offset, exactly: no product per edge.
            slope = layer.edge.weight @ self.edge_encoder.weight[:, 0]
            return ScalarTerm(attribute[:, 0], slope, layer.edge(self.edge_encoder.bias))
        return layer.edge(self.edge_encoder(attribute))
