"""The first layer of a backbone: node features to embeddings."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gsat.core.errors import GSATError


class CategoryEncoder(nn.Module):
    """The sum of one embedding per column of categories, like OGB's atom encoder.

    All columns share one table, so that one pass sums a node's embeddings.
    """

    first: Tensor

    def __init__(self, categories: Sequence[int], hidden: int) -> None:
        super().__init__()
        if not categories or min(categories) < 1:
            raise GSATError(f"every column needs at least one category, not {list(categories)}")
        self.weight = nn.Parameter(torch.empty(sum(categories), hidden))
        for column in self.weight.split(list(categories)):
            bound = math.sqrt(6 / (len(column) + hidden))
            nn.init.uniform_(column, -bound, bound)
        first = torch.tensor([0, *categories[:-1]]).cumsum(0)
        self.register_buffer("first", first, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Embed categories."""
        return F.embedding_bag(x + self.first, self.weight, mode="sum")


Encoder = nn.Linear | CategoryEncoder


def node_encoder(in_features: int, hidden: int, categories: Sequence[int] | None) -> Encoder:
    """Make a linear layer, or embeddings if features are categories."""
    if categories is None:
        return nn.Linear(in_features, hidden)
    if len(categories) != in_features:
        raise GSATError(
            f"there are {in_features} columns of features, and categories for {len(categories)}"
        )
    return CategoryEncoder(categories, hidden)
