"""The base of all models: they predict graphs or nodes, explain them, and can be saved."""

from __future__ import annotations

import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, overload

import torch
from torch import Tensor, nn

from gsat.core.errors import DataError, GSATError
from gsat.graphs import GraphBatch, GraphStore
from gsat.graphs.conversions import as_store, to_data_list
from gsat.models.backbone import Backbone, backbone_from
from gsat.models.output import ModelOutput, Predictions
from gsat.models.reliability import assess
from gsat.models.saved import write_model
from gsat.ops import exclusive_threads
from gsat.tasks import Task

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gsat.explanation import Explanation
    from gsat.models.wrapping.pyg_model import PyGModel

# Edges of one batch when predicting and explaining: one gigabyte at the widest layer (h = 64).
MAX_EDGES = 1 << 20


class InterpretableModel(nn.Module, ABC):
    """A model that predicts, and scores the edges it used.

    A subclass takes the backbone and its settings in the constructor, and keeps the settings in
    :attr:`settings`; then it can be saved and loaded. A model that would lose a setting is refused
    when it is saved. Callers never check its type: it implements
    the capabilities that it has among :meth:`answer`, :meth:`rescore`, :meth:`refined` and
    :meth:`take_snapshots`; the others raise a :class:`GSATError`.

    Attributes:
        explains: Whether its edge scores mean anything; without, they have no metrics.
        attention_decides: Whether the prediction depends on the model's own attention; the network
            of a post-hoc explainer predicts without it.
        predicts_by_backbone: Whether the backbone alone predicts; then it can be fine-tuned.
        method: The method it is trained by, which a saved model names.
        settings: The constructor's arguments next to the backbone, as plain values.
        input: How raw input becomes its graphs, as plain values: the features of molecules with
            their version, the names of columns, labels and classes; None where graphs are given.
        backbone: The network inside.
        on: Whether it attends to each ``edge`` or ``node``.
        r: The prior its probabilities were pulled to, or None.
    """

    explains: bool = True
    attention_decides: bool = True
    predicts_by_backbone: ClassVar[bool] = True
    method: str = ""
    settings: Mapping[str, Any] = MappingProxyType({})
    input: Mapping[str, Any] | None = None
    backbone: Backbone
    task: Task
    on: Literal["edge", "node"]
    r: float | None
    _trainer: int | None = None  # the thread that trains it
    _has_weights: bool = False  # loaded, or trained here

    @abstractmethod
    def forward(self, batch: GraphBatch) -> ModelOutput:
        """Compute logits and edge scores of a batch.

        Args:
            batch: The graphs.

        Returns:
            Logits ``[B, num_logits]`` (at node level ``[M, num_logits]``), edge scores ``[E]`` and
            the attention behind them.
        """

    @property
    def answers(self) -> bool:
        """Whether :meth:`answer` can predict under any attention."""
        return type(self).answer is not InterpretableModel.answer

    @property
    def rescores(self) -> bool:
        """Whether :meth:`rescore` can explain the attended graph."""
        return type(self).rescore is not InterpretableModel.rescore

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
        raise self._cannot("predict under given attention")

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
        raise self._cannot("explain the attended graph")

    def refined(self, passes: int) -> Self:
        """Return the same model with a number of refinement passes when it explains."""
        raise self._cannot("refine its explanations (refine)")

    def attend(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """Compute the attention of the model's own prediction.

        Args:
            h: Node embeddings of the whole graphs, ``[N, hidden]``.
            batch: The graphs.

        Returns:
            Attention as for :meth:`answer`; ones for a model that predicts without it.

        Raises:
            GSATError: If its attention does not follow from node embeddings.
        """
        if self.attention_decides:
            raise self._cannot("compute its attention from node embeddings")
        return h.new_ones(batch.num_edges if self.on == "edge" else batch.num_nodes)

    def edge_weights(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """Compute edge scores ``[E]``; arguments as for :meth:`attend`."""
        if not self.explains:
            raise self._cannot("score edges")
        output: ModelOutput = self(batch)
        return output.edge_weight

    def as_pyg(self, label: int | None = None) -> PyGModel:
        """Return a view of the model that ``torch_geometric.explain`` can call.

        Args:
            label: Which label of a multi-label model is explained. (default: ``None``)
        """
        from gsat.models.wrapping.pyg_model import PyGModel

        return PyGModel(self, label)

    def take_snapshots(self, weights: Sequence[Mapping[str, Tensor]]) -> None:
        """Explain by the mean score of the model with several state dicts from now on."""
        raise self._cannot("average its explanations over epochs (snapshots)")

    def _cannot(self, action: str) -> GSATError:
        return GSATError(f"a model of the type {type(self).__name__} can't {action}")

    def predict_batch(self, batch: GraphBatch) -> Tensor:
        """Predict a batch, ``[B, num_logits]``, without explaining it where that saves time."""
        output: ModelOutput = self(batch)
        return output.logits

    def embed(self, batch: GraphBatch) -> Tensor:
        """Embed the nodes of whole graphs, ``[N, hidden]``."""
        return self.backbone.embed(batch)

    @property
    def network(self) -> Mapping[str, Any]:
        """The backbone as plain values: its name, the features it takes, and its settings."""
        return self.config["backbone"]

    @property
    def bare_backbone(self) -> Backbone | None:
        """The backbone, if it predicts alone and without attention, so that it can be explained."""
        return None

    @property
    def hops(self) -> int:
        """Receptive field of a prediction, in hops."""
        return self.backbone.hops

    @property
    def remedies(self) -> tuple[str, ...]:
        """Settings, as for ``gsat train --set``, that may make its explanations more faithful."""
        return ()

    @property
    def config(self) -> dict[str, Any]:
        """Plain values from which :meth:`from_config` builds the same model."""
        return {"backbone": self.backbone.description, **self.settings}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Make the model that :attr:`config` describes, with fresh weights."""
        settings = dict(config)
        return cls(backbone_from(settings.pop("backbone")), **settings)

    def save(self, folder: str | Path) -> None:
        """Write the model, for :func:`gsat.load`.

        Args:
            folder: Made if it is not there; a model in it is replaced. It holds the weights as
                safetensors and a description as JSON, as ``best`` in the directory of a run does.

        Raises:
            GSATError: If the class has no :attr:`method`.
        """
        if not self.method:
            raise GSATError(
                f"a saved model names its method, and this {type(self).__name__} has none: set the "
                "class attribute 'method'"
            )
        write_model(folder, self.state_dict(), self.description(self.method))

    def check_config(self) -> None:
        """Raise if an argument of the constructor is not in :attr:`config`, and would be lost.

        ``seed`` decides initial weights only. A class with a ``from_config`` of its own answers for
        its arguments, and its subclasses for those they add.
        """
        kind = type(self)
        maker = next(parent for parent in kind.__mro__ if "from_config" in vars(parent))
        needed = [name for name in _arguments(kind) if name not in (*_arguments(maker), "seed")]
        if lost := [name for name in needed if name not in self.config]:
            raise GSATError(
                f"a saved {kind.__name__} would be loaded without its argument '{lost[0]}': keep "
                f"it in the model's settings, self.settings = {{'{lost[0]}': {lost[0]}, …}}"
            )

    def description(self, method: str) -> dict[str, Any]:
        """The description of a saved model, as plain values."""
        self.check_config()
        described: dict[str, Any] = {"method": method, "model": self.config}
        return described if self.input is None else {**described, "input": dict(self.input)}

    def __repr__(self) -> str:
        """A summary in four lines; ``print(model.backbone)`` shows all layers of the network."""
        inside = self.backbone.config
        hidden = ("task", "categories", "module")
        network = ", ".join(f"{k}={v!r}" for k, v in inside.items() if k not in hidden)
        settings = ", ".join(f"{k}={v!r}" for k, v in self.config.items() if k != "backbone")
        size = sum(parameter.numel() for parameter in self.parameters())
        return (
            f"{type(self).__name__}({settings})\n"
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
        return self.predict_with_spread(graphs, batch_size)[0]

    def predict_with_spread(
        self, graphs: Data | GraphStore | Iterable[Data], batch_size: int = 256
    ) -> tuple[Predictions, Tensor | None]:
        """Predict graphs, with the standard deviation ``[G, C]``; None for a single model."""
        store = as_store(graphs)
        with self.evaluating(), self.threads():
            batches = self._batches(store, batch_size)
            logits = [self._checked(self.predict_batch(batch), batch) for batch in batches]
        joined = torch.cat(logits) if logits else torch.zeros(0, self.task.num_logits)
        return self._predictions(joined), None

    def _predictions(self, logits: Tensor) -> Predictions:
        return Predictions(logits, self.task.probabilities(logits), self.task.decide(logits))

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
            refine: Number of refinement passes; see :meth:`refined`. (default: ``None``, as set in
                the model)

        Returns:
            One :class:`Explanation` for a ``Data``, else a list. ``edge_mask`` follows the edge
            order of the input graph.

        Raises:
            GSATError: If ``refine`` is given and the model has no refinement passes.
        """
        if refine is not None:
            return self.refined(refine).explain(graphs, batch_size)
        inputs = graphs if isinstance(graphs, GraphStore) else to_data_list(graphs)
        store = as_store(inputs)
        if self.task.level == "node":
            store = store.at_nodes(None)
        explained: list[Explanation] = []
        with self.evaluating():
            for batch in self._batches(store, batch_size):
                rows = range(len(explained), len(explained) + batch.num_graphs)
                originals = (
                    None if isinstance(inputs, GraphStore) else inputs[rows.start : rows.stop]
                )
                explained.extend(self._explain_batch(batch, store.select(rows), originals))
        from torch_geometric.data import Batch, Data

        single = isinstance(graphs, Data) and not isinstance(graphs, Batch)
        return explained[0] if single else explained

    def score_edges(self, graphs: GraphStore, batch_size: int = 256) -> tuple[Tensor, Tensor]:
        """Compute logits ``[G, num_logits]`` and edge scores ``[E]`` of many graphs.

        Graphs come one after the other, and edges in their original order.
        """
        # Allocate first: results kept one by one would fragment the memory freed by the batches.
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
        """The output for a batch, all of whose logits are finite."""
        output: ModelOutput = self(batch)
        self._checked(output.logits, batch)
        return output

    def _checked(self, logits: Tensor, batch: GraphBatch) -> Tensor:
        """Return the logits, or raise if one is NaN or infinite."""
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

    def _explain_batch(
        self, batch: GraphBatch, view: GraphStore, originals: list[Data] | None
    ) -> Iterator[Explanation]:
        """The explanation of each graph; the caller's graphs (else the store's) with new fields."""
        from gsat.explanation import Explanation

        def edge_values(values: Tensor) -> tuple[Tensor, ...]:
            ordered = torch.from_numpy(view.caller_order(values.numpy(force=True)))
            return ordered.split(batch.edge_ptr.diff().tolist())

        output, node_level = self._output(batch), self.task.level == "node"
        scores = edge_values(output.edge_weight)
        spreads = None if output.edge_spread is None else edge_values(output.edge_spread)
        logits, nodes = output.logits.cpu(), batch.node_ptr.tolist()
        probabilities, decisions = self.task.probabilities(logits), self.task.decide(logits)
        undirected = batch.undirected.tolist()
        answer = partial(self.answer, batch) if self.answers else None
        reliability = assess(self.task, self.on, batch, output, answer, self.attention_decides)
        explained = (
            view.each_pyg(Explanation)
            if originals is None
            else (Explanation.from_dict(dict(graph.items())) for graph in originals)
        )
        for number, out in enumerate(explained):
            of_nodes = slice(nodes[number], nodes[number + 1])
            out.edge_mask = scores[number].clone()
            if self.on == "node":
                out.node_mask = output.probability[of_nodes, None].cpu()
            if node_level:
                out.node_logits, out.node_probabilities = logits[of_nodes], probabilities[of_nodes]
                out.node_prediction, out.hops = decisions[of_nodes], self.hops
            else:
                out.logits, out.probabilities = logits[number], probabilities[number]
                out.prediction = decisions[number]
            out.undirected = undirected[number]
            if self.r is not None:
                out.r = self.r
            if spreads is not None:
                out.edge_spread = spreads[number]
            if output.answer_spread is not None:
                spread = output.answer_spread.cpu()
                out["node_spread" if node_level else "spread"] = spread[
                    of_nodes if node_level else number
                ]
            stability, necessary, sufficient = reliability[number]
            out.stability = stability
            out.necessary, out.sufficient = (necessary, sufficient) if out.found else (None, None)
            if self.untrained:
                out.doubt = "the model has not been trained"
            yield out

    @contextmanager
    def evaluating(self, gradients: bool = False) -> Iterator[None]:
        """Put the model in evaluation mode; with ``gradients``, keep gradients."""
        if self._trainer not in (None, threading.get_ident()):
            raise GSATError(
                "the model is being trained by another thread; wait until the training has ended, "
                "or use a copy of the model"
            )
        # Change only the flags that need it: threads may share a model in evaluation mode, and a
        # part that is frozen in evaluation mode stays so.
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
        """Whether its weights seem to be the initial ones."""
        return not self._has_weights and all(p.grad is None for p in self.parameters())

    def load_state_dict(self, state_dict: Mapping[str, Any], *how: Any, **named: Any) -> Any:
        """Load weights as torch does; the model then counts as trained."""
        self._has_weights = True
        return super().load_state_dict(state_dict, *how, **named)

    @contextmanager
    def being_trained(self) -> Iterator[None]:
        """Keep other threads from using the model while this block trains it."""
        self._trainer, self._has_weights = threading.get_ident(), True
        try:
            yield
        finally:
            self._trainer = None

    def threads(self) -> AbstractContextManager[None]:
        """Reserve the threads for our kernels while the block computes, if they do all of it."""
        return exclusive_threads() if self.backbone.in_kernels else nullcontext()

    def _batches(self, store: GraphStore, size: int) -> Iterator[GraphBatch]:
        device = next(self.parameters()).device
        self.check_fits(store)
        return (batch.to(device) for batch in store.batches(size, MAX_EDGES))

    def check_fits(self, store: GraphStore) -> None:
        """Raise a :class:`DataError` if graphs have other features than the model takes."""
        self.backbone.check_fits(store)


def _arguments(kind: type[InterpretableModel]) -> list[str]:
    """Names of the constructor's arguments after the backbone."""
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(kind).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind not in several][1:]
