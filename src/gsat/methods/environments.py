"""Base of IRM and V-REx: a penalty on differences between environments."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from gsat.core.errors import DataError
from gsat.datasets.load import Dataset
from gsat.graphs import GraphBatch, GraphStore
from gsat.methods.base import Context, Losses
from gsat.methods.erm import ERMMethod, ERMSettings
from gsat.ops import Draws

# Fields of a graph that may name its environment; Spurious-Motif has a base.
FIELDS = ("environment", "base")

# Logits and labels of one environment's graphs (or nodes).
Group = tuple[Tensor, Tensor]


class EnvironmentSettings(ERMSettings):
    """Settings of methods with environments; those of ERM apply, too."""

    environments: Literal["random", "base"] = Field(
        "random",
        description="'random': two groups, fixed by the seed; 'base': as the data says, by each "
        "graph's field 'environment' or the base of Spurious-Motif.",
    )
    penalty: float = Field(1.0, ge=0, description="Weight of the penalty.")


class EnvironmentMethod(ERMMethod):
    """ERM with a penalty on differences between environments."""

    based_on = "erm"
    data_parallel = False  # the penalty of a batch is not the mean over its parts
    settings: EnvironmentSettings
    environment: Tensor  # of every graph of the store, [G] long, whatever the order of an epoch

    def prepare(self, data: Dataset) -> None:
        """Assign an environment to every graph; the training set needs two or more."""
        if self.settings.environments == "random":
            rows = torch.arange(len(data.store.arrays["node_ptr"]) - 1)
            drawn = Draws(self.seed, "environments").uniform(rows)
            self.environment = (drawn >= 0.5).long()
        else:
            self.environment = _from_data(data)
        count = len(self.environment[torch.from_numpy(data.train.index)].unique())
        if count < 2:
            raise DataError(
                f"{self.title} needs training graphs of at least 2 environments; those of "
                f"{data.name} have {count}"
            )

    def step(self, batch: GraphBatch, context: Context) -> Losses:
        """Take one gradient step on prediction loss + penalty."""
        assert batch.y is not None
        logits = self.model(batch, context.draws).logits
        loss = self.model.task.loss(logits, batch.y)
        groups = self.groups(logits, batch)
        penalty = self.penalty(groups) if groups else logits.new_zeros(())
        total = loss + self.settings.penalty * penalty
        self.update(total)
        return {"loss": loss, "penalty": penalty, "total": total}

    def groups(self, logits: Tensor, batch: GraphBatch) -> list[Group]:
        """Split logits and labels by environment."""
        assert batch.y is not None
        y = batch.y
        environment = self.environment.to(y.device)[batch.graph_row]
        if self.model.task.level == "node":
            environment = batch.at_targets(environment[batch.node_graph])
        labelled = ~y.isnan().reshape(len(y), -1).all(dim=1)
        present = environment[labelled].unique().tolist()
        rows = [(environment == number) & labelled for number in present]
        return [(logits[inside], y[inside]) for inside in rows]

    @abstractmethod
    def penalty(self, groups: list[Group]) -> Tensor:
        """The penalty, a scalar of at least 0, from the groups of one or more environments."""


def _from_data(data: Dataset) -> Tensor:
    """The environments that the graphs themselves name, ``[G]``."""
    store = GraphStore(data.store.arrays, data.store.meta)  # every row, whatever the view
    name = next((field for field in FIELDS if store.has(field)), None)
    if name is None:
        raise DataError(
            f"environments = 'base' needs graphs with a field '{FIELDS[0]}', which those of "
            f"{data.name} don't carry; choose environments = 'random'"
        )
    values = store.per_graph(name)
    if values.ndim != 1 or values.dtype.kind not in "iub":
        raise DataError(
            f"the field '{name}' must be one whole number per graph to name its environment, "
            f"not {values.dtype} of shape {list(values.shape)}"
        )
    return torch.from_numpy(values.astype("int64"))
