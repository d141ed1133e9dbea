"""Backbones: networks that compute node embeddings, and logits from them.

A new backbone is one file: subclass :class:`Backbone`, declare its settings, and write
:meth:`~Backbone.build` and :meth:`~Backbone.embed`::

    class MyNetSettings(BackboneSettings):
        hidden: PositiveInt = Field(64, description="Width of the node embeddings.")
        layers: PositiveInt = Field(2, description="Number of layers.")

    @register_backbone("my-net")
    class MyNet(Backbone):
        Settings = MyNetSettings
        ...
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field
from torch import Tensor, nn

from gsat.core.errors import DataError
from gsat.core.registry import BACKBONES
from gsat.core.settings import Settings, argument_lines, signature, validated
from gsat.datasets.load import Dataset, check_dataset
from gsat.graphs import GraphBatch, GraphStore
from gsat.graphs.build import ranges
from gsat.models.encoder import CategoryEncoder, Encoder
from gsat.models.weights import seeded
from gsat.ops import Draws, pool
from gsat.tasks import Task

# Maps a layer's number, its input [N, h] and its messages [E, d] to the share of each message that
# passes [E] and the vector [d] that replaces the rest; None lets all pass.
Gate = Callable[[int, Tensor, Tensor], tuple[Tensor, Tensor] | None]


class BackboneSettings(Settings):
    """Base of a backbone's settings, the table ``[backbone]`` of a recipe."""

    name: str = Field("", description="Name of the backbone.")


class Backbone(nn.Module, ABC):
    """A graph network whose messages can be weighted per edge.

    GSAT makes two forward passes: :meth:`embed` without attention feeds the extractor, and the full
    network with attention predicts.

    Args:
        in_features: Number of node features, the columns of ``x``.
        task: What the logits are for.
        edge_features: Number of edge attributes that are used. (default: ``0``)
        categories: Number of categories of each column of ``x``, where columns are categories.
            (default: ``None``)
        seed: Decides the initial weights. (default: ``0``)
        **settings: Values of its settings, by name. (default: those of :attr:`Settings`)

    Attributes:
        name: The name it is registered under.
        Settings: The type of its settings.
        in_kernels: Whether all its large products are in our kernels, none in torch.
        results_version: Increased when a change of code changes the bits of its training, so that
            older records are ignored.
        limits_attention: Whether it obeys :attr:`attended_layers`.
        attended_layers: Number of layers whose messages attention weights; None for all.
        pooling: How node embeddings are pooled over a graph.
        hidden: Width of the node embeddings; set by :meth:`build`.
        encoder: The first layer; set by :meth:`build`, unless :meth:`encode` is overridden.
        head: From pooled embeddings to logits; set by :meth:`build`, unless :meth:`read_out` is
            overridden.
        config: The constructor's arguments as plain values, for :meth:`from_config`.
    """

    name: ClassVar[str]
    Settings: ClassVar[type[BackboneSettings]] = BackboneSettings
    in_kernels: ClassVar[bool] = False
    results_version: ClassVar[int] = 1
    limits_attention: ClassVar[bool] = False
    pooling: ClassVar[Literal["sum", "mean"]] = "sum"
    attended_layers: int | None = None
    settings: BackboneSettings
    hidden: int
    task: Task
    encoder: Encoder
    head: nn.Module
    config: dict[str, Any]

    def __init__(
        self,
        in_features: int,
        task: Task,
        *,
        edge_features: int = 0,
        categories: Sequence[int] | None = None,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        super().__init__()
        declared = self.Settings.model_fields
        used = {"edge_features": edge_features > 0} if "edge_features" in declared else {}
        name = getattr(self, "name", type(self).__name__)
        self.settings = validated(
            self.Settings, {**used, **settings, "name": name}, owner=type(self).__name__
        )
        self.task = task
        self.config = {
            "in_features": in_features,
            "categories": None if categories is None else list(categories),
            "task": task.as_dict(),
            "edge_features": edge_features,
            **self.settings.model_dump(exclude={"name", "edge_features"}),
        }
        with seeded(seed, name):
            self.build(in_features, edge_features, categories, self.settings)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Show the settings in the signature and in the docstring."""
        super().__init_subclass__(**kwargs)
        # A constructor of its own may take more arguments.
        inherited = inspect.signature(Backbone.__init__).parameters
        accepted = inspect.signature(cls.__init__).parameters
        if "settings" not in accepted:  # as in Wrapped
            return
        more = [
            parameter
            for name, parameter in accepted.items()
            if name not in inherited and parameter.kind is parameter.KEYWORD_ONLY
        ]
        shown = signature(Backbone.__init__, cls.Settings, leave_out=("name", *accepted))
        parameters = [p for p in shown.parameters.values() if p.name != "self"]
        cls.__signature__ = shown.replace(parameters=[*parameters, *more])  # type: ignore[attr-defined]
        if cls.__doc__ and "Args:" not in cls.__doc__:
            text, *example = inspect.cleandoc(cls.__doc__).partition("\nExample:")
            shared = (inspect.getdoc(Backbone) or "").partition("Args:\n")[2]
            shared = shared.partition("    **settings")[0]
            lines = argument_lines(cls.Settings, leave_out=("name", "edge_features"))
            parts = (text.rstrip(), "\n\nArgs:\n", shared, lines, "\n", *example)
            cls.__doc__ = "".join(parts)

    def build(
        self,
        in_features: int,
        edge_features: int,
        categories: Sequence[int] | None,
        settings: Any,
    ) -> None:
        """Make the layers; called by the constructor, with torch's generator seeded.

        Args:
            in_features: As in the constructor.
            edge_features: As in the constructor.
            categories: As in the constructor.
            settings: An instance of :attr:`Settings`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no build()")

    def encode(self, batch: GraphBatch) -> Tensor:
        """Encode node features as the input of the first layer, ``[N, hidden]``."""
        categories = isinstance(self.encoder, CategoryEncoder)
        return self.encoder(batch.x if categories else batch.x.to(self.encoder.weight.dtype))

    def edge_attributes(self, batch: GraphBatch) -> Tensor:
        """Return the edge attributes ``[E, D]``, or raise a :class:`DataError` without any."""
        if batch.edge_attr is None:
            raise DataError(f"this {self.name} network needs edge features; the graphs have none")
        return batch.edge_attr.to(next(self.parameters()).dtype)

    @abstractmethod
    def embed(
        self, batch: GraphBatch, attention: Tensor | None = None, draws: Draws | None = None
    ) -> Tensor:
        """Compute the node embeddings after the last layer, ``[N, hidden]``.

        Messages are multiplied by ``batch.weighted(attention)``, which includes the edge weights of
        the data.

        Args:
            batch: The graphs.
            attention: A weight for the message on each edge, ``[E]``. (default: all ones)
            draws: The source of dropout masks. (default: no dropout)
        """

    def read_out(self, embeddings: Tensor, batch: GraphBatch) -> Tensor:
        """Compute logits ``[B, num_logits]`` from node embeddings ``[N, hidden]``.

        At node level, ``[M, num_logits]`` for the target nodes.
        """
        return self.head(self.pooled(embeddings, batch, self.pooling))

    def pooled(
        self, embeddings: Tensor, batch: GraphBatch, how: Literal["sum", "mean"] = "sum"
    ) -> Tensor:
        """Pool node embeddings over each graph, ``[B, h]``; at node level, select the targets."""
        if self.task.level == "node":
            return batch.at_targets(embeddings)
        return pool(embeddings, batch.node_ptr, how)

    @property
    def hops(self) -> int:
        """Receptive field of a node, in hops."""
        return int(self.config["layers"])

    def forward(
        self,
        batch: GraphBatch,
        attention: Tensor | None = None,
        draws: Draws | None = None,
        node_weight: Tensor | None = None,
    ) -> Tensor:
        """Compute logits, by :meth:`embed` and :meth:`read_out`.

        Args:
            batch: The graphs.
            attention: As for :meth:`embed`.
            draws: As for :meth:`embed`.
            node_weight: A weight for the embedding of each node in the read-out, ``[N]``.
                (default: all ones)
        """
        h = self.embed(batch, attention, draws)
        return self.read_out(h if node_weight is None else h * node_weight[:, None], batch)

    def check_fits(self, store: GraphStore) -> None:
        """Raise a :class:`DataError` if graphs have other features than the network takes."""
        if len(store) == 0:
            return
        needed, width = self.config.get("in_features"), max(store.num_features, 1)
        if needed is not None and needed != width:
            raise DataError(
                f"the model was trained on graphs with {needed} node features, these have {width}"
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
        """Make a backbone whose input and output fit a data set.

        Args:
            data: The data set.
            seed: Decides the initial weights. (default: ``0``)
            edge_features: Whether the data's edge attributes are used. (default: ``True``)
            settings: As in the constructor.
        """
        check_dataset(data)
        return cls(
            max(data.store.num_features, 1),  # without any: a column of ones
            data.task,
            edge_features=data.store.num_edge_features if edge_features else 0,
            categories=data.store.meta.get("categories"),
            seed=seed,
            **settings,
        )

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Make the network that :attr:`config` describes, with fresh weights."""
        return cls(**{**config, "task": Task(**config["task"])})

    @property
    def description(self) -> dict[str, Any]:
        """:attr:`config` with the backbone's name, for :func:`backbone_from`."""
        return {"name": self.name, **self.config}


def backbone_from(description: Mapping[str, Any]) -> Backbone:
    """Make the backbone that :attr:`Backbone.description` describes, with fresh weights.

    Raises:
        GSATError: If no backbone is registered under the name.
    """
    config = dict(description)
    return BACKBONES[config.pop("name")].from_config(config)


def _check_categories(store: GraphStore, categories: Sequence[int]) -> None:
    """Raise unless the network has an embedding for every feature of the store."""
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
    """A backbone whose messages can be read, and replaced in part, layer by layer.

    Attributes:
        message_size: Width of a message, d.
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
        """Compute node embeddings ``[N, hidden]`` with gated messages; see :meth:`Backbone.embed`.

        ``gate`` is called in every layer. Where it returns z and b, a message m becomes
        z · m + (1 − z) · b before it is weighted.
        """


def withheld(keep: Tensor, weight: Tensor | None, batch: GraphBatch) -> Tensor:
    """The weight that gates withhold at each node, Σ_{u→v} w_uv · (1 − z_uv)."""
    lost = 1 - keep if weight is None else weight * (1 - keep)
    return lost.new_zeros(batch.num_nodes).index_add(0, batch.dst, lost)[:, None]
