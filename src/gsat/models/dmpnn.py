"""The directed message passing network for molecules: bonds, not atoms, hold the messages.

    e_uv = ReLU(c_uv + W Σ_{t→u, t≠v} w_tu · e_tu),  c_uv = x_u + W_b b_uv

It starts with e_uv = ReLU(c_uv), and ends with ReLU(W' [x_v, Σ_{u→v} w_uv · e_uv]) at each node. A
message does not return over its bond in the next round. There is no batch norm: on a few hundred
molecules, batch statistics are noise. Yang et al., Analyzing Learned Molecular Representations for
Property Prediction, J. Chem. Inf. Model. 2019 (arXiv:1904.01561).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from gsat.core.registry import register_backbone
from gsat.graphs import GraphBatch
from gsat.models.backbone import Backbone, BackboneSettings
from gsat.models.encoder import node_encoder
from gsat.ops import Draws, relu_dropout


class DMPNNSettings(BackboneSettings):
    """``[backbone]`` of the directed message passing network."""

    hidden: PositiveInt = Field(128, le=2048, description="Width of the embeddings.")
    layers: PositiveInt = Field(3, le=64, description="Rounds of message passing.")
    dropout: float = Field(0.0, ge=0, lt=1, description="Dropout of the node embeddings.")
    edge_features: bool = Field(True, description="Whether the data's edge attributes are used.")


@register_backbone("dmpnn")
class DMPNN(Backbone):
    """D-MPNN: messages along directed edges, scaled sum pooling and two linear layers.

    Attributes:
        divisor: Divisor of the sum over the nodes of a graph: a typical number of atoms, so that
            the head starts with inputs of about 1.

    Example:
        >>> from gsat import Task
        >>> from gsat.models import DMPNN
        >>> DMPNN(10, Task("binary"), hidden=32).hidden
        32
    """

    Settings: ClassVar[type[BackboneSettings]] = DMPNNSettings
    divisor: ClassVar[float] = 20.0

    def build(
        self,
        in_features: int,
        edge_features: int,
        categories: Sequence[int] | None,
        settings: DMPNNSettings,
    ) -> None:
        """Make the layers; see :meth:`Backbone.build`."""
        hidden = settings.hidden
        self.hidden, self.rounds, self.dropout = hidden, settings.layers, settings.dropout
        self.encoder = node_encoder(in_features, hidden, categories)
        self.edge_encoder = nn.Linear(edge_features, hidden) if edge_features else None
        self.pass_on = nn.Linear(hidden, hidden)  # shared by all rounds
        self.arrive = nn.Linear(2 * hidden, hidden)
        self.head = nn.Sequential(
            nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, self.task.num_logits)
        )

    def embed(
        self, batch: GraphBatch, attention: Tensor | None = None, draws: Draws | None = None
    ) -> Tensor:
        """Node embeddings ``[N, hidden]``; see :meth:`Backbone.embed`."""
        weight = batch.weighted(attention)
        x = self.encode(batch)
        start = x[batch.src]  # [E, h]
        if self.edge_encoder is not None and batch.num_edges:
            start = start + self.edge_encoder(self.edge_attributes(batch))
        # On a directed graph an edge is paired with itself: no message returns.
        returns = None
        if not batch.undirected.all():
            returns = (batch.dst[batch.pair] == batch.src).to(x.dtype)[:, None]
        edge = torch.relu(start)
        for _ in range(self.rounds - 1):
            sent = edge if weight is None else edge * weight[:, None]
            back = sent[batch.pair] if returns is None else returns * sent[batch.pair]
            edge = torch.relu(start + self.pass_on(_sums(sent, batch)[batch.src] - back))
        sent = edge if weight is None else edge * weight[:, None]
        z = self.arrive(torch.cat([x, _sums(sent, batch)], dim=1))
        source = draws.child("dropout", 0) if draws else None
        return relu_dropout(z, batch.node_id, self.dropout, source)

    def read_out(self, embeddings: Tensor, batch: GraphBatch) -> Tensor:
        """Logits by the head, of sum-pooled graphs or of nodes."""
        pooled = self.pooled(embeddings, batch)
        return self.head(pooled / self.divisor if self.task.level == "graph" else pooled)


def _sums(messages: Tensor, batch: GraphBatch) -> Tensor:
    """The sum of the messages ``[E, h]`` that arrive at each node, ``[N, h]``."""
    nothing = messages.new_zeros(batch.num_nodes, messages.shape[1])
    return nothing.index_add(0, batch.dst, messages)
