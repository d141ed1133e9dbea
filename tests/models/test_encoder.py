"""Categories as features: embeddings that sum, in every backbone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from gsat.core.errors import DataError, GSATError
from gsat.graphs import GraphStore
from gsat.models import BACKBONES
from gsat.models.encoder import CategoryEncoder, node_encoder
from gsat.tasks import Task
from reference import whole

CATEGORIES = (5, 2, 3)


def store(x: np.ndarray | None = None) -> GraphStore:
    rng = np.random.RandomState(0)
    if x is None:
        x = np.stack([rng.randint(0, c, 7) for c in CATEGORIES], axis=1)
    return GraphStore.from_arrays(
        node_ptr=[0, 4, 7],
        edge_ptr=[0, 4, 8],
        edge_index=[[0, 1, 1, 2, 0, 1, 1, 2], [1, 0, 2, 1, 1, 0, 2, 1]],
        x=x,
        y=np.array([[0.0], [1.0]], dtype=np.float32),
        meta={"categories": list(CATEGORIES)},
    )


def test_it_is_the_sum_of_one_embedding_per_column() -> None:
    encoder = CategoryEncoder(CATEGORIES, 8)
    tables = [nn.Embedding.from_pretrained(w) for w in encoder.weight.detach().split(CATEGORIES)]
    x = store().batch().x
    expected = sum(table(x[:, i]) for i, table in enumerate(tables))
    torch.testing.assert_close(encoder(x), expected)


def test_columns_are_initialised_one_by_one() -> None:
    """Xavier's bound depends on the number of categories of the column, not of all columns."""
    encoder = CategoryEncoder((1000, 2), 64)
    few, many = (encoder.weight[1000:].abs().max(), encoder.weight[:1000].abs().max())
    assert 0.9 * np.sqrt(6 / 1064) < many < np.sqrt(6 / 1064)
    assert 0.9 * np.sqrt(6 / 66) < few < np.sqrt(6 / 66)


@pytest.mark.parametrize("name", ["gin", "pna", "leconv"])
def test_backbones_take_categories(name: str) -> None:
    graphs = store()
    backbone = BACKBONES[name].for_data(whole(graphs, Task("binary")), seed=0, hidden=8).eval()
    logits = backbone(graphs.batch())
    logits.sum().backward()
    assert backbone.encoder.weight.grad.abs().sum() > 0  # type: ignore[union-attr]
    again = BACKBONES[name].from_config(backbone.config).eval()
    again.load_state_dict(backbone.state_dict())
    torch.testing.assert_close(again(graphs.batch()), logits)
    backbone.check_fits(graphs)


def test_unknown_categories_are_named() -> None:
    backbone = BACKBONES["gin"](3, Task("binary"), categories=CATEGORIES)
    x = np.zeros((7, 3), dtype=np.int64)
    x[5, 2] = 3
    with pytest.raises(DataError, match=r"graph 1 has the category 3 in column 2 .* 0 to 2"):
        backbone.check_fits(store(x))
    backbone.check_fits(store(x).select([0]))
    with pytest.raises(DataError, match="fractions"):
        backbone.check_fits(store(x.astype(np.float32)))


def test_wrong_categories() -> None:
    with pytest.raises(GSATError, match="3 columns"):
        node_encoder(3, 8, (4, 4))
    with pytest.raises(GSATError, match="at least one category"):
        CategoryEncoder((), 8)
