"""GSAT as an algorithm of ``torch_geometric.explain``.

A GSAT model is given to PyG by ``model.as_pyg()``; then all of PyG's algorithms and metrics apply
to it, and :class:`GSATExplainer` among them:

    explained = model.as_pyg()
    explainer = Explainer(explained, GSATExplainer(), explanation_type="model",
                          edge_mask_type="object", model_config=explained.model_config)
    explanation = explainer(data.x, data.edge_index)
    fidelity(explainer, explanation)
"""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.explain import ExplainerAlgorithm, Explanation
from torch_geometric.explain.config import MaskType, ModelTaskLevel

from gsat.core.errors import GSATError
from gsat.graphs.subgraph import k_hop_edges
from gsat.models.wrapping.pyg_model import PyGModel

__all__ = ["GSATExplainer", "PyGModel"]


class GSATExplainer(ExplainerAlgorithm):
    """The edge weights of a GSAT model, as an algorithm of PyG's ``Explainer``.

    The mask is the one that :meth:`gsat.GSAT.explain` gives. It belongs to the model and not to a
    target: all types of explanation give the same. For a node (``index``) it is restricted to the
    node's computation graph.

    Example:
        >>> import gsat
        >>> from torch_geometric.explain import Explainer
        >>> data = gsat.load_dataset("ba2motifs", graphs=20)
        >>> model = gsat.GSAT(gsat.GIN.for_data(data, hidden=8)).as_pyg()
        >>> explainer = Explainer(
        ...     model,
        ...     gsat.GSATExplainer(),
        ...     explanation_type="model",
        ...     edge_mask_type="object",
        ...     model_config=model.model_config,
        ... )
        >>> graph = data.test[0]
        >>> explanation = explainer(graph.x, graph.edge_index)
        >>> len(explanation.edge_mask) == graph.num_edges
        True
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
        """Explain a prediction; PyG's ``Explainer`` calls this.

        Args:
            model: A :class:`PyGModel`.
            x: Node features, ``[N, F]``.
            edge_index: ``[2, E]``.
            target: Not used: the mask belongs to the model.
            index: The node or nodes to explain, at node level. (default: ``None``, all)
            **kwargs: ``batch`` and ``edge_attr``, as in :meth:`PyGModel.forward`.

        Returns:
            An ``Explanation`` with ``edge_mask`` ``[E]``, in the order of ``edge_index``.

        Raises:
            GSATError: If ``model`` is not a :class:`PyGModel`.
        """
        if not isinstance(model, PyGModel):
            raise GSATError(
                f"GSATExplainer explains GSAT models: give Explainer model.as_pyg(), not a "
                f"{type(model).__name__}"
            )
        mask = model.edge_mask(x, edge_index, **kwargs)
        if index is not None and model.model.task.level == "node":
            nodes = torch.as_tensor(index).reshape(-1)
            hops = model.model.hops
            mask = mask * k_hop_edges(edge_index, nodes, hops, len(x)).any(dim=0)
        return Explanation(edge_mask=mask)

    def supports(self) -> bool:
        """Return whether the configuration asks for one number per edge, of graphs or nodes."""
        config, needed = self.explainer_config, []
        if config.edge_mask_type != MaskType.object:
            needed.append("edge_mask_type='object'")
        if config.node_mask_type is not None:
            needed.append("node_mask_type=None")
        if self.model_config.task_level == ModelTaskLevel.edge:
            needed.append("task_level='graph' or 'node'")
        if needed:
            logging.error(f"'GSATExplainer' needs {', '.join(needed)}")
        return not needed
