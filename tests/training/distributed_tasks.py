"""Tasks shared by the tests with one process and with two."""

from __future__ import annotations

from typing import Any

import numpy as np

import gsat
from gsat.datasets.load import Dataset
from gsat.graphs import GraphBatch
from gsat.methods import Context, Method
from gsat.methods.base import GradientSync
from gsat.ops import Draws
from gsat.training.loop import make_method
from gsat.training.recipe import Recipe
from own_data import make_graphs

ROWS = np.arange(31)  # of the training set: 16 and 15 graphs
NUMBERS = np.array([1.0, 2.0, np.nan, 4.0, 8.0, 16.0, 32.0])
STAR: dict[str, Any] = {"epochs": 6, "pretrain_epochs": 4, "pretrain_ckpt": "best"}
PLATEAU: dict[str, Any] = {"epochs": 5, "plateau": 1}


def first_step(
    recipe: Recipe, data: Dataset, batch: GraphBatch, mode: str, sync: GradientSync
) -> Method:
    """A method after its first step; in ``eval`` mode batch norms don't look at the batch."""
    method = make_method(recipe, data)
    method.begin("train")
    method.model.train(mode == "train")
    method.step(batch, Context("train", 0, Draws(5), sync=sync))
    return method


def model_and_graphs() -> tuple[gsat.GSAT, Dataset]:
    """A model and graphs; with a batch size of one less than these, the last batch has one."""
    data = gsat.load_dataset(make_graphs(), task="binary")
    return gsat.GSAT(gsat.GIN.for_data(data, hidden=8, layers=1)), data
