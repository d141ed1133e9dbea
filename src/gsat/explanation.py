"""`Explanation`: which edges of one graph a model used, in the edge order of that graph."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch_geometric.explain
from torch import Tensor

from gsat.core.errors import GSATError
from gsat.graphs.subgraph import k_hop_nodes
from gsat.graphs.texts import WORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

# Probabilities this close to r carry no preference: the bottleneck won everywhere.
AT_R = 0.05
# Scores that span less than this hardly separate edges.
NARROW = 0.1
# PyG distinguishes node, edge and graph values by their length, which can agree by chance: the
# probabilities of 12 labels on a molecule of 12 atoms belong to no atom.
_OF_GRAPH = ("logits", "probabilities", "prediction", "spread", "y")
_LISTED = 3  # labels that a caption names


class RankedEdge(NamedTuple):
    """An edge with its score; both directions of an undirected edge are one."""

    unit: int  # its number among the graph's units (see Explanation.units)
    source: int
    target: int
    score: float
    true: bool | None  # whether it belongs to the ground truth; None where that is unknown


def parse_budget(budget: int | str, count: int) -> int:
    """Turn a budget, such as ``6`` or ``"20%"`` of ``count`` edges, into a number of edges."""
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


class Explanation(torch_geometric.explain.Explanation):
    """A PyG ``Explanation`` of one graph, with the model's prediction beside it.

    A node-level model predicts every node: ``node_prediction`` [N] and ``node_probabilities``
    [N, C] take the place of those of the graph, and :meth:`of_node` explains one of them.

    Attributes:
        edge_mask: Scores of the edges in [0, 1], ``[E]``, in the edge order of the graph.
        edge_spread: Standard deviation of the scores over the members of an ensemble, ``[E]``;
            absent for a single model.
        spread: That of the probabilities, ``[C]``, or of the predicted numbers.
        node_mask: Keep-probabilities of the nodes, ``[N, 1]``, when the model attends to nodes.
        probabilities: One per class or label, ``[C]``; empty in regression.
        prediction: The predicted class (or labels, or number).
        r: The bottleneck's prior, or None for a model without one.
        undirected: Whether both directions of an edge count as one.
        node: The number of the node whose prediction is explained, for a single node.
        hops: Receptive field of a prediction in hops, when the model is node-level.
        doubt: Evidence against the explanation, if there is any; messages, pictures and pages
            show it.
        support: The verdict of an audit that the explanations passed, if there was one.
        class_names: Names of the classes, if known; pictures show them.
        node_types: Names of the node types, if known; pictures show them.

    Example:
        >>> explanation = Explanation(
        ...     edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]),
        ...     edge_mask=torch.tensor([0.9, 0.2, 0.7]), num_nodes=3, undirected=False,
        ... )
        >>> explanation.top(2).edge_id
        tensor([0, 2])
        >>> explanation
        Explanation(3 nodes, 3 directed edges: 3 edges ranked)
    """

    def __repr__(self) -> str:
        kind = "undirected" if self.undirected else "directed"
        size = f"{int(self.num_nodes or 0)} nodes, {self.num_units} {kind} edges"
        return f"Explanation({size}: {'; '.join(filter(None, (self.caption(), self.message)))})"

    @property
    def confidence(self) -> float | None:
        """The probability of the predicted class, or of the surest label; None in regression."""
        sure = self.get("probabilities")
        return float(sure.max()) if sure is not None and sure.numel() else None

    @property
    def stability(self) -> float | None:
        """Mean rank correlation of the scores by ensemble members or snapshots; None without."""
        return self.get("stability")

    @property
    def necessary(self) -> bool | None:
        """Whether the prediction changes without the explanation; None where undefined.

        The explanation is the upper of the two groups that the scores fall into; its attention is
        set to 0. Rarely True for a prediction that something is absent.
        """
        return self.get("necessary")

    @property
    def sufficient(self) -> bool | None:
        """Whether the prediction stays with attention 0 elsewhere; None where undefined."""
        return self.get("sufficient")

    @property
    def marked(self) -> int | None:
        """The position of the explained node in this (sub)graph, if there is one."""
        if self.get("node") is None:
            return None
        return int((self.node_id == self.node).nonzero()[0, 0])

    @property
    def found(self) -> bool:
        """Whether any edge stands out; False if all probabilities are at r, or equal."""
        kept = self._kept
        if kept.numel() == 0:
            return False
        if self.get("r") is not None:
            return bool((kept - self.r).abs().max() > AT_R)
        return bool(kept.max() - kept.min() > AT_R)

    @property
    def _kept(self) -> Tensor:
        """The keep-probabilities: of nodes, where the model attends to these, else of edges."""
        return self.node_mask[:, 0] if self.get("node_mask") is not None else self.edge_mask

    @property
    def message(self) -> str:
        """Whether an explanation was found, and the evidence against it, in one line."""
        if self.found:
            if self.get("doubt"):
                return f"no finding: {self.doubt}"
            ranked = f"{self.num_units} edges ranked{self._disagreement()}"
            span = float(self._kept.max() - self._kept.min())
            if span < NARROW:
                return f"{ranked}, but their scores span only {span:.2f}: hardly any stands out"
            return f"{ranked}; {self.support}" if self.get("support") else ranked
        if self.edge_mask.numel() == 0:
            none = "the graph has no edges" if self.get("edge_id") is None else "no edge is left"
            return f"no explanation found: {none}"
        where = f"at r = {self.r:g}" if self.get("r") is not None else "at one value"
        return f"no explanation found: all probabilities sit {where}, no edge stands out"

    def caption(self, class_names: Sequence[str] | None = None) -> str:
        """Describe the prediction and, where it is known, the true label, in one line.

        Args:
            class_names: Names of the classes, labels or numbers. (default: ``class_names`` of the
                explanation, if any)

        Returns:
            Such as ``"predicted mutagen (0.93), true mutagen"``; empty without a prediction.
        """
        names = self.get("class_names") if class_names is None else class_names
        if self.get("prediction") is None or self.get("probabilities") is None:
            return ""
        numbers = self.prediction.is_floating_point()
        text = f"predicted {self._numbers(names) if numbers else self._classes(names)}"
        return text if self.get("node") is None else f"node {self.node}: {text}"

    def _classes(self, names: Sequence[str] | None) -> str:
        predicted = [int(value) for value in self.prediction.reshape(-1).tolist()]
        sure = self.probabilities.reshape(-1).tolist()
        truth = self.get("y")
        true = [] if truth is None else [float(value) for value in truth.reshape(-1).tolist()]
        if len(predicted) > 1 or len(sure) == 1:
            positive = [f"{_name('label', names, i)} ({sure[i]:.2f})"
                        for i, on in enumerate(predicted) if on]  # fmt: skip
            true_names = [_name("label", names, i) for i, value in enumerate(true) if value == 1]
            known = not all(map(math.isnan, true))
            text, true_text = _listed(positive), _listed(true_names)
        else:
            spread = self.get("spread")
            error = "" if spread is None else f" ± {float(spread[predicted[0]]):.2f}"
            text = f"{_name('class', names, predicted[0])} ({sure[predicted[0]]:.2f}{error})"
            known = len(true) == 1 and not math.isnan(true[0])
            true_text = _name("class", names, int(true[0])) if known else ""
        return f"{text}, true {true_text}" if known else text

    def _numbers(self, names: Sequence[str] | None) -> str:
        predicted = self.prediction.reshape(-1).tolist()
        truth = self.get("y")
        true = [math.nan] * len(predicted) if truth is None else truth.reshape(-1).tolist()
        parts = []
        for i, (value, label) in enumerate(zip(predicted, true, strict=True)):
            text = f"{_name('number', names, i)} {value:.4g}" if len(true) > 1 else f"{value:.4g}"
            parts.append(text if math.isnan(label) else f"{text}, true {label:.4g}")
        return "; ".join(parts)

    @property
    def reliability(self) -> str:
        """Necessity, sufficiency and stability of this explanation, in one line; may be empty."""
        parts = []
        if self.necessary is not None:
            verb = "changes" if self.necessary else "stays"
            parts.append(f"without the explanation, the prediction {verb}")
        if self.sufficient is not None:
            verb = "stays" if self.sufficient else "changes"
            parts.append(f"with it alone, the prediction {verb}")
        if self.stability is not None:
            parts.append(f"stability {self.stability:.2f}".replace("-", "−"))
        return "; ".join(parts)

    def _disagreement(self) -> str:
        """The disagreement of the members of an ensemble about the edges, in words."""
        spread = self.get("edge_spread")
        if spread is None or not len(spread):
            return ""
        return f"; members differ by {float(spread.mean()):.2f} on average"

    def normalised(self) -> Tensor:
        """Stretch the scores ``[E]`` to [0, 1] within this graph, for pictures."""
        low, high = (self.edge_mask.min(), self.edge_mask.max()) if len(self.edge_mask) else (0, 0)
        if high - low < 1e-12:
            return torch.zeros_like(self.edge_mask)
        return (self.edge_mask - low) / (high - low)

    def units(self) -> tuple[Tensor, Tensor]:
        """Group edges into the units of a budget: both directions of an undirected edge are one.

        Returns:
            The unit of each edge, ``[E]``, and the score of each unit, ``[U]``.
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
        """The number of edges; both directions of an undirected edge count once."""
        return len(self.units()[1])

    def ranked_edges(self) -> list[RankedEdge]:
        """List the edges from the highest score down, one per unit (see :meth:`units`)."""
        unit, score = self.units()
        truth = self.get("edge_truth")
        marked = torch.zeros(len(score), dtype=torch.bool)
        if truth is not None:
            marked[unit[truth.reshape(-1) > 0]] = True
        # The last pair of a unit wins: reversed, that is its first edge.
        first = dict(reversed([*zip(unit.tolist(), self.edge_index.T.tolist(), strict=True)]))
        ranked = []
        for place in score.argsort(descending=True, stable=True).tolist():
            source, target = first[place]
            true = None if truth is None else bool(marked[place])
            ranked.append(RankedEdge(place, source, target, float(score[place]), true))
        return ranked

    def _node_numbers(self) -> Sequence[int]:
        """The numbers of the nodes in the whole graph."""
        node_id = self.get("node_id")
        return range(int(self.num_nodes or 0)) if node_id is None else node_id.tolist()

    def node_words(self) -> list[str] | None:
        """The word of each node of a sentence; None for other graphs."""
        text = self.get(WORDS)
        if not isinstance(text, str):
            return None
        # Empty words at the end are lost in the text.
        words = dict(enumerate(text.split("\0")))
        return [words.get(number, "") for number in self._node_numbers()]

    def node_names(self) -> list[str]:
        """Name the nodes by their numbers in the whole graph, and by their words: ``"3 film"``."""
        words, numbers = self.node_words(), self._node_numbers()
        if words is None:
            return [str(number) for number in numbers]
        return [f"{number} {word}" for number, word in zip(numbers, words, strict=True)]

    def top(self, budget: int | str) -> Explanation:
        """Return the subgraph of the highest-scored edges.

        Args:
            budget: A number of edges, or a share of them such as ``"20%"`` (rounded up).
                Both directions of an undirected edge count as one and are kept together.

        Returns:
            The subgraph; numbers in the whole graph are in ``node_id`` and ``edge_id``.
        """
        return self._restrict(self.in_top(budget))

    def in_top(self, budget: int | str) -> Tensor:
        """Mark the edges that :meth:`top` keeps.

        Args:
            budget: As in :meth:`top`.

        Returns:
            A boolean per edge, ``[E]``.
        """
        unit, score = self.units()
        count = min(parse_budget(budget, len(score)), len(score))
        chosen = torch.zeros(len(score), dtype=torch.bool)
        chosen[torch.sort(score, descending=True, stable=True).indices[:count]] = True
        return chosen[unit]

    def above(self, probability: float) -> Explanation:
        """Return the subgraph of the edges scored above a probability, numbered as by :meth:`top`.

        Args:
            probability: From 0 to 1.

        Raises:
            GSATError: If it is not a probability.
        """
        if not 0 <= probability <= 1:
            raise GSATError(f"a probability lies between 0 and 1, not {probability}")
        unit, score = self.units()
        return self._restrict((score > probability)[unit])

    def near(self, edges: Tensor, hops: int, most: int | None = None) -> Explanation:
        """Return the subgraph within some hops of edges, numbered as by :meth:`top`.

        Args:
            edges: Marks these edges, ``[E]``.
            hops: How many hops, in either direction.
            most: How many neighbours each node brings in at most, those of its highest-scored
                edges first. (default: all)
        """
        near = set(self.edge_index[:, edges].reshape(-1).tolist())
        ranked = [(edge.source, edge.target) for edge in self.ranked_edges()]
        for _ in range(hops):
            brought = dict.fromkeys(near, 0)
            for pair in ranked:
                for node, other in (pair, pair[::-1]):
                    room = most is None or brought.get(node, 0) < most
                    if node in brought and other not in near and room:
                        near.add(other)
                        brought[node] += 1
        kept = torch.zeros(int(self.num_nodes), dtype=torch.bool)
        kept[sorted(near)] = True
        return self._restrict(kept[self.edge_index].all(dim=0), kept.nonzero()[:, 0])

    def of_node(self, node: int) -> Explanation:
        """Return the explanation of one node's prediction: the subgraph whose messages reach it.

        That is the nodes from which messages arrive in as many steps as the model has layers, and
        the edges among them. Nodes further away influence only the scores, which are normalised
        over the graph.

        Args:
            node: The number of the node.

        Returns:
            The subgraph, as for :meth:`top`, with the prediction of that node.

        Raises:
            GSATError: If there is no such node, or the model is not node-level.
        """
        if self.get("node_prediction") is None:
            raise GSATError("this model answers for whole graphs; a node has no prediction")
        if not 0 <= node < int(self.num_nodes):
            raise GSATError(f"there is no node {node}: the nodes are 0 to {self.num_nodes - 1}")
        chosen, total = torch.tensor([node]), int(self.num_nodes)
        near = k_hop_nodes(self.edge_index, chosen, self.hops, total)[:, 0]
        out = self._restrict(near[self.edge_index].all(dim=0), near.nonzero()[:, 0])
        for name in ("logits", "probabilities", "prediction", "spread", "y"):
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
        """Keep the edges where ``keep`` [E], their ends, the explained node and ``nodes``.

        Restricted again, ``node_id`` and ``edge_id`` are still numbers of the whole graph.
        """
        edge_id = keep.nonzero()[:, 0]
        ends = self.edge_index[:, edge_id]
        kept = [] if nodes is None else [nodes]
        if self.marked is not None:
            kept.append(torch.tensor([self.marked]))
        node_id, renumbered = torch.unique(
            torch.cat([ends.reshape(-1), *kept]), return_inverse=True
        )
        renumbered = renumbered[: ends.numel()]
        out = Explanation()
        num_nodes, num_edges = int(self.num_nodes), len(keep)
        for name, value in self.items():
            if isinstance(value, Tensor) and name not in (*_OF_GRAPH, "edge_index"):
                if self.is_edge_attr(name) and len(value) == num_edges:
                    value = value[edge_id]
                elif self.is_node_attr(name) and len(value) == num_nodes:
                    value = value[node_id]
            out[name] = value
        out.edge_index, out.num_nodes = renumbered.reshape(2, -1), len(node_id)
        if self.get("edge_id") is None:
            out.node_id, out.edge_id = node_id, edge_id
            out.whole_nodes = num_nodes
        return out

    def within(self, top: int | str | None = None, above: float | None = None) -> Explanation:
        """Return the subgraph within a budget, or all of it where there is no budget.

        Args:
            top: As in :meth:`top`. (default: ``None``)
            above: As in :meth:`above`. (default: ``None``)
        """
        self.budget(top, above)
        if top is not None:
            return self.top(top)
        return self if above is None else self.above(above)

    def budget(self, top: int | str | None = None, above: float | None = None) -> int | None:
        """Count the edges within a budget; None where there is no budget.

        Args:
            top: As in :meth:`top`. (default: ``None``)
            above: As in :meth:`above`. (default: ``None``)

        Raises:
            GSATError: If both are given, or one is out of range.
        """
        if top is not None and above is not None:
            raise GSATError("top and above both set a budget; give one of them")
        if top is not None:
            return parse_budget(top, self.num_units)
        return None if above is None else self.above(above).num_units

    def draw(self, *, above: float | None = None, **options: Any) -> Figure:
        """Draw the graph.

        Args:
            above: Emphasise the edges scored above this probability. (default: ``None``)
            options: The options of :func:`gsat.draw.draw_explanation`: ``title``, ``top``,
                ``class_names``, ``truth``, ``crop``, ``spread``, ``doubt`` and others.

        Returns:
            A matplotlib figure.
        """
        from gsat.draw import draw_explanation

        return draw_explanation(self, **self._with_budget(above, options))

    def save(self, path: str | Path, *, above: float | None = None, **options: Any) -> Path:
        """Write the explanation to a file.

        Args:
            path: ``.svg``, ``.png`` or ``.pdf`` for a picture, ``.html`` for a page, ``.json`` for
                :meth:`as_dict`, ``.csv`` for a line per edge.
            above: As in :meth:`draw`. (default: ``None``)
            options: As in :meth:`draw`. In JSON and CSV, ``top`` marks the edges as ``chosen``;
                JSON has ``class_names`` and ``title`` as well.

        Raises:
            GSATError: If the suffix is unknown or the file can't be written.
        """
        from gsat.draw import write_explanation

        return write_explanation(self, path, **self._with_budget(above, options))

    def _repr_svg_(self) -> str:
        from gsat.draw import explanation_svg

        return explanation_svg(self)

    def _with_budget(self, above: float | None, options: dict[str, Any]) -> dict[str, Any]:
        """Turn ``above`` into the number of edges that it keeps."""
        if above is None:
            return options
        kept = self.budget(options.get("top"), above)
        if not kept:
            raise GSATError(f"no edge is above {above:g}; the highest is at {self.highest:.3f}")
        return {**options, "top": kept}

    @property
    def highest(self) -> float:
        """The highest score of an edge; 0 for a graph without edges."""
        return float(self.edge_mask.max()) if len(self.edge_mask) else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: the prediction and every edge; None in place of NaN."""
        # Reading tensors element by element would take longer than the model.
        columns = {"source": self.edge_index[0], "target": self.edge_index[1]}
        columns["score"] = self.edge_mask
        if self.get("edge_spread") is not None:
            columns["spread"] = self.edge_spread
        if self.get("edge_truth") is not None:
            columns["truth"] = self.edge_truth.reshape(-1).int()
        rows = zip(*(values.tolist() for values in columns.values()), strict=True)
        edges = [dict(zip(columns, row, strict=True)) for row in rows]
        out: dict[str, Any] = {}
        for name in ("node", "prediction", "probabilities", "spread", "node_prediction"):
            value = self.get(name)
            if value is not None:
                out[name] = value.tolist() if isinstance(value, Tensor) else value
        for name in ("confidence", "found", "message", "stability", "necessary", "sufficient"):
            out[name] = getattr(self, name)
        out["edges"] = edges
        if self.get("node_mask") is not None:
            out["nodes"] = self.node_mask[:, 0].tolist()
        for name in ("node_id", "edge_id", "y", "node_y"):
            if self.get(name) is not None:
                out[name] = self[name].tolist()
        # Most values are scores of edges: check them at once.
        finite = bool(self.edge_mask.isfinite().all())
        return {k: v if k == "edges" and finite else _finite(v) for k, v in out.items()}


def _finite(value: Any) -> Any:
    """Replace NaN, which JSON does not have, by None."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _name(kind: str, names: Sequence[str] | None, number: int) -> str:
    """The name of a class, label or number, such as ``"class 2"`` where it has none."""
    return names[number] if names is not None and 0 <= number < len(names) else f"{kind} {number}"


def _listed(names: list[str]) -> str:
    """List the first names and count the others."""
    rest = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {rest} more" if rest > 0 else "") or "none"
