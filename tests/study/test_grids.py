"""Grids of settings, read from texts."""

from __future__ import annotations

import pytest

from gsat.core.errors import RecipeError
from gsat.study.grids import parse_grid


def test_a_grid_is_read_from_texts() -> None:
    texts = ["lr=1e-3, 0.1", "attention=edge,node", "r_interval=1,2", 'aggregators=["sum"],["std"]']
    assert parse_grid(texts) == {
        "lr": [1e-3, 0.1],
        "attention": ["edge", "node"],
        "r_interval": [1, 2],
        "aggregators": [["sum"], ["std"]],
    }
    assert parse_grid(["environments=base"]) == {"environments": ["base"]}
    for wrong in ("lr", "lr=", "=1,2"):
        with pytest.raises(RecipeError, match="a grid is written KEY=V1,V2,…"):
            parse_grid([wrong])
    with pytest.raises(RecipeError, match="'lr' twice"):
        parse_grid(["lr=1", "lr=2"])
