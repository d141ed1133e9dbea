"""What every interpretable model can do: predict graphs or nodes, explain them, be saved."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, overload

import torch
from torch import Tensor, nn

from gsat.core.errors import DataError, GSATError
from gsat.graphs import GraphBatch, GraphStore
from gsat.graphs.conversions import as_store, to_data_list
from gsat.graphs.pyg_data import each_pyg
from gsat.models.backbone import Backbone, backbone_from
from gsat.models.output import ModelOutput, Predictions
from gsat.models.reliability import assess
from gsat.models.saved import write_model
from gsat.ops import exclusive_threads
from gsat.tasks import Task

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gsat.explanation import Explanation

# Edges of one batch when predicting and explaining: one gigabyte at the widest layer (h = 64).
MAX_EDGES = 1 << 20


class InputFeatures(NamedTuple):
    """Features that the graphs of a model must have."""

    node: int | None  # columns of x; None where the model does not say
    edge: int  # columns of edge_attr that it uses
    categorical: bool  # whether x contains categories: whole numbers


class InterpretableModel(nn.Module, ABC):
    """A model that predicts and scores the edges it used.

    A subclass takes the backbone and its settings in the constructor, and keeps the settings in
    :attr:`settings`; then it can be saved and loaded.

    Attributes:
        explains: Whether its edge scores mean anything; without, they have no metrics.
        answers: Whether :meth:`answer` can predict under any attention.
        attention_decides: Whether the prediction depends on the model's own attention; the network
            of a post-hoc explainer predicts without it.
        rescores: Whether :meth:`rescore` can explain the attended graph.
        predicts_by_backbone: Whether the backbone alone gives answers; it may be fine-tuned then.
        method: The method it is trained by, which a saved model names.
        settings: The constructor's arguments next to the backbone, as plain values.
        input: What turns raw input into its graphs, as plain values: of molecules the features with
            their version, the names of columns, labels and classes; None where graphs are given.
        backbone: The network inside.
        task: What it predicts.
        on: Whether it attends to ``edge`` or ``node``.
        r: The prior its probabilities were pulled to, or None.
    """

    explains: ClassVar[bool] = True
    answers: ClassVar[bool] = False
    attention_decides: ClassVar[bool] = True
    rescores: ClassVar[bool] = False
    predicts_by_backbone: ClassVar[bool] = True
    method: str = ""
    settings: Mapping[str, Any] = MappingProxyType({})
    input: Mapping[str, Any] | None = None
    backbone: Backbone
    task: Task
    on: str
    r: float | None
    _trainer: int | None = None  # the thread that trains it
    _has_weights: bool = False  # of a training, here or elsewhere

    @abstractmethod
    def forward(self, batch: GraphBatch) -> ModelOutput:
        """Compute logits and edge scores of a batch.

        Args:
            batch: The graphs.

        Returns:
            Logits ``[B, num_logits]`` (at node level ``[M, num_logits]``), edge scores ``[E]`` and
            what they were made from.
        """

    def answer(self, batch: GraphBatch, attention: Tensor) -> Tensor:
        """Predict under given attention, by the network that makes the model's predictions.

        Given the attention of the model's own output, the answer is the model's own prediction.

        Args:
            batch: The graphs.
            attention: A number from 0 to 1 for each edge ``[E]`` or node ``[N]``, as :attr:`on`
                says.

        Returns:
            Logits ``[B, num_logits]``, or at node level ``[M, num_logits]``.

        Raises:
            GSATError: If the model can't predict under given attention; see :attr:`answers`.
        """
        raise GSATError(f"{type(self).__name__} does not predict under given attention")

    def rescore(self, batch: GraphBatch, attention: Tensor) -> Tensor:
        """Explain the attended graph.

        Args:
            batch: The graphs.
            attention: As for :meth:`answer`.

        Returns:
            New scores, in the shape of ``attention``.

        Raises:
            GSATError: If the model can't explain an attended graph; see :attr:`rescores`.
        """
        raise GSATError(f"{type(self).__name__} does not explain an attended graph")

    @property
    def input_features(self) -> InputFeatures:
        """The features that its graphs must have."""
        config = self.backbone.config
        return InputFeatures(
            config.get("in_features"),
            config.get("edge_features") or 0,
            bool(config.get("categories")),
        )

    def embed(self, batch: GraphBatch) -> Tensor:
        """Return node embeddings without attention, ``[N, h]``."""
        return self.backbone.embed(batch)

    def predict_batch(self, batch: GraphBatch) -> Tensor:
        """Predict a batch without explaining it, where the prediction does not depend on that.

        Args:
            batch: The graphs.

        Returns:
            Logits ``[B, num_logits]``, or at node level ``[M, num_logits]``.
        """
        output: ModelOutput = self(batch)
        return output.logits

    @property
    def remedies(self) -> tuple[str, ...]:
        """Settings it is not trained with that may make its explanations more faithful.

        Each is written as for ``gsat train --set``, such as ``readout=attended``.
        """
        return ()

    @property
    def config(self) -> dict[str, Any]:
        """Plain values from which :meth:`from_config` builds the same model."""
        return {"backbone": self.backbone.description, **self.settings}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Make the model that :attr:`config` describes, with fresh weights.

        Args:
            config: Plain values, as :attr:`config` holds them.

        Returns:
            The model.
        """
        settings = dict(config)
        return cls(backbone_from(settings.pop("backbone")), **settings)

    def save(self, folder: str | Path) -> None:
        """Write the model, for :func:`gsat.load`.

        Args:
            folder: Made if it is not there; a model in it is replaced. It holds the weights as
                safetensors and a description as JSON, as ``best`` in the directory of a run does.

        Raises:
            GSATError: If no method is known whose model this is.
        """
        if not self.method:
            raise GSATError(
                f"a saved model names its method, and this {type(self).__name__} has none: set the "
                "class attribute 'method'"
            )
        write_model(folder, self.state_dict(), self.description(self.method))

    def description(self, method: str) -> dict[str, Any]:
        """What a saved model is described by, as plain values.

        Args:
            method: The name of its method.
        """
        described: dict[str, Any] = {"method": method, "model": self.config}
        return described if self.input is None else {**described, "input": dict(self.input)}

    def __repr__(self) -> str:
        """What it is, in four lines; ``print(model.backbone)`` shows all layers of the network."""
        inside = self.backbone.config
        hidden = ("task", "categories", "module")
        network = ", ".join(f"{k}={v!r}" for k, v in inside.items() if k not in hidden)
        own = ", ".join(f"{k}={v!r}" for k, v in self.config.items() if k != "backbone")
        size = sum(parameter.numel() for parameter in self.parameters())
        return (
            f"{type(self).__name__}({own})\n"
            f"  task: {self.task.kind}, one answer per {self.task.level}\n"
            f"  backbone: {type(self.backbone).__name__}({network})\n"
            f"  parameters: {size:,}"
        )

    def predict(
        self, graphs: Data | GraphStore | Iterable[Data], batch_size: int = 256
    ) -> Predictions:
        """Predict graphs, or at node level their nodes.

        Args:
            graphs: A PyG ``Data``, a list of them, a ``Batch``, a loader, or a
                :class:`GraphStore`.
            batch_size: Graphs at a time. (default: ``256``)

        Returns:
            A row per graph. A node-level model predicts every node, graph after graph; of a split,
            the split's nodes.
        """
        store = as_store(graphs)
        with self.evaluating(), self.threads():
            batches = self._batches(store, batch_size)
            logits = [self._checked(self.predict_batch(batch), batch) for batch in batches]
        joined = torch.cat(logits) if logits else torch.zeros(0, self.task.num_logits)
        return Predictions(joined, self.task.probabilities(joined), self.task.decide(joined))

    def predict_with_spread(self, graphs: GraphStore) -> tuple[Predictions, Tensor | None]:
        """Predict graphs, with the spread of the predictions over the members of an ensemble.

        Args:
            graphs: The graphs.

        Returns:
            The predictions, and the standard deviation of the probabilities, ``[G, C]``, or of the
            numbers in a regression; None for a single model.
        """
        return self.predict(graphs), None

    @overload
    def explain(
        self, graphs: Data, batch_size: int = ..., *, refine: int | None = ...
    ) -> Explanation: ...
    @overload
    def explain(  # type: ignore[overload-cannot-match]  # PyG's Data is untyped here
        self,
        graphs: GraphStore | Iterable[Data],
        batch_size: int = ...,
        *,
        refine: int | None = ...,
    ) -> list[Explanation]: ...
    def explain(
        self,
        graphs: Data | GraphStore | Iterable[Data],
        batch_size: int = 256,
        *,
        refine: int | None = None,
    ) -> Explanation | list[Explanation]:
        """Explain one graph, or each of several.

        A node-level model explains the whole graph; ``explanation.of_node(7)`` is about the answer
        for node 7.

        Args:
            graphs: As for :meth:`predict`.
            batch_size: Graphs at a time. (default: ``256``)
            refine: Further looks; see :meth:`refined`. (default: ``None``, as the model has it)

        Returns:
            One :class:`Explanation` for a ``Data``, else a list. ``edge_mask`` follows the edge
            order of the graph that was given.

        Raises:
            GSATError: If the model can't look again.
        """
        if refine is not None:
            return self.refined(refine).explain(graphs, batch_size)
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
        from torch_geometric.data import Batch, Data

        single = isinstance(graphs, Data) and not isinstance(graphs, Batch)
        return explained[0] if single else explained

    def refined(self, looks: int) -> Self:
        """Return the same model that looks again when it explains.

        Args:
            looks: How many further looks; 0 for none.

        Raises:
            GSATError: If the model has no extractor that could look again.
        """
        raise GSATError(
            f"only models of GSAT can look again at a graph (refine), not {type(self).__name__}"
        )

    def take_snapshots(self, weights: Sequence[Mapping[str, Tensor]]) -> None:
        """Explain by the mean score of the model after several epochs from now on.

        Args:
            weights: The model's state dict after each of these epochs.

        Raises:
            GSATError: If the model can't explain by several epochs.
        """
        raise GSATError(f"only models of GSAT explain by snapshots, not {type(self).__name__}")

    def score_edges(self, graphs: GraphStore, batch_size: int = 256) -> tuple[Tensor, Tensor]:
        """Logits and edge scores of many graphs.

        Args:
            graphs: The graphs.
            batch_size: Graphs at a time. (default: ``256``)

        Returns:
            Logits ``[G, num_logits]`` (at node level, of the target nodes) and the score of every
            edge ``[E]``, graph after graph, in the edge order of the original graphs.
        """
        # Made first and filled: results kept one by one would lie between the freed memory of
        # the batches, and it could not be used again.
        logits = torch.empty(graphs.count(self.task.level), self.task.num_logits)
        scores = torch.empty(graphs.num_edges)
        done = predicted = filled = 0
        with self.evaluating():
            for batch in self._batches(graphs, batch_size):
                output = self._output(batch)
                view = graphs.select(range(done, done + batch.num_graphs))
                weights = view.caller_order(output.edge_weight.numpy(force=True))
                logits[predicted : predicted + len(output.logits)] = output.logits.cpu()
                scores[filled : filled + batch.num_edges] = torch.from_numpy(weights)
                done, predicted = done + batch.num_graphs, predicted + len(output.logits)
                filled += batch.num_edges
        return logits, scores

    def _output(self, batch: GraphBatch) -> ModelOutput:
        """The output for a batch, checked."""
        output: ModelOutput = self(batch)
        self._checked(output.logits, batch)
        return output

    def _checked(self, logits: Tensor, batch: GraphBatch) -> Tensor:
        """The logits, if all of them are numbers."""
        wrong = (~logits.isfinite()).any(dim=1).nonzero()
        if len(wrong):
            graph = wrong[0, 0]
            if self.task.level == "node":
                graph = batch.at_targets(batch.node_graph)[graph]
            row = int(batch.graph_row[graph])
            raise DataError(
                f"the model's answer for graph {row} is not a number; look for NaN or infinity in "
                f"its features"
            )
        return logits

    def _split(
        self, given: GraphStore | list[Data], view: GraphStore, batch: GraphBatch, first: int
    ) -> Iterator[Explanation]:
        from gsat.explanation import Explanation

        output = self._output(batch)
        scores = torch.from_numpy(view.caller_order(output.edge_weight.numpy(force=True)))
        logits, edges, nodes = output.logits.cpu(), batch.edge_ptr.tolist(), batch.node_ptr.tolist()
        probabilities, decisions = self.task.probabilities(logits), self.task.decide(logits)
        if isinstance(given, GraphStore):
            graphs = each_pyg(view, Explanation)
        else:
            own_graphs = given[first : first + batch.num_graphs]
            graphs = (Explanation.from_dict(dict(graph.items())) for graph in own_graphs)
        marks, reliability = batch.undirected.tolist(), assess(self, batch, output)
        for number, (undirected, out) in enumerate(zip(marks, graphs, strict=True)):
            out.edge_mask = scores[edges[number] : edges[number + 1]].clone()
            if self.on == "node":
                out.node_mask = output.probability[nodes[number] : nodes[number + 1], None].cpu()
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
            if output.edge_spread is not None:
                spread = view.caller_order(output.edge_spread.numpy(force=True))
                out.edge_spread = torch.from_numpy(spread)[edges[number] : edges[number + 1]]
            if output.answer_spread is not None:
                graph_level = self.task.level == "graph"
                out["spread" if graph_level else "node_spread"] = output.answer_spread.cpu()[
                    number if graph_level else own
                ]
            stability, necessary, sufficient = reliability[number]
            out.stability = stability
            out.necessary, out.sufficient = (necessary, sufficient) if out.found else (None, None)
            if self.untrained:
                out.doubt = "the model has not been trained"
            yield out

    @contextmanager
    def evaluating(self, gradients: bool = False) -> Iterator[None]:
        """Put the model in evaluation mode for a while.

        Args:
            gradients: Whether gradients are kept, too. (default: ``False``)
        """
        if self._trainer not in (None, threading.get_ident()):
            raise GSATError(
                "the model is being trained by another thread; wait until the training has ended, "
                "or use a copy of the model"
            )
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

    @property
    def untrained(self) -> bool:
        """Whether its weights are, as far as can be told, those it was made with."""
        return not self._has_weights and all(p.grad is None for p in self.parameters())

    def load_state_dict(self, state_dict: Mapping[str, Any], *how: Any, **named: Any) -> Any:
        """Load weights as torch does; they count as trained.

        Args:
            state_dict: Weights by name.
            *how: As in torch.
            **named: As in torch.
        """
        self._has_weights = True
        return super().load_state_dict(state_dict, *how, **named)

    @contextmanager
    def being_trained(self) -> Iterator[None]:
        """Keep other threads from using the model while the block changes its weights."""
        self._trainer, self._has_weights = threading.get_ident(), True
        try:
            yield
        finally:
            self._trainer = None

    def threads(self) -> AbstractContextManager[None]:
        """Reserve the threads for our kernels while the block computes, if they do all the work."""
        return exclusive_threads() if self.backbone.in_kernels else nullcontext()

    def _batches(self, store: GraphStore, size: int) -> Iterator[GraphBatch]:
        device = next(self.parameters()).device
        self.check_fits(store)
        return (batch.to(device) for batch in store.batches(size, MAX_EDGES))

    def check_fits(self, store: GraphStore) -> None:
        """Check that graphs have the features the model was made for.

        Args:
            store: The graphs.

        Raises:
            DataError: If they have others.
        """
        self.backbone.check_fits(store)
