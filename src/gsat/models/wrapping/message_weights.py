"""Edge weights on the messages of any PyG network, without changing it.

A forward pass runs on a shallow copy: new module objects that share the weights and buffers of the
originals. Hooks for the edge weights are set on the copy, so nothing leaks into the original,
another thread, a deep copy or the next pass.

A layer with an optional ``edge_weight`` gets the weights there, so that its normalisation sees
them. In a layer with a softmax over neighbours, they multiply the terms of the softmax: an edge of
weight 0 counts as deleted. In all other layers they multiply the messages.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import FAConv, MessagePassing
from torch_geometric.utils import scatter, softmax

from gsat.core.errors import GSATError
from gsat.models.wrapping.node_weights import NodeGate, copied, scaled

_AGGREGATION = "aggr_module"  # PyG's name for the part of a layer that aggregates messages


class WeightedPass:
    """One forward pass of a network with weights on its messages.

    Attributes:
        outputs: The outputs of ``observed`` (default: of every message-passing layer), in the order
            of execution.
        rounds: Number of message-passing rounds; a layer may have more than one.
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
        """The network to call, once, in place of the original."""
        return self._copy(module, type(module).__name__, {})

    def _copy(
        self,
        module: nn.Module,
        name: str,
        copies: dict[int, nn.Module],
        within_layer: bool = False,
    ) -> nn.Module:
        """The copy of a module; ``copies`` holds the earlier ones, by the original's id."""
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
        """Make a copied layer weight its messages; ``name`` is its path, for errors."""
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
                passed = bound.arguments
                weight = _finite_gradient(self._aligned(passed.get("edge_index"), name))
                of_data = passed.get("edge_weight")
                passed["edge_weight"] = weight if of_data is None else of_data * weight
                return call(*bound.args, **bound.kwargs)

            layer.forward = weighted
            return

        current: list[Tensor] = []  # the weights of the layer's current edges
        by_softmax: list[bool] = []  # not empty once a softmax has applied them

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
            return scaled(values, current[0], dim)

        def weigh_terms(terms: Tensor, dim: int) -> Tensor:
            if not current:  # outside of propagate and edge_updater
                return terms
            by_softmax.append(True)
            return weigh(terms, dim)

        layer.forward = reset_and_call
        # A softmax in edge_updater applies to the whole call, one in propagate to its own round.
        layer.propagate = on_edges(layer.propagate, whole_call=False)
        layer.edge_updater = on_edges(layer.edge_updater, whole_call=True)
        for method in _methods_with_softmax(kind):
            setattr(layer, method, _with_softmax(layer, method, weigh_terms))
        message = layer.message

        def weighted_message(*args: Any, **kwargs: Any) -> Tensor:
            out: Tensor = message(*args, **kwargs)
            # A method that names softmax may not have called it, if it is optional.
            return out if by_softmax else weigh(out, layer.node_dim)

        layer.message = weighted_message

    def _aligned(self, edge_index: Any, name: str) -> Tensor:
        """Weights for the edges of a layer, [M].

        Layers may remove the graph's self-loops and append new ones. A new loop has the weight of
        the loop it replaces, or 1.
        """
        assert self.attention is not None
        if edge_index is self.edges:
            return self.attention
        if not isinstance(edge_index, Tensor) or edge_index.layout != torch.strided:
            raise GSATError(
                f"{name} gets its edges as {type(edge_index).__name__}; attention needs the plain "
                f"edge_index [2, E]"
            )
        for edges in (self.edges, self.edges.flip(0)):
            loops = edges[0] == edges[1]
            for without in (False, True):
                kept = edges[:, ~loops] if without else edges
                first, rest = edge_index[:, : kept.shape[1]], edge_index[:, kept.shape[1] :]
                if not torch.equal(first, kept) or not torch.equal(rest[0], rest[1]):
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
    """A weight plus a random number from 0 to 0.1, so that positive weights stay positive."""
    if not parameter.is_floating_point():
        return parameter
    return parameter.detach() + 0.1 * torch.rand(parameter.shape, generator=noise).to(parameter)


def _then(call: Callable[..., Any], use: Callable[[Any], None]) -> Callable[..., Any]:
    """The same call, whose result is also passed to ``use``."""

    def run(*args: Any, **kwargs: Any) -> Any:
        out = call(*args, **kwargs)
        use(out)
        return out

    return run


@functools.cache
def _takes_edge_weight(kind: Any) -> bool:
    """Whether a layer has an optional weight per edge; a required one may be a distance."""
    # FAConv takes no weights when it normalises.
    parameter = inspect.signature(kind.forward).parameters.get("edge_weight")
    return parameter is not None and parameter.default is None and not issubclass(kind, FAConv)


@functools.cache
def _methods_with_softmax(kind: Any) -> tuple[str, ...]:
    """The methods of a layer, other than forward, that use PyG's softmax over neighbours."""
    return tuple(
        name
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if name != "forward"
        and any(method.__globals__.get(word) is softmax for word in method.__code__.co_names)
    )


def _with_softmax(layer: Any, method: str, weigh: Callable[[Tensor, int], Tensor]) -> Any:
    """A layer's method, with a softmax whose terms are weighted."""
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
    variables = {**function.__globals__, **replaced}
    return MethodType(copied(function, variables, function.__closure__), layer)


def _check_message(out: Any, dim: int, weight: Tensor, name: str) -> None:
    """Raise unless there is a message for each weight."""
    if not isinstance(out, Tensor) or out.shape[dim] != len(weight):
        shape = list(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise GSATError(
            f"{name} has messages that attention cannot weight: a row for each of {len(weight)} "
            f"edges was needed, not {shape}"
        )


def _finite_gradient(weight: Tensor) -> Tensor:
    """The same weights, with gradient 0 where it would be NaN or infinite.

    A normalisation by 1/√degree has no gradient at a node that lost all its edges.
    """
    if weight.requires_grad:
        weight = weight.view_as(weight)  # a new tensor: the hook belongs to this pass
        weight.register_hook(lambda grad: torch.where(grad.isfinite(), grad, 0.0))
    return weight
