"""Responses of the API: their models, and how they are made."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from gsat.explain.patterns import PatternGroup
from gsat.explanation import Explanation
from gsat.training.list_runs import State
from gsat.web.library import Entry, LoadedRun
from gsat.web.requests import SPLITS
from gsat.web.scored import ScoredSplit

Metrics = dict[str, float | None]


class Problem(BaseModel):
    """An error."""

    status: int = Field(description="The HTTP status.")
    error: str = Field(description="What is wrong, in one line.")


class Health(BaseModel):
    """The state of the service."""

    status: str = "ok"
    runs: int = Field(description="Number of runs.")


class RunValues(BaseModel):
    """A run."""

    name: str = Field(description="Its name in addresses.")
    dataset: str
    method: str
    backbone: str
    seed: int
    state: State
    progress: str = Field(description="Such as 'epoch 12 of 100'; empty for a finished run.")
    test: Metrics = Field(description="Test metrics; empty until the run is finished.")
    seconds: float = Field(description="Training time.")

    @classmethod
    def of(cls, entry: Entry, **details: Any) -> Self:
        """Describe a run, without its path."""
        return cls(name=entry.name, **{**vars(entry.summary), **details})


class Runs(BaseModel):
    """All runs."""

    runs: list[RunValues]


class ModelValues(BaseModel):
    """Inputs and outputs of a model."""

    kind: str = Field(description="The kind of task, such as 'binary'.")
    level: str = Field(description="'graph' or 'node'.")
    outputs: list[str] = Field(description="Names of the classes, labels or numbers.")
    takes_smiles: bool
    node_features: int | None = Field(description="Columns of `x`.")
    edge_features: int = Field(description="Columns of `edge_attr`.")
    attends_to: str = Field(description="'edge' or 'node'.")
    r: float | None = Field(description="The prior of the keep-probabilities.")

    @classmethod
    def of(cls, loaded: LoadedRun) -> Self:
        """Describe the model of a run."""
        model = loaded.model
        return cls(
            kind=model.task.kind,
            level=model.task.level,
            outputs=loaded.outputs,
            takes_smiles=loaded.takes_smiles,
            node_features=model.network.get("in_features"),
            edge_features=model.network.get("edge_features") or 0,
            attends_to=model.on,
            r=model.r,
        )


class RunDetails(RunValues):
    """A run with its model."""

    splits: tuple[str, ...] = SPLITS
    valid: Metrics | None = Field(default=None, description="Validation metrics of a finished run.")
    best_epoch: int | None = Field(
        default=None, description="The reported epoch of a finished run."
    )
    model: ModelValues | None = Field(description="null before the first epoch.")
    note: str | None = Field(default=None, description="Why there is no model.")


class Curves(BaseModel):
    """Metrics of every epoch."""

    epochs: int
    phases: list[str] = Field(description="Of each epoch.")
    selected: int | None = Field(description="The selected epoch, counted over all phases.")
    curves: dict[str, dict[str, list[float | None]]] = Field(
        description="Values of each metric, by 'train' and 'valid'."
    )


class GraphRow(BaseModel):
    """A graph (or node) of a split, and its prediction."""

    number: int = Field(description="Its place in the split.")
    title: str
    graph: int
    node: int | None
    nodes: int = Field(description="Number of nodes.")
    edges: int = Field(description="Number of edges.")
    prediction: Any = Field(description="The class, the labels or the number.")
    probabilities: list[float] = Field(description="One per class or label.")
    confidence: float | None = Field(description="The highest of them.")
    label: Any = Field(description="The true class, labels or number; null if unknown.")
    right: bool | None = Field(description="Whether the prediction is right; null if unknown.")
    explanation_auc: float | None = Field(description="null without ground truth.")
    error: float | None = Field(description="Absolute error of a regression.")
    smiles: str | None = None
    class_name: str | None = Field(default=None, alias="class", description="The predicted class.")

    @classmethod
    def of(cls, scored: ScoredSplit, row: int, **details: Any) -> Self:
        """Describe a row of a split."""
        graph = int(scored.graph[row])
        predicted = scored.predicted[row]
        if scored.smiles:
            details["smiles"] = scored.smiles[graph]
        if scored.task.kind in ("binary", "multiclass"):
            number = int(predicted)
            details["class"] = scored.words(number) or str(number)
        return cls(
            number=scored.number(row),
            title=scored.title(row),
            graph=scored.number(row) if scored.node is None else graph,
            node=None if scored.node is None else int(scored.node[row]),
            nodes=int(scored.store.node_counts[graph]),
            edges=int(scored.store.edge_counts[graph]),
            prediction=predicted.tolist(),
            probabilities=scored.probabilities[row].tolist(),
            confidence=float(scored.confidence[row]),
            label=None if scored.labels is None else scored.labels[row].tolist(),
            right=None if scored.right[row] < 0 else bool(scored.right[row]),
            explanation_auc=float(scored.auc[row]),
            error=float(scored.error[row]),
            **details,
        )


class GraphRows(BaseModel):
    """A part of the rows of a split."""

    total: int = Field(description="Number of rows that pass the filter.")
    offset: int
    graphs: list[GraphRow]


class GraphDetails(GraphRow):
    """A graph of a split with its features."""

    input: dict[str, Any] = Field(description="The graph, which can be sent in a request.")


class Edge(BaseModel):
    """An edge with its score."""

    model_config = ConfigDict(extra="allow")

    source: int
    target: int
    score: float | None = Field(description="The probability with which the model keeps it.")


class PredictionValues(BaseModel):
    """A prediction."""

    id: str | None = Field(description="The identifier of the graph.")
    answer: str = Field(description="The prediction in words.")
    outputs: list[str] = Field(description="Names of the classes, labels or numbers.")
    prediction: Any = Field(default=None, description="The class, the labels or the number.")
    probabilities: Any = Field(default=None, description="One per class or label.")
    confidence: float | None = Field(default=None, description="The highest of them.")
    node_prediction: list[Any] | None = Field(default=None, description="Predictions of all nodes.")

    @classmethod
    def of(
        cls, explanation: Explanation, top: int | str | None = None, name: str | None = None
    ) -> Self:
        """Make the response for an explanation; `top` marks its highest-scored edges."""
        values = explanation.as_dict()
        if top is not None:
            chosen = explanation.in_top(top).tolist()
            for edge, is_chosen in zip(values["edges"], chosen, strict=True):
                edge["chosen"] = is_chosen
        name = explanation.get("id") if name is None else name
        values |= {"r": explanation.get("r"), "undirected": bool(explanation.undirected)}
        return cls(
            id=name if isinstance(name, str) and name else None,
            answer=explanation.caption(),
            outputs=list(explanation.get("class_names") or []),
            **values,
        )


class ExplanationValues(PredictionValues):
    """A prediction and the scores of the edges behind it."""

    model_config = ConfigDict(extra="allow")

    found: bool = Field(description="Whether any edge stands out.")
    message: str = Field(description="The same in words.")
    stability: float | None = Field(
        default=None,
        description="Agreement of ensemble members or snapshots about the scores, at most 1.",
    )
    necessary: bool | None = Field(
        default=None, description="Whether the prediction changes without the explanation."
    )
    sufficient: bool | None = Field(
        default=None, description="Whether the prediction stays with the explanation alone."
    )
    edges: list[Edge] = Field(description="In the order of the graph that was sent.")


class ItemProblem(BaseModel):
    """An invalid item among valid ones."""

    error: str


class Predictions(BaseModel):
    """One entry for each graph or molecule, in the order of the request."""

    results: list[PredictionValues | ItemProblem]


class Explanations(BaseModel):
    """One entry for each graph or molecule, in the order of the request."""

    results: list[ExplanationValues | ItemProblem]


class Patterns(BaseModel):
    """Recurring fragments, by predicted class."""

    groups: list[PatternGroup]
