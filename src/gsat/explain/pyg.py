"""Both ways to ``torch_geometric.explain``: GSAT as one of its algorithms, and a GSAT model as one
that its algorithms and metrics can be applied to.

    explained = model.as_pyg()
    explainer = Explainer(explained, GSATExplainer(), explanation_type="model",
                          edge_mask_type="object", model_config=explained.model_config)
    explanation = explainer(data.x, data.edge_index)
    fidelity(explainer, explanation)
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.explain import ExplainerAlgorithm, Explanation, ModelConfig
from torch_geometric.explain.config import MaskType, ModelTaskLevel
from torch_geometric.nn import MessagePassing

from gsat.attention import edge_weights
from gsat.errors import DataError, GSATError
from gsat.graphs import GraphBatch, GraphStore
from gsat.graphs.neighbourhood import k_hop_edges
from gsat.gsat import GSAT


class PyGModel(nn.Module):
    """A trained GSAT as PyG's ``Explainer`` calls models; make one with ``model.as_pyg()``.

    It is a view: it has no weights of its own, and whatever PyG sets on it stays on it. A mask that
    PyG sets weighs the edges of the prediction pass, on top of the model's own attention. The model
    runs in evaluation mode.

    Args:
        model: the model.
        label: which label of a multi-label model is looked at.
    """

    def __init__(self, model: GSAT, label: int | None = None) -> None:
        super().__init__()
        labels = model.task.num_logits
        if (model.task.kind == "multilabel") != (label is not None):
            asked = f"a label from 0 to {labels - 1}" if label is None else "no label"
            raise GSATError(f"as_pyg() of a {model.task.kind} model needs {asked}")
        if label is not None and not 0 <= label < labels:
            raise GSATError(f"there is no label {label}: the labels are 0 to {labels - 1}")
        self.label = label
        self.gate = _Gate()
        # Not registered: PyG would put its masks on every layer of it, those of the pass that
        # makes the attention among them.
        self._viewed = (model,)

    @property
    def model(self) -> GSAT:
        """The model itself."""
        return self._viewed[0]

    @property
    def model_config(self) -> ModelConfig:
        """What PyG's ``Explainer`` has to know: raw values, of classes or of a number."""
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
        """Raw values for each class, [B, C] ([N, C] at node level); [B, 1] of a regression.

        One logit (a binary model, one of many labels) becomes the two columns (−logit/2, logit/2):
        their softmax is the model's probability, where that of one column would always be 1, and
        either class has a gradient.

        Args:
            x: [N, F]. edge_index: [2, E]. batch: [N], sorted; None for one graph.
            edge_attr: [E, D]. Captum hands these on by position: name them in this order.
        """
        with self.model.evaluating(gradients=True):
            graphs = as_batch(x, edge_index, batch, edge_attr)
            weight = self._weights(graphs, edge_index)
            mask = self.gate.mask
            if mask is not None:
                weight = weight * _stored_order(mask.to(weight), graphs)
            logits = self.model.backbone(graphs, attention=weight)
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
        """The model's own weight of each edge, [E], in the order of ``edge_index``."""
        with self.model.evaluating():
            graphs = as_batch(x, edge_index, batch, edge_attr)
            return self._weights(graphs, edge_index)[graphs.by_caller]

    def _weights(self, graphs: GraphBatch, edge_index: Tensor) -> Tensor:
        h = self.gate(self.model.backbone.embed(graphs), edge_index)
        probability = torch.sigmoid(self.model.extractor(h, graphs))
        return edge_weights(probability, graphs, self.model.extractor.on)


class GSATExplainer(ExplainerAlgorithm):
    """What a GSAT model says of its own edges, as an algorithm of PyG's ``Explainer``.

    The model is ``model.as_pyg()``; the mask is the one :meth:`gsat.GSAT.explain` gives. It belongs
    to the model and not to a target: all types of explanation give the same. Of a node (``index``)
    it is restricted to the node's computation graph.
    """

    @torch.no_grad()
    def forward(
        self,
        model: nn.Module,
        x: Any,
        edge_index: Any,
        *,
        target: Tensor,
        index: int | Tensor | None = None,
        **kwargs: Any,
    ) -> Explanation:
        """An ``Explanation`` with ``edge_mask`` [E], in the order of ``edge_index``."""
        if not isinstance(model, PyGModel):
            raise GSATError(
                f"GSATExplainer explains GSAT models: give Explainer model.as_pyg(), not a "
                f"{type(model).__name__}"
            )
        mask = model.edge_mask(x, edge_index, **kwargs)
        if index is not None and model.model.task.level == "node":
            nodes = torch.as_tensor(index).reshape(-1)
            hops = model.model.backbone.hops
            mask = mask * k_hop_edges(edge_index, nodes, hops, len(x)).any(dim=0)
        return Explanation(edge_mask=mask)

    def supports(self) -> bool:
        """Masks on edges, one value each, for predictions of graphs or nodes."""
        wanted, found = self.explainer_config, []
        if wanted.edge_mask_type != MaskType.object:
            found.append("edge_mask_type='object'")
        if wanted.node_mask_type is not None:
            found.append("node_mask_type=None")
        if self.model_config.task_level == ModelTaskLevel.edge:
            found.append("task_level='graph' or 'node'")
        if found:
            logging.error(f"'GSATExplainer' needs {', '.join(found)}")
        return not found


class _Gate(MessagePassing):
    """Takes the masks PyG sets, and shows it the node embeddings; changes nothing by itself."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_edge_mask":
            # Once registered as a parameter, PyG would copy every later mask into a new one, and
            # no gradient would reach what made it.
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    @property
    def mask(self) -> Tensor | None:
        """[E], the mask that is set, if one is."""
        if not self.explain or self._edge_mask is None:
            return None
        return self._edge_mask.sigmoid() if self._apply_sigmoid else self._edge_mask

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """[N, h] to the same."""
        return x


def as_batch(
    x: Tensor, edge_index: Tensor, batch: Tensor | None = None, edge_attr: Tensor | None = None
) -> GraphBatch:
    """A PyG mini-batch as a :class:`GraphBatch` whose ``x`` is the tensor that was given."""
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
    made = store.batch().to(x.device)
    # The store knows the edges grouped by graph; the caller's own order may be another.
    back = torch.from_numpy(order).argsort().to(x.device)
    return replace(made, x=x, by_caller=made.by_caller[back])


def _stored_order(values: Tensor, graphs: GraphBatch) -> Tensor:
    """[E] values from the caller's order to the batch's own."""
    return values[graphs.by_caller.argsort()]
