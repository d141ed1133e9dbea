"""A view of a model for ``torch_geometric.explain``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.explain import ModelConfig
from torch_geometric.nn import MessagePassing

from gsat.core.errors import DataError, GSATError
from gsat.graphs import GraphBatch, GraphStore


class PyGModel(nn.Module):
    """A view of a trained model that PyG's ``Explainer`` can call; ``model.as_pyg()`` makes one.

    It has no weights, and attributes that PyG sets on it do not reach the model. A mask that PyG
    sets multiplies the edge weights of the prediction, on top of the model's own attention if it
    has any. The model runs in evaluation mode.

    Args:
        model: A GSAT, or a model that predicts without attention, such as one of ERM.
        label: Which label of a multi-label model is explained. (default: ``None``)

    Raises:
        GSATError: If a multi-label model gets no ``label``, another model gets one, or the label
            does not exist.
    """

    def __init__(self, model: Any, label: int | None = None) -> None:
        super().__init__()
        labels = model.task.num_logits
        if (model.task.kind == "multilabel") != (label is not None):
            needed = f"a label from 0 to {labels - 1}" if label is None else "no label"
            raise GSATError(f"as_pyg() of a {model.task.kind} model needs {needed}")
        if label is not None and not 0 <= label < labels:
            raise GSATError(f"there is no label {label}: the labels are 0 to {labels - 1}")
        self.label = label
        self.mask_layer = _MaskLayer()
        # Not registered as a submodule: PyG would put its masks on every layer of the model, also
        # in the forward pass that computes the attention.
        self._viewed = (model,)

    @property
    def model(self) -> Any:
        """The model itself."""
        return self._viewed[0]

    @property
    def model_config(self) -> ModelConfig:
        """The configuration for PyG's ``Explainer``: raw values of classes or numbers."""
        task = self.model.task
        mode = "regression" if task.kind == "regression" else "multiclass_classification"
        return ModelConfig(mode=mode, task_level=task.level, return_type="raw")

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """Predict raw values for each class.

        A single logit (of a binary model or of one label) becomes the columns (−logit/2, logit/2):
        their softmax is the model's probability, and both classes have a gradient. Captum passes
        the arguments by position: give them to ``Explainer`` in this order.

        Args:
            x: Node features, ``[N, F]``.
            edge_index: ``[2, E]``.
            batch: The graph of each node, ``[N]``, sorted. (default: ``None``, one graph)
            edge_attr: Edge features, ``[E, D]``. (default: ``None``)

        Returns:
            ``[B, C]`` for B graphs and C classes, ``[N, C]`` at node level, ``[B, 1]`` in a
            regression.
        """
        with self.model.evaluating(gradients=True):
            graphs = as_batch(x, edge_index, batch, edge_attr)
            h = self._embed(graphs, edge_index)
            attention = self.model.attend(h, graphs)
            mask = self.mask_layer.mask
            over = None if mask is None else _to_stored_order(mask.to(attention), graphs)
            if self.model.attention_decides:
                logits = self.model.answer(graphs, attention, over)
            else:  # the mask of the edges is all the attention there is
                logits = self.model.answer(graphs, attention if over is None else over)
        if self.label is not None:
            logits = logits[:, self.label, None]
        if logits.shape[1] > 1 or self.model.task.kind == "regression":
            return logits
        return torch.cat([-logits / 2, logits / 2], dim=1)

    def edge_mask(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """Compute the model's own edge weights ``[E]``; arguments as for :meth:`forward`."""
        with self.model.evaluating():
            graphs = as_batch(x, edge_index, batch, edge_attr)
            return self.model.edge_weights(self._embed(graphs, edge_index), graphs)[
                graphs.by_caller
            ]

    def _embed(self, graphs: GraphBatch, edge_index: Tensor) -> Tensor:
        """Node embeddings of the first forward pass, which PyG sees, [N, h]."""
        return self.mask_layer(self.model.backbone.embed(graphs), edge_index)


class _MaskLayer(MessagePassing):
    """Holds the mask that PyG sets, and shows PyG the node embeddings; changes nothing itself."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_edge_mask":
            # If it were registered as a parameter, PyG would copy later masks into new ones, and
            # gradients would not reach their origin.
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    @property
    def mask(self) -> Tensor | None:
        """The mask that PyG set, [E], or None."""
        if not self.explain or self._edge_mask is None:
            return None
        return self._edge_mask.sigmoid() if self._apply_sigmoid else self._edge_mask

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return the embeddings, [N, h]."""
        return x


def as_batch(
    x: Tensor, edge_index: Tensor, batch: Tensor | None = None, edge_attr: Tensor | None = None
) -> GraphBatch:
    """Make a :class:`GraphBatch` of a PyG mini-batch."""
    nodes = torch.zeros(len(x), dtype=torch.long) if batch is None else batch.cpu()
    if len(nodes) != len(x) or bool((nodes.diff() < 0).any()):
        raise DataError("batch must hold the graph of each node, in rising order")
    source, target = edge_index.cpu()
    graph = nodes[source]
    if not torch.equal(graph, nodes[target]):
        raise DataError("edge_index joins nodes of different graphs of the batch")
    order = graph.argsort(stable=True).numpy()
    counts = np.bincount(nodes.numpy(), minlength=1)
    node_ptr = np.concatenate([[0], np.cumsum(counts)])
    edges = np.bincount(graph.numpy(), minlength=len(counts))
    local = edge_index.cpu().numpy()[:, order] - node_ptr[graph.numpy()[order]]
    store = GraphStore.from_arrays(
        node_ptr=node_ptr,
        edge_ptr=np.concatenate([[0], np.cumsum(edges)]),
        edge_index=local,
        edge_attr=None if edge_attr is None else edge_attr.numpy(force=True)[order],
    )
    stored = store.batch().to(x.device)
    # The store groups the edges by graph; edge_index may have another order.
    back = torch.from_numpy(order).argsort().to(x.device)
    return replace(stored, x=x, by_caller=stored.by_caller[back])


def _to_stored_order(values: Tensor, graphs: GraphBatch) -> Tensor:
    """Sort values [E] from the order of ``edge_index`` to that of the batch."""
    return values[graphs.by_caller.argsort()]
