"""Node weights in the read-out of any PyG network, without changing it.

Weights on messages leave a bypass: node features reach the read-out with full weight. A gate
multiplies nodes by weights at one place of a :class:`~.message_weights.WeightedPass`:

``pooling``
    The input of ``global_add_pool``, ``global_mean_pool``, ``global_max_pool`` and of PyG's
    aggregation modules, where they pool all nodes over the graphs.
``features``
    The node features ``x``.
``embeddings``
    The output of every ``nn.Embedding`` that looks up values of ``x``.

The gate replaces functions on the copies of the modules: in their methods, in functions and tables
of functions that these methods name, and in their attributes. It does not reach functions that a
method imports itself, or that it calls through ``super()``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch_geometric.nn import global_add_pool, global_max_pool, global_mean_pool
from torch_geometric.nn.aggr import Aggregation

Place = Literal["pooling", "features", "embeddings"]

_POOLING = (global_add_pool, global_mean_pool, global_max_pool)
_POOLING_NAMES = frozenset(function.__name__ for function in _POOLING)
_LIBRARIES = ("torch", "torch_geometric")  # their functions do not call the above
_KINDS = (FunctionType, functools.partial, list, tuple, dict, ModuleType)  # may lead to one
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))


class NodeGate:
    """Node weights at one place of one forward pass.

    Attributes:
        applied: Number of times nodes were multiplied.
        lookups: Number of calls of an ``nn.Embedding`` with a row for each node.
    """

    def __init__(self, place: Place, weight: Tensor, x: Tensor, batch: Tensor) -> None:
        self.place, self.weight, self.x, self.batch = place, weight, x, batch
        self.applied = self.lookups = 0
        self._pooling = False  # inside a pooling call, whose own parts are not gated again
        self._made: dict[int, Any] = {}  # the replaced functions, by the original's id

    def features(self) -> Tensor:
        """The node features for the network, ``[N, F]``."""
        return self._weighted(self.x, 0) if self.place == "features" else self.x

    def set_on(self, copy: nn.Module, within_layer: bool) -> None:
        """Set the gate on the copy of a module."""
        attributes = vars(copy)
        kind: Any = type(copy)
        if isinstance(copy, nn.Embedding):
            attributes["forward"] = self._lookup(copy.forward)
        if self.place != "pooling":
            return
        for name in attributes.keys() - _OF_EVERY_MODULE:
            value = attributes[name]
            if isinstance(value, MethodType) and value.__self__ is copy:
                attributes[name] = MethodType(self.replaced(value.__func__), copy)
            else:
                attributes[name] = self.replaced(value)
        for name, static in _methods_that_pool(kind):
            if name not in attributes:
                function = self.replaced(getattr(kind, name))
                attributes[name] = function if static else MethodType(function, copy)
        if isinstance(copy, Aggregation) and not within_layer:
            attributes["forward"] = self._gated(copy.forward)

    def replaced(self, value: Any) -> Any:
        """A value with gated pooling in place of every pooling function it leads to."""
        if not isinstance(value, _KINDS) or not _leads_to_pooling(value):
            return value
        if isinstance(value, ModuleType):
            return _Namespace(value, self)
        if isinstance(value, FunctionType):
            if value in _POOLING:
                return self._gated(value)
            return self._made.get(id(value)) or self._function(value)
        if isinstance(value, functools.partial):
            return functools.partial(self.replaced(value.func), *value.args, **value.keywords)
        if isinstance(value, dict):
            return {key: self.replaced(item) for key, item in value.items()}
        return type(value)(self.replaced(item) for item in value)

    def _function(self, function: FunctionType) -> FunctionType:
        """The same function, with other global variables and closed-over values."""
        variables = dict(function.__globals__)
        cells = [
            (cell, CellType() if any(map(_leads_to_pooling, _contents(cell))) else cell)
            for cell in function.__closure__ or ()
        ]
        made = copied(function, variables, tuple(cell for _, cell in cells))
        self._made[id(function)] = made  # first, as a function may name itself
        for name in _names(function.__code__) & variables.keys():
            variables[name] = self.replaced(variables[name])
        for original, cell in cells:
            if cell is not original:
                cell.cell_contents = self.replaced(original.cell_contents)
        return made

    # -- the calls ------------------------------------------------------------------------------

    def _gated(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """A pooling call, with gated nodes."""

        def pool(x: Any, *args: Any, **kwargs: Any) -> Any:
            if self._pooling:
                return call(x, *args, **kwargs)
            index = kwargs.get("index", kwargs.get("batch", args[0] if args else None))
            dim = kwargs.get("dim", -1 if x.dim() == 1 else -2)
            if self._is_all_nodes(x.shape[dim], index, kwargs.get("ptr")):
                x = self._weighted(x, dim)
            self._pooling = True
            try:
                return call(x, *args, **kwargs)
            finally:
                self._pooling = False

        return pool

    def _lookup(self, call: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """The call of an embedding, with gated results if its input is node features."""

        def look_up(input: Tensor) -> Tensor:
            out = call(input)
            if input.dim() and len(input) == len(self.weight):
                self.lookups += 1
                if self.place == "embeddings" and _share_memory(input, self.x):
                    return self._weighted(out, 0)
            return out

        return look_up

    def _is_all_nodes(self, rows: int, index: Tensor | None, ptr: Tensor | None) -> bool:
        """Whether a call pools every node, in order, into its own graph."""
        if rows != len(self.weight):
            return False
        if index is None and ptr is not None:
            index = torch.repeat_interleave(ptr.diff())
        return index is None or index is self.batch or torch.equal(index, self.batch)

    def _weighted(self, values: Tensor, dim: int) -> Tensor:
        self.applied += 1
        return scaled(values, self.weight.to(values.dtype), dim)


class _Namespace:
    """A module of PyG as a global variable, with gated pooling functions."""

    def __init__(self, module: ModuleType, gate: NodeGate) -> None:
        self._module, self._gate = module, gate

    def __getattr__(self, name: str) -> Any:
        return self._gate.replaced(getattr(self._module, name))


def scaled(values: Tensor, weight: Tensor, dim: int) -> Tensor:
    """The product of values with a weight for each entry of one dimension."""
    size = [1] * values.dim()
    size[dim] = -1
    return values * weight.view(size)


def copied(
    function: FunctionType, variables: dict[str, Any], closure: tuple[CellType, ...] | None
) -> FunctionType:
    """The same function with other global variables and closed-over values."""
    made = FunctionType(
        function.__code__, variables, function.__name__, function.__defaults__, closure
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


# -- where functions lead -----------------------------------------------------------------------


@functools.cache
def _methods_that_pool(kind: Any) -> tuple[tuple[str, bool], ...]:
    """The methods of a class that lead to a pooling function, and whether each is static."""
    return tuple(
        (name, isinstance(inspect.getattr_static(kind, name), staticmethod))
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if _leads_to_pooling(method)
    )


def _leads_to_pooling(value: Any, seen: frozenset[int] = frozenset()) -> bool:
    """Whether a value is or names a pooling function, or is a table or a module with one."""
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0] == "torch_geometric"
    if isinstance(value, functools.partial):
        return _leads_to_pooling(value.func, seen)
    if type(value) in (list, tuple, dict):
        items = value.values() if isinstance(value, dict) else value
        return any(_leads_to_pooling(item, seen) for item in items)
    if not isinstance(value, FunctionType) or id(value) in seen:
        return False
    if value in _POOLING:
        return True
    if str(value.__module__).partition(".")[0] in _LIBRARIES:
        return False
    return any(_leads_to_pooling(other, seen | {id(value)}) for other in _references(value))


def _references(function: FunctionType) -> Iterator[Any]:
    """The global variables and closed-over values that a function names."""
    names = _names(function.__code__)
    values = [function.__globals__[name] for name in names & function.__globals__.keys()]
    for cell in function.__closure__ or ():
        values += _contents(cell)
    # A module matters only if one of its pooling functions is named, too.
    return (v for v in values if not isinstance(v, ModuleType) or names & _POOLING_NAMES)


def _names(code: CodeType) -> set[str]:
    """The names of global variables and attributes in a function and in those inside it."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _contents(cell: CellType) -> list[Any]:
    """The value of a cell, if it is assigned."""
    try:
        return [cell.cell_contents]
    except ValueError:
        return []


def _share_memory(one: Tensor, other: Tensor) -> bool:
    """Whether one tensor is a view of the other, or both are of a third."""
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
