"""Attention inside a network somebody else wrote, which stays as it is.

A pass runs on a twin: new module objects that share the weights and buffers of the originals. What
the attention needs is set on the twin, so nothing can leak into the caller's module, another
thread, a deep copy or the next pass.

Where a message-passing layer takes an optional ``edge_weight``, attention goes there and the
layer's normalisation sees it. Where it has a softmax over neighbours, attention weighs the terms of
that softmax: an edge at 0 is as good as deleted. Everywhere else it multiplies the messages.
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

from gsat.errors import GSATError


class Pass:
    """One run of a foreign network.

    Args:
        edges: [2, E], as the network gets them. nodes: N.
        attention: [E], or None to leave the messages alone.
        keep: the submodule whose output is kept; None for every message-passing layer.
        training: False runs all of it in evaluation mode, True leaves each part in its own.

    Attributes:
        kept: outputs of ``keep``, in the order of execution.
        rounds: how many times messages were passed on: a layer may do it more than once.
    """

    def __init__(
        self,
        edges: Tensor,
        nodes: int,
        attention: Tensor | None,
        keep: nn.Module | None = None,
        training: bool = False,
    ) -> None:
        self.edges, self.nodes, self.attention = edges, nodes, attention
        self.keep, self.training = keep, training
        self.kept: list[Any] = []
        self.rounds = 0

    def twin(self, module: nn.Module) -> nn.Module:
        """The network to call once in place of ``module``."""
        return self._twin(module, type(module).__name__, {})

    def _twin(self, module: nn.Module, name: str, made: dict[int, nn.Module]) -> nn.Module:
        if id(module) in made:
            return made[id(module)]
        twin = made[id(module)] = object.__new__(type(module))
        twin.__dict__ = dict(vars(module))
        for key, value in vars(module).items():
            # PyG keeps some methods on the instance, bound to the original.
            if isinstance(value, MethodType) and value.__self__ is module:
                twin.__dict__[key] = MethodType(value.__func__, twin)
        twin._modules = {
            key: child if child is None else self._twin(child, f"{name}.{key}", made)
            for key, child in module._modules.items()
        }
        if not self.training:
            twin.training = False
        if isinstance(twin, MessagePassing):
            self._attend(twin, name)
        if module is self.keep or (self.keep is None and isinstance(module, MessagePassing)):
            twin.forward = _then(twin.forward, self.kept.append)
        return twin

    # -- the layers -----------------------------------------------------------------------------

    def _attend(self, layer: Any, name: str) -> None:
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
                own = given.get("edge_weight")
                given["edge_weight"] = weight if own is None else own * weight
                return call(*bound.args, **bound.kwargs)

            layer.forward = weighted
            return

        current: list[Tensor] = []  # the weights of the edges the layer is working on
        by_softmax: list[bool] = []  # not empty where a softmax has weighed them already

        def from_the_start(*args: Any, **kwargs: Any) -> Any:
            current.clear()
            by_softmax.clear()
            return call(*args, **kwargs)

        def on_edges(method: Callable[..., Any], lasts: bool) -> Callable[..., Any]:
            def working(edge_index: Any, *args: Any, **kwargs: Any) -> Any:
                current[:] = [self._aligned(edge_index, name)]
                before = len(by_softmax)
                out = method(edge_index, *args, **kwargs)
                if not lasts:
                    del by_softmax[before:]
                return out

            return working

        def weigh(values: Tensor, dim: int) -> Tensor:
            _check_message(values, dim, current[0], name)
            size = [1] * values.dim()
            size[dim] = -1
            return values * current[0].view(size)

        def weigh_terms(terms: Tensor, dim: int) -> Tensor:
            if not current:  # not of edges, or too early to know of which
                return terms
            by_softmax.append(True)
            return weigh(terms, dim)

        layer.forward = from_the_start
        # What edges are found to weigh holds for all rounds, a softmax of messages for its own.
        layer.propagate = on_edges(layer.propagate, lasts=False)
        layer.edge_updater = on_edges(layer.edge_updater, lasts=True)
        for method in _methods_with_softmax(kind):
            setattr(layer, method, _with_softmax(layer, method, weigh_terms))
        message = layer.message

        def dampened(*args: Any, **kwargs: Any) -> Tensor:
            out: Tensor = message(*args, **kwargs)
            # That a method names softmax does not mean that it takes one: it may be an option.
            return out if by_softmax else weigh(out, layer.node_dim)

        layer.message = dampened

    def _aligned(self, edge_index: Any, name: str) -> Tensor:
        """Attention for the edges a layer works on, [M].

        Layers put self-loops at the end and may have taken the graph's own away before. A loop the
        layer adds weighs 1; one that stands for a loop of the graph weighs what that one does.
        """
        assert self.attention is not None
        if edge_index is self.edges:
            return self.attention
        if not isinstance(edge_index, Tensor) or edge_index.layout != torch.strided:
            raise GSATError(
                f"{name} gets its edges as {type(edge_index).__name__}; attention needs the plain "
                f"edge_index [2, E] to be handed on"
            )
        for edges in (self.edges, self.edges.flip(0)):
            loops = edges[0] == edges[1]
            for without in (False, True):
                own = edges[:, ~loops] if without else edges
                first, rest = edge_index[:, : own.shape[1]], edge_index[:, own.shape[1] :]
                if not torch.equal(first, own) or not torch.equal(rest[0], rest[1]):
                    continue
                if not without:
                    return torch.cat([self.attention, self.attention.new_ones(rest.shape[1])])
                weight = self.attention.new_ones(self.nodes)
                weight = weight.index_put((edges[0, loops],), self.attention[loops])
                return torch.cat([self.attention[~loops], weight[rest[0]]])
        raise GSATError(
            f"{name} works on {edge_index.shape[1]} edges that are not the graph's "
            f"{self.edges.shape[1]}; a network that pools or rewires graphs can't be wrapped"
        )


def _then(call: Callable[..., Any], use: Callable[[Any], None]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        out = call(*args, **kwargs)
        use(out)
        return out

    return run


@functools.cache
def _takes_edge_weight(kind: Any) -> bool:
    """Whether it has an optional weight per edge; one it requires may mean a distance."""
    # FAConv normalises by itself and accepts no weights then.
    parameter = inspect.signature(kind.forward).parameters.get("edge_weight")
    return parameter is not None and parameter.default is None and not issubclass(kind, FAConv)


@functools.cache
def _methods_with_softmax(kind: Any) -> tuple[str, ...]:
    """The methods of a layer that name PyG's softmax over neighbours, where edges are at hand."""
    found = []
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        used = [method.__globals__.get(word) for word in method.__code__.co_names]
        if name != "forward" and any(value is softmax for value in used):
            found.append(name)
    return tuple(found)


def _with_softmax(layer: Any, method: str, weigh: Callable[[Tensor, int], Tensor]) -> Any:
    """The layer's method, with a softmax whose terms are weighed."""
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
    if not isinstance(out, Tensor) or out.shape[dim] != len(weight):
        came = list(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise GSATError(
            f"{name} has messages that attention can't weigh: a row for each of {len(weight)} "
            f"edges was needed, not {came}"
        )


def _finite_gradient(weight: Tensor) -> Tensor:
    """The weights; a gradient that is not a number on the way back counts as 0.

    A node that loses all its edges has degree 0, where a normalisation by 1/√degree has no slope.
    """
    if weight.requires_grad:
        weight = weight.view_as(weight)  # a tensor of its own: the hook stays with this pass
        weight.register_hook(lambda grad: torch.where(grad.isfinite(), grad, 0.0))
    return weight
