"""`Explanation`: what a model used of one graph, in the caller's edge order."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch_geometric.explain
from torch import Tensor

from gsat.errors import GSATError
from gsat.graphs.neighbourhood import k_hop_nodes

# Probabilities this close to r carry no preference: the bottleneck won everywhere.
AT_R = 0.05
# PyG tells node from edge from graph values by their length, which can agree by chance: the
# probabilities of 12 labels on a molecule of 12 atoms belong to no atom.
_OF_GRAPH = ("logits", "probabilities", "prediction", "y")


class Explanation(torch_geometric.explain.Explanation):
    """A PyG ``Explanation`` of one graph, with the model's answer beside it.

    A node-level model has an answer per node: ``node_prediction`` [N] and ``node_probabilities``
    [N, C] stand in place of those of the graph, and :meth:`of_node` explains one of them.

    Attributes:
        edge_mask: [E], the score of each edge in [0, 1], in the caller's edge order.
        node_mask: [N, 1], the keep-probability of each node, when the model attends to nodes.
        probabilities: [C], one per class or label, none in regression. prediction: the predicted
            class (or labels, or number).
        r: the bottleneck's prior, or None for a model without one.
        undirected: whether both directions of an edge count as one.
        node: the number of the node whose answer is explained, when it is one node's.
        hops: how far away a node's answer looks, when the model is node-level.
    """

    @property
    def confidence(self) -> float | None:
        """The probability of the predicted class (multi-label: of the surest label); None where
        there is none, in regression."""
        sure = self.get("probabilities")
        return float(sure.max()) if sure is not None and sure.numel() else None

    @property
    def marked(self) -> int | None:
        """Where the explained node stands among the nodes of this (sub)graph, if there is one."""
        if self.get("node") is None:
            return None
        return int((self.node_id == self.node).nonzero()[0, 0])

    @property
    def found(self) -> bool:
        """False when every probability sits at r (or all are equal): there is no explanation."""
        kept = self.node_mask[:, 0] if self.get("node_mask") is not None else self.edge_mask
        if kept.numel() == 0:
            return False
        if self.get("r") is not None:
            return bool((kept - self.r).abs().max() > AT_R)
        return bool(kept.max() - kept.min() > AT_R)

    @property
    def message(self) -> str:
        """One line for a person."""
        if self.found:
            return f"{self.num_units} edges ranked"
        if self.edge_mask.numel() == 0:
            none = "the graph has no edges" if self.get("edge_id") is None else "no edge is left"
            return f"no explanation found: {none}"
        where = f"at r = {self.r:g}" if self.get("r") is not None else "at one value"
        return f"no explanation found: all probabilities sit {where}, no edge stands out"

    def normalised(self) -> Tensor:
        """[E], the scores stretched to [0, 1] within this graph, for pictures."""
        low, high = (self.edge_mask.min(), self.edge_mask.max()) if len(self.edge_mask) else (0, 0)
        if high - low < 1e-12:
            return torch.zeros_like(self.edge_mask)
        return (self.edge_mask - low) / (high - low)

    # -- the subgraph itself ------------------------------------------------------------------

    def units(self) -> tuple[Tensor, Tensor]:
        """What a budget counts: edges, or pairs of nodes when the graph is undirected.

        Returns:
            ``unit`` [E], the unit of each stored edge, and ``score`` [U], the score of each unit.
        """
        source, target = self.edge_index
        if self.undirected:
            low, high = torch.minimum(source, target), torch.maximum(source, target)
            _, unit = torch.unique(low * int(self.num_nodes) + high, return_inverse=True)
        else:
            unit = torch.arange(len(source))
        count = int(unit.max()) + 1 if len(unit) else 0
        score = torch.zeros(count, dtype=self.edge_mask.dtype)
        return unit, score.scatter_reduce(0, unit, self.edge_mask, "amax", include_self=False)

    @property
    def num_units(self) -> int:
        """Edges of the graph, both directions of an undirected edge counting once."""
        return len(self.units()[1])

    def top(self, budget: int | str) -> Explanation:
        """The subgraph of the highest-scored edges.

        Args:
            budget: a number of edges, or a share of them such as ``"20%"`` (rounded up).
                Both directions of an undirected edge count as one and are kept together.
        """
        return self._restrict(self.in_top(budget))

    def in_top(self, budget: int | str) -> Tensor:
        """[E] bool, the edges that :meth:`top` keeps, in the caller's order."""
        unit, score = self.units()
        count = min(parse_budget(budget, len(score)), len(score))
        chosen = torch.zeros(len(score), dtype=torch.bool)
        chosen[torch.sort(score, descending=True, stable=True).indices[:count]] = True
        return chosen[unit]

    def above(self, probability: float) -> Explanation:
        """The subgraph of the edges scored above ``probability``."""
        if not 0 <= probability <= 1:
            raise GSATError(f"a probability lies between 0 and 1, not {probability}")
        unit, score = self.units()
        return self._restrict((score > probability)[unit])

    def of_node(self, node: int) -> Explanation:
        """The explanation of one node's answer: the subgraph whose messages reach it.

        That is the nodes from which messages arrive in as many steps as the model has layers, and
        the edges among them; what lies further away has a say only in the scores, which are
        normalised over the graph. Old numbers are in ``node_id`` and ``edge_id``.
        """
        if self.get("node_prediction") is None:
            raise GSATError("this model answers for whole graphs; a node has no answer of its own")
        if not 0 <= node < int(self.num_nodes):
            raise GSATError(f"there is no node {node}: the nodes are 0 to {self.num_nodes - 1}")
        chosen, total = torch.tensor([node]), int(self.num_nodes)
        near = k_hop_nodes(self.edge_index, chosen, self.hops, total)[:, 0]
        out = self._restrict(near[self.edge_index].all(dim=0), near.nonzero()[:, 0])
        for name in ("logits", "probabilities", "prediction", "y"):
            if self.get(f"node_{name}") is not None:
                out[name] = self[f"node_{name}"][node]
                del out[f"node_{name}"]
        if self.get("node_y") is None and self._has_label_per_node():
            out.y = self.y[node]
        out.node = node if self.get("node_id") is None else int(self.node_id[node])
        return out

    def _has_label_per_node(self) -> bool:
        # In PyG's own node-level data ``y`` is per node.
        y = self.get("y")
        return isinstance(y, Tensor) and y.ndim > 0 and len(y) == int(self.num_nodes)

    def _restrict(self, keep: Tensor, nodes: Tensor | None = None) -> Explanation:
        """Edges where ``keep`` [E], their ends, ``nodes`` and the explained node; nodes renumbered,
        old numbers in ``node_id``, ``edge_id``.

        Restricted again, the numbers are still those of the graph that was explained.
        """
        edge_id = keep.nonzero()[:, 0]
        ends = self.edge_index[:, edge_id]
        alone = [] if nodes is None else [nodes]
        if self.marked is not None:
            alone.append(torch.tensor([self.marked]))
        node_id, renumbered = torch.unique(
            torch.cat([ends.reshape(-1), *alone]), return_inverse=True
        )
        renumbered = renumbered[: ends.numel()]
        out = Explanation()
        num_nodes, num_edges = int(self.num_nodes), len(keep)
        for name, value in self.items():
            if name == "edge_index":
                out.edge_index = renumbered.reshape(2, -1)
            elif name == "num_nodes":
                continue
            elif name in _OF_GRAPH or not isinstance(value, Tensor):
                out[name] = value
            elif self.is_edge_attr(name) and len(value) == num_edges:
                out[name] = value[edge_id]
            elif self.is_node_attr(name) and len(value) == num_nodes:
                out[name] = value[node_id]
            else:
                out[name] = value
        out.num_nodes = len(node_id)
        if self.get("edge_id") is None:
            out.node_id, out.edge_id = node_id, edge_id
        return out

    # -- for other programs -------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON: the answer, then every edge with its score; None for a NaN."""
        edges = []
        truth = self.get("edge_truth")
        for position, (source, target) in enumerate(self.edge_index.T.tolist()):
            edge = {"source": source, "target": target, "score": float(self.edge_mask[position])}
            if truth is not None:
                edge["truth"] = int(truth[position])
            edges.append(edge)
        out: dict[str, Any] = {}
        for name in ("node", "prediction", "probabilities", "node_prediction"):
            value = self.get(name)
            if value is not None:
                out[name] = value.tolist() if isinstance(value, Tensor) else value
        out |= {
            "confidence": self.confidence,
            "found": self.found,
            "message": self.message,
            "edges": edges,
        }
        if self.get("node_mask") is not None:
            out["nodes"] = self.node_mask[:, 0].tolist()
        for name in ("node_id", "edge_id", "y", "node_y"):
            if self.get(name) is not None:
                out[name] = self[name].tolist()
        return {name: _finite(value) for name, value in out.items()}


def _finite(value: Any) -> Any:
    """JSON knows no NaN: a missing label is None."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def parse_budget(budget: int | str, count: int) -> int:
    """``6`` or ``"6"`` edges, or ``"20%"`` of ``count`` rounded up."""
    text = str(budget).strip()
    try:
        if text.endswith("%"):
            share = float(text[:-1]) / 100
            if 0 < share <= 1:
                return math.ceil(round(share * count, 9))
        elif int(text) > 0:
            return int(text)
    except ValueError:
        pass
    raise GSATError(f"a budget is a number of edges (6) or a share (20%), not {budget!r}")
