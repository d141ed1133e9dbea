"""What every interpretable model can do: predict graphs (or their nodes) and explain them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ClassVar, NamedTuple, overload

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

from gsat.errors import DataError
from gsat.explanation import Explanation
from gsat.graphs import GraphBatch, GraphStore, from_pyg
from gsat.graphs.conversions import to_data_list
from gsat.models.backbone import Backbone
from gsat.ops import exclusive_threads
from gsat.tasks import Task

# Edges of one batch when predicting and explaining: one gigabyte at the widest layer (h = 64).
MAX_EDGES = 1 << 20


class ModelOutput(NamedTuple):
    """What a model says of a batch.

    Attributes:
        logits: [B, num_logits], or [M, num_logits] for the M nodes asked for at node level.
        edge_weight: [E], the score of each edge; its message is multiplied with it (and with the
            data's own weight, if it has one).
        attention: [E] or [N], the α the weights were made from (sampled in training, p otherwise).
        probability: p, the same shape.
    """

    logits: Tensor
    edge_weight: Tensor
    attention: Tensor
    probability: Tensor


class Predictions(NamedTuple):
    """Predictions for G graphs (at node level: nodes): logits [G, L], probabilities [G, C], and
    labels [G] or [G, T], in regression the predicted numbers [G]."""

    logits: Tensor
    probabilities: Tensor
    labels: Tensor


class InterpretableModel(nn.Module, ABC):
    """A model that predicts and says which edges it used.

    Attributes:
        backbone: the network inside. task: what it predicts.
        on: whether it attends to ``edge`` or ``node``.
        r: the prior its probabilities were pulled to, or None.
        explains: whether its edge scores say anything; without, they have no metrics.
        predicts_by_backbone: whether the backbone alone gives answers; it may be fine-tuned then.
    """

    explains: ClassVar[bool] = True
    predicts_by_backbone: ClassVar[bool] = True
    backbone: Backbone
    task: Task
    on: str
    r: float | None

    @abstractmethod
    def forward(self, batch: GraphBatch) -> ModelOutput:
        """Logits and edge scores of a batch."""

    def predict(
        self, graphs: Data | GraphStore | Iterable[Data], batch_size: int = 256
    ) -> Predictions:
        """Predict graphs: a PyG ``Data``, a list of them, a ``Batch``, a loader, or a
        :class:`GraphStore`.

        A node-level model predicts every node, graph after graph; of a split, the split's nodes.
        """
        store = as_store(graphs)
        with self.evaluating(), self._threads():
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
        """Explain one graph (a PyG ``Data``), or each of several (a ``Batch``, say).

        ``edge_mask`` follows the edge order of the graph that was given. A node-level model
        explains the whole graph; ``explanation.of_node(7)`` is about the answer for node 7.
        """
        given = graphs if isinstance(graphs, GraphStore) else to_data_list(graphs)
        store = as_store(given)
        if self.task.level == "node":
            store = store.at_nodes(None)
        explained: list[Explanation] = []
        with self.evaluating():
            for batch in self._batches(store, batch_size):
                first = len(explained)
                view = store.select(range(first, first + batch.num_graphs))
                explained.extend(self._split(given, view, batch, first))
        single = isinstance(graphs, Data) and not isinstance(graphs, Batch)
        return explained[0] if single else explained

    def score_edges(self, graphs: GraphStore, batch_size: int = 256) -> tuple[Tensor, Tensor]:
        """Logits [G, num_logits] (at node level, of the nodes asked for) and the score of every
        edge [E], graph after graph, in the caller's edge order."""
        # Made first and filled: results kept one by one would lie between the freed memory of
        # the batches, and it could not be used again.
        logits = torch.empty(graphs.count(self.task.level), self.task.num_logits)
        scores = torch.empty(graphs.num_edges)
        done = said_of = filled = 0
        with self.evaluating():
            for batch in self._batches(graphs, batch_size):
                said = self._say(batch)
                view = graphs.select(range(done, done + batch.num_graphs))
                weights = view.caller_order(said.edge_weight.numpy(force=True))
                logits[said_of : said_of + len(said.logits)] = said.logits.cpu()
                scores[filled : filled + batch.num_edges] = torch.from_numpy(weights)
                done, said_of = done + batch.num_graphs, said_of + len(said.logits)
                filled += batch.num_edges
        return logits, scores

    def _say(self, batch: GraphBatch) -> ModelOutput:
        said: ModelOutput = self(batch)
        wrong = (~said.logits.isfinite()).any(dim=1).nonzero()
        if len(wrong):
            graph = wrong[0, 0]
            if self.task.level == "node":
                graph = batch.at_targets(batch.node_graph)[graph]
            row = int(batch.graph_row[graph])
            raise DataError(
                f"the model's answer for graph {row} is not a number; look for NaN or infinity in "
                f"its features"
            )
        return said

    def _split(
        self, given: GraphStore | list[Data], view: GraphStore, batch: GraphBatch, first: int
    ) -> Iterator[Explanation]:
        said = self._say(batch)
        scores = torch.from_numpy(view.caller_order(said.edge_weight.numpy(force=True)))
        logits, edges, nodes = said.logits.cpu(), batch.edge_ptr.tolist(), batch.node_ptr.tolist()
        probabilities, decisions = self.task.probabilities(logits), self.task.decide(logits)
        for number, undirected in enumerate(batch.undirected.tolist()):
            out = Explanation()
            for name, value in given[first + number].items():
                out[name] = value
            out.edge_mask = scores[edges[number] : edges[number + 1]].clone()
            if self.on == "node":
                out.node_mask = said.probability[nodes[number] : nodes[number + 1], None].cpu()
            if self.task.level == "node":
                own = slice(nodes[number], nodes[number + 1])
                out.node_logits, out.node_probabilities = logits[own], probabilities[own]
                out.node_prediction, out.hops = decisions[own], self.backbone.hops
            else:
                out.logits, out.probabilities = logits[number], probabilities[number]
                out.prediction = decisions[number]
            out.undirected = undirected
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

    def _threads(self) -> AbstractContextManager[None]:
        return exclusive_threads() if self.backbone.in_kernels else nullcontext()

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
    # Labels and truths, which some of the graphs may have and others not, are no input.
    keep = ("x", "edge_index", "edge_attr", "edge_weight", "num_nodes")
    given = to_data_list(graphs)
    return from_pyg([Data(**{k: g[k] for k in keep if g.get(k) is not None}) for g in given])
