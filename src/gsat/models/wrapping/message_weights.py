"""Edge weights on the messages of a network that somebody else wrote, without changing it.

A forward pass runs on a shallow copy: new module objects that share the weights and buffers of the
originals. What the edge weights need is set on the copy, so nothing can leak into the original,
another thread, a deep copy or the next pass.

Where a message-passing layer takes an optional ``edge_weight``, the weights go there, and the
layer's normalisation sees them. Where it has a softmax over neighbours, they multiply the terms of
that softmax: an edge of weight 0 is as good as deleted. Everywhere else they multiply the messages.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import FAConv, MessagePassing
from torch_geometric.utils import scatter, softmax

from gsat.core.errors import GSATError
from gsat.models.wrapping.node_weights import NodeGate

_AGGREGATION = "aggr_module"  # PyG's name for the part of a layer that aggregates messages


class WeightedPass:
    """One forward pass of a network with weights on its messages.

    Attributes:
        outputs: The outputs of ``observed``, in the order of execution.
        rounds: How many times messages were passed on; a layer may do it more than once.
    """

    def __init__(
        self,
        edges: Tensor,
        nodes: int,
        attention: Tensor | None,
        observed: nn.Module | None = None,
        training: bool = False,
        gate: NodeGate | None = None,
        noise: torch.Generator | None = None,
    ) -> None:
        self.edges, self.nodes, self.attention = edges, nodes, attention
        self.observed, self.training = observed, training
        self.gate, self.noise = gate, noise
        self.outputs: list[Any] = []
        self.rounds = 0

    def shallow_copy(self, module: nn.Module) -> nn.Module:
        """Return the network to call, once, in place of the original."""
        return self._copy(module, type(module).__name__, {})

    def _copy(
        self,
        module: nn.Module,
        name: str,
        copies: dict[int, nn.Module],
        within_layer: bool = False,
    ) -> nn.Module:
        """The copy of a module; ``copies`` holds those made so far, by the original's id."""
        if id(module) in copies:
            return copies[id(module)]
        copy = copies[id(module)] = object.__new__(type(module))
        copy.__dict__ = dict(vars(module))
        for key, value in vars(module).items():
            # PyG keeps some methods on the instance, bound to the original.
            if isinstance(value, MethodType) and value.__self__ is module:
                copy.__dict__[key] = MethodType(value.__func__, copy)
        is_layer = isinstance(module, MessagePassing)
        copy._modules = {
            key: child
            if child is None
            else self._copy(
                child, f"{name}.{key}", copies, within_layer or (is_layer and key == _AGGREGATION)
            )
            for key, child in module._modules.items()
        }
        if not self.training:
            copy.training = False
        if self.noise is not None:
            copy.__dict__["_parameters"] = {
                key: parameter if parameter is None else _noisy(parameter, self.noise)
                for key, parameter in module._parameters.items()
            }
        if self.gate is not None:
            self.gate.set_on(copy, within_layer)
        if isinstance(copy, MessagePassing):
            self._weigh_layer(copy, name)
        if module is self.observed or (
            self.observed is None and isinstance(module, MessagePassing)
        ):
            copy.forward = _then(copy.forward, self.outputs.append)
        return copy

    # -- the layers -----------------------------------------------------------------------------

    def _weigh_layer(self, layer: Any, name: str) -> None:
        """Set on a copied layer what weighs its messages; ``name`` is its path, for errors."""
        kind: Any = type(layer)
        call, propagate = layer.forward, layer.propagate

        def counting(*args: Any, **kwargs: Any) -> Any:
            self.rounds += 1
            return propagate(*args, **kwargs)

        layer.propagate = counting
        if self.attention is None:
            return
        if _takes_edge_weight(kind):
            signature = inspect.signature(call)

            def weighted(*args: Any, **kwargs: Any) -> Any:
                bound = signature.bind(*args, **kwargs)
                given = bound.arguments
                weight = _finite_gradient(self._aligned(given.get("edge_index"), name))
                of_data = given.get("edge_weight")
                given["edge_weight"] = weight if of_data is None else of_data * weight
                return call(*bound.args, **bound.kwargs)

            layer.forward = weighted
            return

        current: list[Tensor] = []  # the weights of the edges the layer is working on
        by_softmax: list[bool] = []  # not empty where a softmax has applied them already

        def reset_and_call(*args: Any, **kwargs: Any) -> Any:
            current.clear()
            by_softmax.clear()
            return call(*args, **kwargs)

        def on_edges(method: Callable[..., Any], whole_call: bool) -> Callable[..., Any]:
            def on_these_edges(edge_index: Any, *args: Any, **kwargs: Any) -> Any:
                current[:] = [self._aligned(edge_index, name)]
                before = len(by_softmax)
                out = method(edge_index, *args, **kwargs)
                if not whole_call:
                    del by_softmax[before:]
                return out

            return on_these_edges

        def weigh(values: Tensor, dim: int) -> Tensor:
            _check_message(values, dim, current[0], name)
            size = [1] * values.dim()
            size[dim] = -1
            return values * current[0].view(size)

        def weigh_terms(terms: Tensor, dim: int) -> Tensor:
            if not current:  # the edges it is about are not known
                return terms
            by_softmax.append(True)
            return weigh(terms, dim)

        layer.forward = reset_and_call
        # A softmax in edge_updater holds for the whole call, one in propagate for its own round.
        layer.propagate = on_edges(layer.propagate, whole_call=False)
        layer.edge_updater = on_edges(layer.edge_updater, whole_call=True)
        for method in _methods_with_softmax(kind):
            setattr(layer, method, _with_softmax(layer, method, weigh_terms))
        message = layer.message

        def weighted_message(*args: Any, **kwargs: Any) -> Tensor:
            out: Tensor = message(*args, **kwargs)
            # A method that names softmax may not have called it: it may be an option.
            return out if by_softmax else weigh(out, layer.node_dim)

        layer.message = weighted_message

    def _aligned(self, edge_index: Any, name: str) -> Tensor:
        """Weights for the edges that a layer works on, [M].

        Layers append self-loops and may have removed those of the graph before. A loop that the
        layer adds has weight 1; one that stands for a loop of the graph has the weight of that one.
        """
        assert self.attention is not None
        if edge_index is self.edges:
            return self.attention
        if not isinstance(edge_index, Tensor) or edge_index.layout != torch.strided:
            raise GSATError(
                f"{name} gets its edges as {type(edge_index).__name__}; attention needs the plain "
                f"edge_index [2, E] to be passed on"
            )
        for edges in (self.edges, self.edges.flip(0)):
            loops = edges[0] == edges[1]
            for without in (False, True):
                known = edges[:, ~loops] if without else edges
                first, rest = edge_index[:, : known.shape[1]], edge_index[:, known.shape[1] :]
                if not torch.equal(first, known) or not torch.equal(rest[0], rest[1]):
                    continue
                if not without:
                    return torch.cat([self.attention, self.attention.new_ones(rest.shape[1])])
                weight = self.attention.new_ones(self.nodes)
                weight = weight.index_put((edges[0, loops],), self.attention[loops])
                return torch.cat([self.attention[~loops], weight[rest[0]]])
        raise GSATError(
            f"{name} works on {edge_index.shape[1]} edges that are not the graph's "
            f"{self.edges.shape[1]}; a network that pools or rewires graphs cannot be wrapped"
        )


def _noisy(parameter: Tensor, noise: torch.Generator) -> Tensor:
    """A weight plus a random number from 0 to 0.1; its sign stays where it is positive."""
    if not parameter.is_floating_point():
        return parameter
    return parameter.detach() + 0.1 * torch.rand(parameter.shape, generator=noise).to(parameter)


def _then(call: Callable[..., Any], use: Callable[[Any], None]) -> Callable[..., Any]:
    """The same call, whose result is also given to ``use``."""

    def run(*args: Any, **kwargs: Any) -> Any:
        out = call(*args, **kwargs)
        use(out)
        return out

    return run


@functools.cache
def _takes_edge_weight(kind: Any) -> bool:
    """Whether a layer has an optional weight per edge; a required one may mean a distance."""
    # FAConv normalises by itself and accepts no weights then.
    parameter = inspect.signature(kind.forward).parameters.get("edge_weight")
    return parameter is not None and parameter.default is None and not issubclass(kind, FAConv)


@functools.cache
def _methods_with_softmax(kind: Any) -> tuple[str, ...]:
    """The methods of a layer, other than forward, that use PyG's softmax over neighbours."""
    found = []
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        used = [method.__globals__.get(word) for word in method.__code__.co_names]
        if name != "forward" and any(value is softmax for value in used):
            found.append(name)
    return tuple(found)


def _with_softmax(layer: Any, method: str, weigh: Callable[[Tensor, int], Tensor]) -> Any:
    """A layer's method, with a softmax whose terms are weighed."""
    function: Any = getattr(type(layer), method)

    def weighted(
        src: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        num_nodes: int | None = None,
        dim: int = 0,
    ) -> Tensor:
        if index is None:
            assert ptr is not None
            index = torch.repeat_interleave(ptr.diff())
            num_nodes = len(ptr) - 1
        highest = scatter(src.detach(), index, dim, dim_size=num_nodes, reduce="max")
        term = weigh((src - highest.index_select(dim, index)).exp(), dim)
        total = scatter(term, index, dim, dim_size=num_nodes, reduce="sum") + 1e-16
        return term / total.index_select(dim, index)

    replaced = {
        used: weighted
        for used in function.__code__.co_names
        if function.__globals__.get(used) is softmax
    }
    copied = FunctionType(
        function.__code__,
        {**function.__globals__, **replaced},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copied.__kwdefaults__ = function.__kwdefaults__
    return MethodType(copied, layer)


def _check_message(out: Any, dim: int, weight: Tensor, name: str) -> None:
    """Raise unless there is a message for each weight."""
    if not isinstance(out, Tensor) or out.shape[dim] != len(weight):
        came = list(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise GSATError(
            f"{name} has messages that attention cannot weigh: a row for each of {len(weight)} "
            f"edges was needed, not {came}"
        )


def _finite_gradient(weight: Tensor) -> Tensor:
    """The same weights, with a gradient that is 0 where it would not be a number.

    A node that loses all its edges has degree 0, where a normalisation by 1/√degree has no slope.
    """
    if weight.requires_grad:
        weight = weight.view_as(weight)  # another tensor, so that the hook belongs to this pass
        weight.register_hook(lambda grad: torch.where(grad.isfinite(), grad, 0.0))
    return weight
