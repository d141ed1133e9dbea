"""What a request sends: graphs or SMILES, checked before the model sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from gsat.core.errors import DataError, GSATError, shown
from gsat.core.parsing import ParseError, parse_json
from gsat.datasets.formats.jsonl import from_objects
from gsat.graphs import GraphStore
from gsat.graphs.validation import validate_graphs
from gsat.training.prediction_table import read_smiles
from gsat.web.errors import BadInputError, RequestError
from gsat.web.limits import Limits
from gsat.web.loaded import LoadedRun

# Keys of a graph that are input; labels and truths have no place in a question.
GRAPH_KEYS: Final = (
    "num_nodes", "edge_index", "edges", "x", "edge_attr", "edge_weight", "id", "smiles"
)  # fmt: skip


class GraphInput(BaseModel):
    """A graph, as a line of a JSON-lines file (docs/data.md)."""

    model_config = ConfigDict(extra="forbid")

    num_nodes: int | None = Field(None, ge=0, description="Number of nodes.")
    edges: list[tuple[int, int]] | None = Field(None, description="Pairs of nodes, from 0 on.")
    edge_index: list[list[int]] | None = Field(
        None, description="Sources and destinations, [2, E], in place of `edges`."
    )
    x: list[list[float]] | None = Field(None, description="Node features, [N, F].")
    edge_attr: list[list[float]] | None = Field(None, description="Edge features, [E, D].")
    edge_weight: list[float] | None = Field(None, description="A factor of each message, [E].")
    id: str | None = Field(None, description="An identifier, repeated in the answer.")
    smiles: str | None = Field(None, description="SMILES whose atoms are the nodes, for pictures.")


class Question(BaseModel):
    """What to predict or explain: exactly one of `graph`, `graphs` and `smiles`."""

    model_config = ConfigDict(extra="forbid")

    graph: GraphInput | None = Field(None, description="One graph.")
    graphs: list[GraphInput] | None = Field(None, description="Several graphs.")
    smiles: str | list[str] | None = Field(
        None, description="One molecule or several, for a model of molecules."
    )
    top: int | str | None = Field(
        None, description="Mark the highest-scored edges: a number, or a share such as '20%'."
    )


@dataclass(frozen=True)
class Asked:
    """A question that was parsed.

    Attributes:
        items: Graphs as plain objects, or SMILES.
        molecules: Whether they are SMILES.
        single: Whether one was asked for by itself.
        top: The budget of edges to mark, if any.
    """

    items: Sequence[Any]
    molecules: bool
    single: bool
    top: int | str | None = None


def parse_question(body: bytes, limits: Limits) -> Asked:
    """Parse the body of a request."""
    try:
        found = parse_json(body)
    except ParseError as error:
        raise RequestError(400, f"the body can't be used: {error}") from None
    if not isinstance(found, dict):
        raise BadInputError(f"the body must be a JSON object, not {_kind(found)}")
    known = tuple(Question.model_fields)
    for key in found:
        if key not in known:
            raise BadInputError(f"'{shown(key, 40)}' is not a key; the keys are {', '.join(known)}")
    given = [key for key in ("graph", "graphs", "smiles") if found.get(key) is not None]
    if len(given) != 1:
        came = " and ".join(given) or "none of them"
        raise BadInputError(f"exactly one of 'graph', 'graphs' and 'smiles' is needed, not {came}")
    (key,) = given
    value = found[key]
    single = key == "graph" or isinstance(value, str)
    items = [value] if single else value
    if not isinstance(items, list) or not items:
        wanted = "a SMILES or a list of them" if key == "smiles" else "a list of graphs"
        raise BadInputError(f"'{key}' must be {wanted}, not {_kind(items)}")
    if len(items) > limits.graphs:
        raise RequestError(413, f"{len(items)} came; at most {limits.graphs} fit into one request")
    for number, item in enumerate(items):
        check = _check_smiles if key == "smiles" else _check_graph
        check(item, number, limits)
    return Asked(items, key == "smiles", single, _budget(found.get("top")))


def to_store(loaded: LoadedRun, asked: Asked) -> GraphStore:
    """Make graphs of a question."""
    if asked.molecules:
        return read_smiles(loaded.model, asked.items)
    store = from_objects(asked.items)
    if not store.num_nodes and loaded.model.task.level == "node":
        raise DataError("the graph has no nodes; the model answers for nodes")
    validate_graphs(store, name="the graph" if asked.single else "the graphs")
    if loaded.model.network.get("categories"):
        store = _with_categories(store)
    loaded.model.check_fits(store)
    return store


def _with_categories(store: GraphStore) -> GraphStore:
    """Numbers that are whole as categories; JSON has one kind of number."""
    x = np.asarray(store.arrays["x"]) if store.has("x") else np.zeros(0)
    if not len(x) or (x != np.floor(x)).any():
        return store
    return GraphStore({**store.arrays, "x": x.astype(np.int64)}, store.meta, store.index)


def each_store(loaded: LoadedRun, asked: Asked) -> list[GraphStore | GSATError]:
    """Make a store of each item by itself, or the error that it causes."""
    out: list[GraphStore | GSATError] = []
    for item in asked.items:
        try:
            out.append(to_store(loaded, Asked([item], asked.molecules, True)))
        except GSATError as error:
            out.append(error)
    return out


def _check_smiles(item: Any, number: int, limits: Limits) -> None:
    if not isinstance(item, str) or not item.strip():
        raise BadInputError(f"molecule {number} must be a SMILES, not {_kind(item)}")
    if len(item) > limits.characters:
        raise RequestError(
            413, f"molecule {number} has {len(item)} characters, at most {limits.characters} fit"
        )


def _check_graph(item: Any, number: int, limits: Limits) -> None:
    if not isinstance(item, dict):
        raise BadInputError(f"graph {number} must be a JSON object, not {_kind(item)}")
    for key in item:
        if key not in GRAPH_KEYS:
            raise BadInputError(
                f"graph {number}: '{shown(key, 40)}' is not a key; the keys are "
                f"{', '.join(GRAPH_KEYS)}"
            )
    nodes, edges = item.get("num_nodes"), item.get("edges")
    index = item.get("edge_index")
    if not isinstance(nodes, int):
        rows = item.get("x")
        nodes = len(rows) if isinstance(rows, list) else 0
    count = len(edges) if isinstance(edges, list) else 0
    if isinstance(index, list):
        count = max([len(part) for part in index if isinstance(part, list)], default=0)
    for what, came, most in (("nodes", nodes, limits.nodes), ("edges", count, limits.edges)):
        if came > most:
            raise RequestError(413, f"graph {number} has {came} {what}; at most {most} are allowed")
    # Without a number of nodes, the highest one in an edge decides.
    listed = edges if isinstance(edges, list) else index if isinstance(index, list) else []
    ends = [v for part in listed if isinstance(part, list) for v in part]
    highest = max((v for v in ends if isinstance(v, int)), default=0)
    if highest >= limits.nodes:
        raise RequestError(
            413, f"graph {number} has a node {shown(highest, 40)}; at most {limits.nodes} fit"
        )


def _budget(top: Any) -> int | str | None:
    if top is None or (isinstance(top, int | str) and not isinstance(top, bool)):
        return top
    raise BadInputError(f"'top' is a number of edges (6) or a share ('20%'), not {_kind(top)}")


def _kind(value: Any) -> str:
    """Name what came, as JSON does."""
    if isinstance(value, str):
        return f"'{shown(value, 40)}'"
    names = {dict: "an object", list: "a list", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
