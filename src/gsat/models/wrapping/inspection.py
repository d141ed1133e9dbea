"""Inspection of a network to be wrapped: its inputs, its layers, and example graphs."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter
from torch_geometric.data import Data
from torch_geometric.nn import HANConv, HeteroConv, HGTConv, MessagePassing

from gsat.core.errors import GSATError
from gsat.graphs import GraphBatch, GraphStore, from_pyg
from gsat.graphs.conversions import as_store

_INPUTS = ("x", "edge_index", "edge_attr", "edge_weight", "batch", "batch_size")


def forward_inputs(module: nn.Module) -> dict[str, bool]:
    """The arguments of a network's ``forward``, and whether each is required."""
    if not isinstance(module, nn.Module):
        raise GSATError(f"a torch.nn.Module was needed, not a {type(module).__name__}")
    kind = type(module).__name__
    if any(isinstance(part, HeteroConv | HGTConv | HANConv) for part in module.modules()):
        raise GSATError(f"{kind} is for nodes of several kinds; graphs here have nodes of one kind")
    if any(isinstance(p, UninitializedParameter) for p in module.parameters()):
        raise GSATError(f"{kind} has weights without a shape yet; call it once on a graph first")
    parameters = inspect.signature(module.forward).parameters.values()
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    required = {p.name: p.default is p.empty for p in named}
    unknown = [name for name, needed in required.items() if needed and name not in _INPUTS]
    if unknown or not {"x", "edge_index"} <= required.keys():
        raise GSATError(
            f"the forward of {kind} must take x and edge_index and may take edge_attr, "
            f"edge_weight, batch and batch_size; it takes {', '.join(required) or 'no names'}"
        )
    return {name: needed for name, needed in required.items() if name in _INPUTS}


def message_passing_layers(module: nn.Module) -> list[nn.Module]:
    """Find the message-passing layers of a network."""
    layers = [part for part in module.modules() if isinstance(part, MessagePassing)]
    if not layers:
        raise GSATError(
            f"{type(module).__name__} has no message-passing layer (torch_geometric.nn."
            f"MessagePassing) whose edges attention could weigh"
        )
    for layer in layers:
        if getattr(layer, "cached", False):
            raise GSATError(
                f"{type(layer).__name__} was made with cached=True and remembers its first graph; "
                f"make it with cached=False"
            )
    return layers


def check_embeddings(output: Any, batch: GraphBatch, name: str | None) -> Tensor:
    """Return a submodule's output if it is node embeddings."""
    if isinstance(output, Tensor) and output.dim() == 2 and len(output) == batch.num_nodes:
        return output
    shape = list(output.shape) if isinstance(output, Tensor) else type(output).__name__
    where = f"embed='{name}'" if name is not None else "the last message-passing layer"
    raise GSATError(
        f"{where} gives {shape}; node embeddings [{batch.num_nodes}, hidden] were needed; name "
        f"another submodule with embed="
    )


def example_batches(
    module: nn.Module,
    layers: list[nn.Module],
    edge_attr: bool,
    example: Data | GraphStore | Iterable[Data] | None,
) -> list[GraphBatch]:
    """Make batches of two graphs with edges for a trial."""
    if example is not None:
        store = as_store(example)
        with_edges = [i for i, edges in enumerate(store.edge_counts) if edges][:2]
        if not with_edges:
            raise GSATError("the example for wrap() needs a graph with edges")
        return [store.batch([with_edges[0], with_edges[-1]])]
    widths = [getattr(p, k, 0) for p in module.modules() for k in ("in_channels", "in_features")]
    widths = list(dict.fromkeys(width for width in widths if isinstance(width, int) and width > 0))
    if not widths or any(isinstance(part, nn.Embedding) for part in module.modules()):
        raise GSATError(
            f"{type(module).__name__} does not show how many features it takes; give wrap() a "
            f"graph that it takes: example=data.train[0]"
        )
    columns = next((d for x in layers if isinstance(d := getattr(x, "edge_dim", None), int)), 0)
    return [_random_graphs(width, columns if edge_attr else 0) for width in widths]


def _random_graphs(features: int, edge_features: int) -> GraphBatch:
    """A path and a triangle with random features."""
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for pairs in ([(0, 1), (1, 2)], [(0, 1), (1, 2), (2, 0)]):
        index = torch.tensor([*pairs, *((v, u) for u, v in pairs)]).T
        graphs.append(Data(x=torch.randn(3, features, generator=generator), edge_index=index))
        if edge_features:
            graphs[-1].edge_attr = torch.randn(index.shape[1], edge_features, generator=generator)
    return from_pyg(graphs).batch()
