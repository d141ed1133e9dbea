"""What every interpretable model can do: predict graphs and explain them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, overload

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from gsat.errors import DataError
from gsat.graphs import Explanation, GraphBatch, GraphStore, from_pyg
from gsat.tasks import Task

# Edges of one batch when predicting and explaining: one gigabyte at the widest layer (h = 64).
MAX_EDGES = 1 << 20


class Attended(NamedTuple):
    """What a model says of a batch.

    Attributes:
        logits: [B, num_logits]. edge_weight: [E], the score of each edge and the weight of its
            message. attention: [E] or [N], the α the weights were made from (sampled in
            training, p otherwise). probability: p, the same shape.
    """

    logits: Tensor
    edge_weight: Tensor
    attention: Tensor
    probability: Tensor


class Predictions(NamedTuple):
    """Predictions for G graphs: logits [G, L], probabilities [G, C], labels [G] or [G, T]."""

    logits: Tensor
    probabilities: Tensor
    labels: Tensor


class InterpretableModel(nn.Module, ABC):
    """A model that predicts and says which edges it used.

    Attributes:
        task: what it predicts. on: whether it attends to ``edge`` or ``node``.
        r: the prior its probabilities were pulled to, or None.
    """

    task: Task
    on: str
    r: float | None

    @abstractmethod
    def forward(self, batch: GraphBatch) -> Attended:
        """Logits and edge scores of a batch."""

    def predict(
        self, graphs: Data | GraphStore | Iterable[Data], batch_size: int = 256
    ) -> Predictions:
        """Predict graphs: a PyG ``Data``, a list of them, or a :class:`GraphStore`."""
        store = as_store(graphs)
        with self.evaluating():
            logits = [self._say(batch).logits for batch in self._batches(store, batch_size)]
        joined = torch.cat(logits) if logits else torch.zeros(0, self.task.num_logits)
        return Predictions(joined, self.task.probabilities(joined), self.task.decide(joined))

    @overload
    def explain(self, graphs: Data, batch_size: int = ...) -> Explanation: ...
    @overload
    def explain(  # type: ignore[overload-cannot-match]  # PyG's Data is untyped here
        self, graphs: GraphStore | Iterable[Data], batch_size: int = ...
    ) -> list[Explanation]: ...
    def explain(
        self, graphs: Data | GraphStore | Iterable[Data], batch_size: int = 256
    ) -> Explanation | list[Explanation]:
        """Explain one graph (a PyG ``Data``), or each of several.

        ``edge_mask`` follows the edge order of the graph that was given.
        """
        store = as_store(graphs)
        explained: list[Explanation] = []
        with self.evaluating():
            for batch in self._batches(store, batch_size):
                explained.extend(self._split(store, batch, self._say(batch), len(explained)))
        return explained[0] if isinstance(graphs, Data) else explained

    def score_edges(self, graphs: GraphStore, batch_size: int = 256) -> tuple[Tensor, Tensor]:
        """Logits [G, num_logits] and the score of every edge [E], graph after graph, in the
        caller's edge order."""
        # Made first and filled: results kept one by one would lie between the freed memory of
        # the batches, and it could not be used again.
        logits = torch.empty(len(graphs), self.task.num_logits)
        scores = torch.empty(graphs.num_edges)
        done = filled = 0
        with self.evaluating():
            for batch in self._batches(graphs, batch_size):
                said = self._say(batch)
                view = graphs.select(range(done, done + batch.num_graphs))
                weights = view.caller_order(said.edge_weight.numpy(force=True))
                logits[done : done + batch.num_graphs] = said.logits.cpu()
                scores[filled : filled + batch.num_edges] = torch.from_numpy(weights)
                done, filled = done + batch.num_graphs, filled + batch.num_edges
        return logits, scores

    def _say(self, batch: GraphBatch) -> Attended:
        said: Attended = self(batch)
        wrong = (~said.logits.isfinite()).any(dim=1).nonzero()
        if len(wrong):
            row = int(batch.graph_row[wrong[0, 0]])
            raise DataError(
                f"the model's answer for graph {row} is not a number; look for NaN or infinity in "
                f"its features"
            )
        return said

    def _split(
        self, store: GraphStore, batch: GraphBatch, said: Attended, first: int
    ) -> Iterator[Explanation]:
        scores = said.edge_weight.cpu()
        for number in range(batch.num_graphs):
            data = store[first + number]
            edges = slice(int(batch.edge_ptr[number]), int(batch.edge_ptr[number + 1]))
            nodes = slice(int(batch.node_ptr[number]), int(batch.node_ptr[number + 1]))
            order = store.select([first + number]).caller_order(scores[edges].numpy())
            logits = said.logits[number : number + 1].cpu()
            out = Explanation()
            for name, value in data.items():
                out[name] = value
            out.edge_mask = torch.from_numpy(order)
            if self.on == "node":
                out.node_mask = said.probability[nodes, None].cpu()
            out.logits = logits[0]
            out.probabilities = self.task.probabilities(logits)[0]
            out.prediction = self.task.decide(logits)[0]
            out.undirected = bool(batch.undirected[number])
            if self.r is not None:
                out.r = self.r
            yield out

    @contextmanager
    def evaluating(self, gradients: bool = False) -> Iterator[None]:
        """Inside, the model is in evaluation mode and, unless asked for, no gradients are kept."""
        # A flag is touched only when it must be, so that threads may share a model in eval mode;
        # and each on its own, so that a part frozen in eval mode stays frozen.
        training = [module for module in self.modules() if module.training]
        for module in training:
            module.training = False
        try:
            with torch.set_grad_enabled(gradients and torch.is_grad_enabled()):
                yield
        finally:
            for module in training:
                module.training = True

    def _batches(self, store: GraphStore, size: int) -> Iterator[GraphBatch]:
        device = next(self.parameters()).device
        self.check_fits(store)
        return (batch.to(device) for batch in store.batches(size, MAX_EDGES))

    def check_fits(self, store: GraphStore) -> None:
        """Hook: raise a :class:`DataError` when the graphs do not fit the model."""


def as_store(graphs: Any) -> GraphStore:
    """A store of a PyG ``Data``, of several, or the store that was given."""
    if isinstance(graphs, GraphStore):
        return graphs
    listed = [graphs] if isinstance(graphs, Data) else list(graphs)
    for number, graph in enumerate(listed):
        if not isinstance(graph, Data):
            raise DataError(f"graph {number} is a {type(graph).__name__}; a PyG Data was needed")
    keep = ("x", "edge_index", "edge_attr", "edge_truth", "node_truth", "num_nodes")
    return from_pyg([Data(**{k: g[k] for k in keep if g.get(k) is not None}) for g in listed])
