"""``wrap``: any PyTorch Geometric network as a backbone, without changing it."""

from __future__ import annotations

import inspect
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_args

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from gsat.core.errors import DataError, GSATError
from gsat.core.registry import register_backbone
from gsat.graphs import GraphBatch, GraphStore
from gsat.models.backbone import Backbone, BackboneSettings
from gsat.models.weights import seeded
from gsat.models.wrapping.inspection import (
    check_embeddings,
    example_batches,
    forward_inputs,
    message_passing_layers,
)
from gsat.models.wrapping.message_weights import WeightedPass
from gsat.models.wrapping.node_weights import NodeGate, Place
from gsat.models.wrapping.settings import WrappedSettings, own_module, shorten
from gsat.ops import Draws
from gsat.tasks import Task

if TYPE_CHECKING:
    from gsat.datasets.load import Dataset

# The process has a single torch generator: trainings in several threads take turns.
_GENERATOR = threading.Lock()


def wrap(
    module: nn.Module,
    task: Task,
    *,
    embed: str | None = None,
    example: Data | GraphStore | Iterable[Data] | None = None,
    seed: int = 0,
) -> Wrapped:
    """Make a backbone of any PyG network, for :class:`gsat.GSAT`.

    The network's ``forward`` takes ``x`` and ``edge_index`` and, if it names them, ``edge_attr``,
    ``edge_weight``, ``batch`` and ``batch_size``; edges have the order of the input graphs. It
    returns node embeddings ``[N, hidden]`` (a linear layer on their sum over each graph follows) or
    the logits of graphs ``[B, num_logits]``. Its weights are shared, not copied: training the model
    trains the module. Attributes that its ``forward`` sets on itself, other than buffers, are lost
    after each forward pass.

    Attention multiplies the messages of every message-passing layer. A layer with an optional
    ``edge_weight`` gets it there, before it normalises; in a softmax over neighbours, attention
    multiplies the terms. A warning says if nodes exchange information in another way (a norm over
    the graph, a virtual node, attention between all nodes).

    With ``readout="attended"``, GSAT weights nodes in the read-out, too: node embeddings before
    they are summed or, in a network that returns logits, the input of every ``global_add_pool``,
    ``global_mean_pool``, ``global_max_pool`` and aggregation module (also before a maximum, so that
    an embedding of weight 0 counts as 0). If logits still depend on node features without any
    attention, it multiplies the features instead, or the outputs of the ``nn.Embedding`` that read
    them. If that does not help either, it warns and weights nothing; see
    :attr:`Wrapped.node_gate`.

    Args:
        module: The network.
        task: What it predicts, such as ``data.task``.
        embed: Name of the submodule whose output is the node embeddings, if the network returns
            logits. (default: ``None``, the message-passing layer that runs last)
        example: One or several graphs for a trial. (default: ``None``, random graphs with as many
            features as one of its parts takes)
        seed: Decides the initial weights of the linear layer, if there is one. (default: ``0``)

    Raises:
        GSATError: If the network cannot be wrapped; the message says why.

    Example:
        >>> import gsat
        >>> from torch_geometric.nn import GCN
        >>> network = GCN(10, 16, num_layers=2)
        >>> model = gsat.GSAT(gsat.wrap(network, task=gsat.Task("binary")))
        >>> model.backbone.hidden
        16
    """
    return Wrapped(module, task, embed=embed, example=example, seed=seed)


@register_backbone("wrapped")
class Wrapped(Backbone):
    """A PyG network as a backbone; :func:`wrap` makes one.

    Attributes:
        gives: Whether a row of the network's output belongs to one of the ``"nodes"`` or
            ``"graphs"``.
    """

    Settings: ClassVar[type[BackboneSettings]] = WrappedSettings
    results_version = 2

    def __init__(
        self,
        module: nn.Module,
        task: Task,
        *,
        embed: str | None = None,
        example: Data | GraphStore | Iterable[Data] | None = None,
        seed: int = 0,
    ) -> None:
        nn.Module.__init__(self)  # there is nothing to build
        if not isinstance(task, Task):
            raise GSATError(f"task= is what the network predicts, data.task say, not {task!r}")
        self.module, self.task, self.embed_name = module, task, embed
        described = " ".join(repr(module).split())
        self.settings = WrappedSettings(name=self.name, module=described)
        self.takes = forward_inputs(module)
        layers = message_passing_layers(module)
        if embed is not None and embed not in dict(module.named_modules()):
            names = ", ".join(name for name, _ in module.named_children())
            raise GSATError(
                f"the network has no submodule '{embed}' to embed with; it has: {names}"
            )
        # PyG's ready-made networks pass edge attributes to layers that were not built for them.
        ready = [x for x in layers if "edge_attr" in inspect.signature(x.forward).parameters]
        refused = ready and all(getattr(layer, "edge_dim", 0) is None for layer in ready)
        self.edge_attr = "edge_attr" in self.takes and not refused
        self.whole_numbers = any(isinstance(part, nn.Embedding) for part in module.modules())

        batch = self._try(example_batches(module, layers, self.edge_attr, example))
        self._example = batch if self.gives == "graphs" else None
        self._gate: tuple[Place | None, str] | None = None  # a place, or why there is none
        if self.gives == "nodes":
            with seeded(seed, "wrapped"):
                self.head = nn.Linear(self.hidden, task.num_logits)
            self.head.to(self._like.device, self._like.dtype)
        self.config = {
            "module": self.settings.module,
            "task": task.as_dict(),
            "embed": embed,
            "gives": self.gives,
            "hidden": self.hidden,
            "in_features": batch.x.shape[1],
            "edge_features": batch.edge_attr.shape[1]
            if self.edge_attr and batch.edge_attr is not None
            else 0,
        }

    @classmethod
    def for_data(cls, data: Dataset, *, seed: int = 0, **settings: Any) -> Self:
        """Raise an error: the network must be made in Python."""
        raise GSATError(
            "the backbone 'wrapped' is your own network; train it in Python: "
            "gsat.fit(gsat.GSAT(gsat.wrap(module, task=data.task)), data)"
        )

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Raise an error: the network must be made in Python."""
        raise own_module(config["module"])

    def embed(
        self, batch: GraphBatch, attention: Tensor | None = None, draws: Draws | None = None
    ) -> Tensor:
        """Compute node embeddings ``[N, hidden]``; see :meth:`Backbone.embed`."""
        out, record = self._call(batch, attention, draws)
        return self._embeddings(out, record.outputs, batch)

    def read_out(self, embeddings: Tensor, batch: GraphBatch) -> Tensor:
        """Compute logits by one linear layer, if the network returns node embeddings."""
        if self.gives == "graphs":
            raise GSATError("this network gives logits of graphs; it has no read-out of its own")
        return super().read_out(embeddings, batch)

    @property
    def hops(self) -> int:
        """Number of message-passing rounds in the trial."""
        return self._hops

    def forward(
        self,
        batch: GraphBatch,
        attention: Tensor | None = None,
        draws: Draws | None = None,
        node_weight: Tensor | None = None,
    ) -> Tensor:
        """Compute logits ``[B, num_logits]``; see :meth:`Backbone.forward`.

        ``node_weight`` acts at :attr:`node_gate`; without one, it has no effect.
        """
        if self.gives == "nodes":
            return super().forward(batch, attention, draws, node_weight)
        place = None if node_weight is None else self.node_gate
        out, record = self._call(batch, attention, draws, place, node_weight)
        if record.gate is not None and not record.gate.applied:
            raise GSATError(
                f"readout='attended' weights the {place} of {type(self.module).__name__}, and its "
                f"forward did not use them on this batch as it did on the example of wrap()"
            )
        if len(out) != batch.num_graphs:
            raise DataError(
                f"the network returned {len(out)} rows for {batch.num_graphs} graphs; remove "
                f"graphs without nodes, or let it pool with batch_size"
            )
        return out

    @property
    def node_gate(self) -> Place | None:
        """Place where node weights enter a network that returns logits.

        The first of ``"pooling"``, ``"features"`` and ``"embeddings"`` that keeps node features out
        of the logits when attention is 0 everywhere, in a trial on the example of :func:`wrap`.
        None with a warning if there is no such place. None for a network that returns node
        embeddings, which are weighted before they are pooled.
        """
        if self._example is None:
            return None
        if self._gate is None:
            self._gate = self._find_gate(self._example)
            place, reasons = self._gate
            if place is None:
                warnings.warn(
                    f"readout='attended' has no effect on {type(self.module).__name__}: node "
                    f"features reach its logits even when attention is 0 ({reasons}). The network "
                    f"can predict without attention, so explanations may miss what it uses; let it "
                    f"pool node embeddings, for example by torch_geometric.nn.global_add_pool",
                    stacklevel=3,
                )
        return self._gate[0]

    # -- forward passes -------------------------------------------------------------------------

    @property
    def _like(self) -> Tensor:
        """A tensor with the device and the dtype of the network."""
        weights = (p for p in self.module.parameters() if p.is_floating_point())
        return next(weights, torch.zeros(()))

    def _call(
        self,
        batch: GraphBatch,
        attention: Tensor | None,
        draws: Draws | None,
        place: Place | None = None,
        node_weight: Tensor | None = None,
        noise: torch.Generator | None = None,
    ) -> tuple[Any, WeightedPass]:
        """Call the network, with nodes weighted at ``place``; its result and a record."""
        inputs, attention = self._inputs(batch), batch.weighted(attention)
        name = self.embed_name
        observed = None if name is None else self.module.get_submodule(name)
        weight = None if attention is None else attention.to(self._like.dtype)[batch.by_caller]
        training = draws is not None
        gate = None
        if place is not None and node_weight is not None:
            of_nodes = node_weight.to(self._like.dtype)
            gate = NodeGate(place, of_nodes, inputs["x"], inputs["batch"])
            inputs["x"] = gate.features()
        record = WeightedPass(
            inputs["edge_index"], batch.num_nodes, weight, observed, training, gate, noise
        )
        network = record.shallow_copy(self.module)
        with _seeded_generator(draws, batch):
            out = network(**{name: inputs[name] for name in self.takes if name in inputs})
        if not record.rounds:
            raise GSATError(
                f"no message-passing layer of {type(self.module).__name__} was used in its "
                f"forward; attention needs layers that are torch_geometric.nn.MessagePassing"
            )
        if not record.outputs:
            raise GSATError(f"embed='{self.embed_name}' was not used in the network's forward")
        return out, record

    def _inputs(self, batch: GraphBatch) -> dict[str, Any]:
        """All inputs that the network may take, by name."""

        def cast(values: Tensor) -> Tensor:
            whole = self.whole_numbers and not values.is_floating_point()
            return values if whole else values.to(self._like.dtype)

        edges = batch.edge_index[:, batch.by_caller]
        inputs = {
            "x": cast(batch.x),
            "edge_index": edges,
            "batch": batch.node_graph,
            "batch_size": batch.num_graphs,
        }
        if self.edge_attr and batch.edge_attr is not None:
            inputs["edge_attr"] = cast(batch.edge_attr[batch.by_caller])
        elif self.takes.get("edge_attr"):
            raise DataError("this network needs edge features and the graphs have none")
        if self.takes.get("edge_weight"):
            inputs["edge_weight"] = torch.ones_like(edges[0], dtype=self._like.dtype)
        return inputs

    def _embeddings(self, out: Any, outputs: list[Any], batch: GraphBatch) -> Tensor:
        """Node embeddings [N, hidden]: the network's result, or the last recorded output."""
        output = out if self.gives == "nodes" and self.embed_name is None else outputs[-1]
        return check_embeddings(output, batch, self.embed_name)

    # -- the trial ------------------------------------------------------------------------------

    @torch.no_grad()
    def _try(self, examples: list[GraphBatch]) -> GraphBatch:
        """Inspect the output of the network on the first example that it accepts."""
        problems: list[Exception] = []
        for example in examples:
            batch = example.to(self._like.device)
            zeros = torch.zeros(batch.num_edges, device=batch.x.device)
            try:
                out, record = self._call(batch, zeros, None)
            except GSATError:
                raise
            except Exception as error:
                problems.append(error)
                continue
            self.gives = self._kind(out, batch)
            embeddings = self._embeddings(out, record.outputs, batch)
            self._hops = record.rounds
            self.hidden = embeddings.shape[1]
            self._warn_of_leaks(batch, zeros, embeddings)
            return example
        reason = " ".join(f"{type(problems[0]).__name__}: {problems[0]}".split())
        shapes = f"x {list(examples[0].x.shape)}, edge_index {[2, examples[0].num_edges]}"
        raise GSATError(
            f"the network failed on {shapes} ({shorten(reason)}); give wrap() a graph that it "
            f"takes: example=data.train[0]"
        ) from problems[0]

    def _kind(self, out: Any, batch: GraphBatch) -> str:
        """Whether a row of the result belongs to one of the ``nodes`` or ``graphs``."""
        shape = list(out.shape) if isinstance(out, Tensor) else type(out).__name__
        if isinstance(out, Tensor) and out.dim() == 2:
            if len(out) == batch.num_nodes:
                return "nodes"
            of_graphs = len(out) == batch.num_graphs and out.shape[1] == self.task.num_logits
            if of_graphs and self.task.level == "graph":
                return "graphs"
            if len(out) == 1 and "batch" not in self.takes:
                raise GSATError(
                    "the network returns one row for a batch of 2 graphs; let its forward take "
                    "'batch' and pool with it"
                )
        raise GSATError(
            f"the network must return node embeddings [{batch.num_nodes}, hidden] or logits "
            f"[{batch.num_graphs}, {self.task.num_logits}] for a batch of {batch.num_graphs} "
            f"graphs with {batch.num_nodes} nodes, not {shape}"
        )

    def _other_features(self, x: Tensor) -> Tensor:
        """Other valid features: with noise, or for categories those of node 0."""
        first = x[:1].expand_as(x)
        if not x.is_floating_point():
            return first.clone()
        noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
        categories = self.whole_numbers & (x == x.round()).all(dim=0)
        return torch.where(categories, first, x + noise.to(x))

    def _warn_of_leaks(self, batch: GraphBatch, zeros: Tensor, before: Tensor) -> None:
        """Warn if a node depends on others even when every edge has weight 0."""
        changed = self._other_features(batch.x)
        changed[0] = batch.x[0]
        after = self.embed(replace(batch, x=changed), zeros)
        if not torch.equal(before[0], after[0]):
            warnings.warn(
                f"in {type(self.module).__name__} a node depends on others even when attention is "
                f"0 on every edge (by a norm over the graph, a softmax out of reach, attention "
                f"between all nodes, …): its explanations may miss this",
                stacklevel=5,
            )

    # -- node weights ---------------------------------------------------------------------------

    def _find_gate(self, example: GraphBatch) -> tuple[Place | None, str]:
        """The first place at which node weights close the bypass, or why there is none."""
        problems = []
        for place in get_args(Place):
            # The caller may be in any mode; the trial needs gradients.
            with torch.inference_mode(False), torch.enable_grad():
                try:
                    problem = self._problem_of_gate(place, example.to(self._like.device))
                except Exception as error:  # the network's code can raise anything
                    problem = shorten(f"{type(error).__name__}: {error}")
            if problem is None:
                return place, ""
            problems.append(f"{place}: {problem}")
        return None, "; ".join(problems)

    def _problem_of_gate(self, place: Place, batch: GraphBatch) -> str | None:
        """The reason why node weights at a place do not close the bypass; None if they do.

        With noise on the weights, the result does not depend on the state of training, so that a
        resumed run has the same gate.
        """
        zeros = torch.zeros(batch.num_edges, device=batch.x.device)

        def call(x: Tensor, weight: float) -> tuple[Tensor, NodeGate, Tensor]:
            of_nodes = torch.full((batch.num_nodes,), weight, device=x.device, requires_grad=True)
            noise = torch.Generator().manual_seed(0)
            out, record = self._call(replace(batch, x=x), zeros, None, place, of_nodes, noise)
            assert record.gate is not None
            return out, record.gate, of_nodes

        if place == "features" and not self._inputs(batch)["x"].is_floating_point():
            return "they are whole numbers"
        out, gate, of_nodes = call(batch.x, 0.5)
        if not gate.applied:
            return "none covers all nodes"
        if place == "features" and gate.lookups:
            return "an nn.Embedding looks them up"
        if not out.requires_grad or (
            torch.autograd.grad(out.sum(), of_nodes, allow_unused=True)[0] is None
        ):
            return "no gradient passes"
        changed = self._other_features(batch.x)
        same = torch.equal(call(batch.x, 0.0)[0], call(changed, 0.0)[0])
        return None if same else "other paths remain"


@contextmanager
def _seeded_generator(draws: Draws | None, batch: GraphBatch) -> Iterator[None]:
    """Seed torch's generator, which the network's dropout uses, and restore it afterwards."""
    if draws is None:
        yield
        return
    devices = [batch.x.device] if batch.x.is_cuda else []
    with _GENERATOR, torch.random.fork_rng(devices=devices):
        torch.manual_seed(draws.child("torch", batch.graph_row.tolist()).torch_seed())
        yield
