"""``explain_with``: post-hoc explainers on a trained network."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn
from torch_geometric.data import Data

from gsat.core.errors import GSATError
from gsat.core.settings import validated
from gsat.explanation import Explanation
from gsat.graphs import GraphStore
from gsat.graphs.conversions import as_store, to_data_list
from gsat.methods import METHODS
from gsat.methods.base import TrainingSettings
from gsat.methods.post_hoc import PostHocMethod
from gsat.models import Backbone, InterpretableModel
from gsat.models.wrapping.wrap import Wrapped
from gsat.tasks import Task

# Methods take training settings; these networks are already trained.
_UNUSED = TrainingSettings.model_validate({})


def explain_with(
    method: str,
    network: nn.Module,
    graphs: Data | GraphStore | Iterable[Data],
    *,
    task: Task | None = None,
    train: GraphStore | Iterable[Data] | None = None,
    batch_size: int = 128,
    seed: int = 0,
    **settings: Any,
) -> list[Explanation]:
    """Explain a trained network by a post-hoc explainer.

    The network is unchanged afterwards, its training flags and running statistics included.

    Args:
        method: ``"gnnexplainer"``, ``"pgexplainer"``, ``"graphmask"``, or the name of a method of
            your own that derives from :class:`~gsat.methods.post_hoc.PostHocMethod`.
        network: A PyG network that gives logits of graphs, with its ``task``; a backbone, or a
            network wrapped by :func:`gsat.wrap`; or the model of a run of the method ``erm``.
        graphs: One graph or several to explain.
        task: What the network predicts; needed for a PyG network. (default: ``None``)
        train: Graphs to learn from; ``"pgexplainer"`` and ``"graphmask"`` need them.
            (default: ``None``)
        batch_size: Graphs per step of that learning. (default: ``128``)
        seed: Seed of all random draws. (default: ``0``)
        **settings: The method's settings, as in a recipe, such as ``size=0.1``.

    Returns:
        One explanation per graph.

    Raises:
        GSATError: If there is no such explainer or setting, or the network cannot be explained.

    Example:
        >>> import gsat
        >>> data = gsat.load_dataset("ba2motifs", graphs=20)
        >>> network = gsat.GIN.for_data(data, hidden=8)
        >>> found = gsat.explain_with("gnnexplainer", network, data.test[0], iterations=2)
        >>> len(found[0].edge_mask) == data.test[0].num_edges
        True
    """
    kind = _explainer(method)
    if kind.learns and train is None:
        raise GSATError(f"{method} learns from graphs: give some as train=…")
    listed = graphs if isinstance(graphs, GraphStore) else to_data_list(graphs)
    chosen = validated(kind.Settings, settings, owner=method)
    made = kind.create(_backbone(network, task, listed), chosen, _UNUSED, seed)
    made.to_device(str(next(network.parameters()).device))
    if train is not None and kind.learns:
        store = as_store(train)
        made.model.check_fits(store)
        made.learn(store, seed, batch_size)
    return made.model.explain(listed)


def _explainer(name: str) -> type[PostHocMethod]:
    """The post-hoc explainer of a name."""
    kind = METHODS.get(name, None)
    if kind is None or not issubclass(kind, PostHocMethod):
        names = [other for other, kind in METHODS.items() if issubclass(kind, PostHocMethod)]
        raise GSATError(f"there is no explainer '{name}': there are {', '.join(names)}")
    return kind


def _backbone(network: nn.Module, task: Task | None, graphs: GraphStore | list[Data]) -> Backbone:
    """The backbone of a network; a PyG network is wrapped."""
    if isinstance(network, InterpretableModel):
        if network.bare_backbone is not None:
            return network.bare_backbone
        raise GSATError(f"a {type(network).__name__} explains itself: call its own explain()")
    if isinstance(network, Backbone):
        return network
    if task is None:
        raise GSATError("the task of the network is needed: give task=gsat.Task(…)")
    wrapped = Wrapped(network, task, example=graphs[:1] if isinstance(graphs, list) else graphs)
    if wrapped.gives == "nodes":
        raise GSATError(
            f"a network that gives logits [graphs, {task.num_logits}] was needed, and this one "
            f"gives a row per node; let it pool, or train a head by gsat.fit first"
        )
    return wrapped
