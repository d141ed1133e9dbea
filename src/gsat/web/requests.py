"""Requests: limits, errors, and models of bodies and queries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from gsat.core.errors import GSATError, shown
from gsat.core.parsing import ParseError, parse_json

SPLITS: Final = ("test", "valid", "train", "all")
PAGE: Final = 24  # graphs on a page
MAX_ROWS: Final = 1000
MAX_SEARCH: Final = 500  # characters


@dataclass(frozen=True)
class Limits:
    """Limits of the service."""

    body_bytes: int = 8 << 20
    graphs: int = 1000  # or molecules, of one request
    nodes: int = 10_000  # of one graph
    edges: int = 100_000  # of one graph
    characters: int = 2000  # of one SMILES
    items: int = 250_000  # lists and objects in the JSON of one request
    total_nodes: int = 100_000  # of all graphs of one request; characters of all SMILES
    total_edges: int = 200_000  # of all graphs of one request
    head_bytes: int = 64 << 10  # of a request: address, headers and trailers
    connections: int = 1000  # open at the same time
    pipelined: int = 16  # requests sent on one connection before the first is answered
    small_bytes: int = 64 << 10  # larger bodies are handled one after another
    held_bytes: int = 32 << 20  # of all larger bodies in memory
    parsed_bytes: int = 32 << 20  # of all smaller bodies, when they are parsed
    working: int = 8  # threads that compute pages and rows of splits
    wait_seconds: float = 3.0  # for one's turn; then 503
    seconds: float = 60.0  # until the response
    body_seconds: float = 15.0  # for receiving the body
    header_seconds: float = 10.0  # for receiving the headers
    waiting: int = 512  # requests in the queue for the model
    batch_graphs: int = 256  # graphs computed together
    batch_edges: int = 20_000  # and their edges: other requests compute in between
    smiles_seconds: float = 2.0  # for reading a part of the molecules of a request
    search_seconds: float = 5.0  # for a search for substructures
    runs: int = 8  # runs in memory
    cache_bytes: int = 256 << 20  # scores and pictures in memory, per run


# -- errors ---------------------------------------------------------------------------------------


class RequestError(GSATError):
    """A request can't be answered; its status says why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


_PATH: Final = re.compile(r"(?<![\w.:/])/([^/\s'\",;:]+)/(?:[^/\s'\",;:]+/)*([^/\s'\",;:]*)")


def without_folders(message: str, folders: Iterable[Path] = ()) -> str:
    """Shorten absolute paths in a message to the names of their files.

    ``folders`` may have names with spaces; other paths begin with a folder that exists.
    """
    for folder in folders:
        message = message.replace(f"{folder}/", "").replace(str(folder), folder.name)

    def shorten(match: re.Match[str]) -> str:
        return match[2] if Path("/", match[1]).is_dir() else match[0]  # a SMILES may have slashes

    return _PATH.sub(shorten, message)


class NotFoundError(RequestError):
    """There is no such run, graph or page."""

    def __init__(self, message: str) -> None:
        super().__init__(404, message)


class BadInputError(RequestError):
    """The input of a request is invalid."""

    def __init__(self, message: str) -> None:
        super().__init__(422, message)


def in_one_line(error: Mapping[str, Any], skip: int = 0) -> str:
    """Write an error of pydantic's validation; `skip` leaves out the first parts of the place."""
    where = ".".join(str(part) for part in error["loc"][skip:])
    prefix = f"'{shown(where, 60)}': " if where else ""
    if error["type"] == "value_error":  # raised by our validators; already complete
        return prefix + str(error["msg"]).removeprefix("Value error, ")
    message = error["msg"][:1].lower() + error["msg"][1:]
    return f"{prefix}{message}, not {shown(error.get('input'), 60)}"


# -- bodies ---------------------------------------------------------------------------------------


def _as_rows(value: Any) -> Any:
    """A list of numbers stands for a single column."""
    if isinstance(value, list) and value and not isinstance(value[0], list):
        return [[one] for one in value]
    return value


# Validation stops at the first error of a list: a body may contain millions of values.
Numbers = Annotated[list[float], Field(fail_fast=True)]
Rows = Annotated[list[Numbers], Field(fail_fast=True), BeforeValidator(_as_rows)]
Nodes = Annotated[list[int], Field(fail_fast=True)]
Pair = Annotated[list[int], Field(fail_fast=True, min_length=2, max_length=2)]
Smiles = Annotated[str, Field(min_length=1)]


class Body(BaseModel):
    """Base of request bodies: exact types, finite numbers, no other keys."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, values: Any) -> Any:
        """Stop at the first unknown key: there may be a million of them."""
        for key in values if isinstance(values, dict) else ():
            if key not in cls.model_fields:
                allowed = ", ".join(cls.model_fields)
                raise ValueError(f"'{shown(key, 40)}' is not a key; the keys are {allowed}")
        return values


class GraphInput(Body):
    """A graph, as in a line of a JSON-lines file (docs/data.md), without labels."""

    num_nodes: int | None = Field(default=None, ge=0, description="Number of nodes.")
    edges: Annotated[list[Pair], Field(fail_fast=True)] | None = Field(
        default=None, description="Pairs of nodes, numbered from 0."
    )
    edge_index: Annotated[list[Nodes], Field(fail_fast=True, max_length=2)] | None = Field(
        default=None, description="Sources and destinations, [2, E], instead of `edges`."
    )
    x: Rows | None = Field(default=None, description="Node features, [N, F].")
    edge_attr: Rows | None = Field(default=None, description="Edge features, [E, D].")
    edge_weight: Numbers | None = Field(default=None, description="Weight of each message, [E].")
    id: str | int | float | None = Field(
        default=None, description="Identifier, repeated in the response."
    )
    smiles: str | None = Field(
        default=None, description="SMILES whose atoms are the nodes, for pictures."
    )

    def values(self) -> dict[str, Any]:
        """The values that were sent."""
        return {key: value for key, value in self if value is not None}

    def check(self, number: int, limits: Limits) -> tuple[int, int]:
        """Count the nodes and edges; raise if the graph is too large."""
        ends: Sequence[Sequence[int]] = self.edges or self.edge_index or ()
        edges = len(ends) if self.edges else max(map(len, ends), default=0)
        highest = max((max(part) for part in ends if part), default=-1)
        nodes = self.num_nodes if self.num_nodes is not None else len(self.x or ())
        # Without a number of nodes, the highest node of an edge determines it.
        for what, count, most in (
            ("nodes", max(nodes, highest + 1), limits.nodes),
            ("edges", edges, limits.edges),
        ):
            if count > most:
                raise RequestError(
                    413, f"graph {number} has {shown(count, 40)} {what}; at most {most} are allowed"
                )
        return max(nodes, highest + 1), edges

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        if self.edges is not None:
            return len(self.edges)
        return max(map(len, self.edge_index or ()), default=0)


class Question(Body):
    """The items to predict or explain: exactly one of `graph`, `graphs` and `smiles`."""

    KINDS: ClassVar = ("graph", "graphs", "smiles")

    graph: GraphInput | None = Field(default=None, description="One graph.")
    graphs: Annotated[list[GraphInput], Field(fail_fast=True, min_length=1)] | None = Field(
        default=None, description="Several graphs."
    )
    smiles: Smiles | Annotated[list[Smiles], Field(fail_fast=True, min_length=1)] | None = Field(
        default=None, description="One molecule or several, for a model of molecules."
    )
    top: int | str | None = Field(
        default=None,
        description="Mark the highest-scored edges: a number, or a share such as '20%'.",
    )

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        sent = [kind for kind in self.KINDS if getattr(self, kind) is not None]
        if len(sent) != 1:
            raise ValueError(
                "exactly one of 'graph', 'graphs' and 'smiles' is needed, not "
                f"{' and '.join(sent) or 'none of them'}"
            )
        return self

    @property
    def items(self) -> Sequence[GraphInput | str]:
        """The graphs, or the SMILES."""
        if self.graph is not None:
            return [self.graph]
        if self.graphs is not None:
            return self.graphs
        return [self.smiles] if isinstance(self.smiles, str) else self.smiles or []

    @property
    def molecules(self) -> bool:
        """Whether the items are SMILES."""
        return self.smiles is not None

    def check(self, limits: Limits) -> None:
        """Raise if there is more than one request may contain."""
        if len(self.items) > limits.graphs:
            raise RequestError(
                413, f"{len(self.items)} items were sent; at most {limits.graphs} are allowed"
            )
        nodes = edges = 0
        for number, item in enumerate(self.items):
            if isinstance(item, GraphInput):
                more_nodes, more_edges = item.check(number, limits)
                nodes, edges = nodes + more_nodes, edges + more_edges
            else:
                nodes += len(item)
            if nodes > limits.total_nodes or edges > limits.total_edges:
                raise RequestError(
                    413,
                    f"all items together have more than {limits.total_nodes} nodes (characters of "
                    f"SMILES) or {limits.total_edges} edges; send them in several requests",
                )
            if isinstance(item, GraphInput):
                continue
            if len(item) > limits.characters:
                raise RequestError(
                    413,
                    f"molecule {number} has {len(item)} characters; at most {limits.characters} "
                    "are allowed",
                )


def read_question(body: bytes, limits: Limits) -> Question:
    """Parse and check a body; its lists and objects are counted before any is made."""
    items = body.count(b"[") + body.count(b"{")
    if items > limits.items:
        raise RequestError(
            413, f"the body has {items} lists and objects; at most {limits.items} are allowed"
        )
    try:
        values = parse_json(body)
    except ParseError as error:
        raise RequestError(400, f"the body can't be parsed: {error}") from None
    try:
        question = Question.model_validate(values)
    except ValidationError as error:
        raise BadInputError(in_one_line(error.errors(include_url=False)[0])) from None
    question.check(limits)
    return question


# -- queries --------------------------------------------------------------------------------------


def _empty_is_none(value: Any) -> Any:
    """A form sends an empty text for a field that is not filled in."""
    return None if value == "" else value


Share = Annotated[float, Field(ge=0, le=1)]
Class = Annotated[Annotated[int, Field(ge=0, lt=2**31)] | None, BeforeValidator(_empty_is_none)]
Sort = Literal["number", "confidence", "auc", "error", "value", "nodes", "edges"]
SORTS: Final = get_args(Sort)


class Filter(BaseModel):
    """Rows of a split to show, and their order."""

    model_config = ConfigDict(frozen=True)

    predicted: Class = Field(default=None, description="Number of the predicted class.")
    true: Class = Field(default=None, description="Number of the true class.")
    right: Literal["", "yes", "no"] = Field(
        default="", description="Whether the prediction is right."
    )
    min_confidence: Share = 0.0
    max_confidence: Share = 1.0
    min_auc: Share = 0.0
    max_auc: Share = 1.0
    search: str = Field(
        default="",
        max_length=MAX_SEARCH,
        description="A number, an identifier, or a SMILES to contain.",
    )
    sort: Sort = Field(default="number", description="What to sort by.")
    descending: bool = Field(default=False, description="Highest first.")


class SplitQuery(BaseModel):
    """A split of the run's data."""

    split: str = Field(default="test", max_length=20, description=f"One of {', '.join(SPLITS)}.")


class PartQuery(SplitQuery):
    """A part of a long list."""

    offset: int = Field(default=0, ge=0, lt=2**31, description="How many rows to skip.")
    limit: int = Field(default=PAGE, ge=1, le=MAX_ROWS, description="How many rows to return.")


class GraphsQuery(Filter, PartQuery):
    """Rows of a split, filtered and sorted, one part at a time."""


class GalleryQuery(Filter, SplitQuery):
    """Rows of a split, filtered and sorted, one page at a time."""

    page: int = Field(default=1, ge=1, lt=2**20)

    @property
    def is_unfiltered(self) -> bool:
        """Whether all rows are wanted, in their own order."""
        return self.model_dump(include=set(Filter.model_fields)) == Filter().model_dump()
