"""The JSON API."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from gsat.core.errors import GSATError
from gsat.web.answers import (
    error_values,
    explanation_values,
    json_bytes,
    model_values,
    pattern_values,
    prediction_values,
    row_values,
    run_values,
)
from gsat.web.audits import read_audit
from gsat.web.curves import curve_values
from gsat.web.errors import BadInputError, NotFoundError
from gsat.web.inputs import Question, parse_question
from gsat.web.loaded import SPLITS, LoadedRun
from gsat.web.metrics import CONTENT_TYPE
from gsat.web.queries import PAGE, Rows
from gsat.web.scored import Filter
from gsat.web.service import Service

MOST_ROWS: Final = 1000
Name = Annotated[str, Path(description="The name of a run, as in /api/runs.", max_length=100)]
Split = Annotated[str, Path(description=f"One of {', '.join(SPLITS)}.", max_length=20)]
Number = Annotated[int, Path(description="A graph, or node, of the split.", ge=0, lt=2**31)]
InSplit = Annotated[str, Query(alias="split", description=f"One of {', '.join(SPLITS)}.")]


class Problem(BaseModel):
    """An error."""

    status: int = Field(description="The HTTP status.")
    error: str = Field(description="What was needed and what came, in one line.")


class Edge(BaseModel):
    """An edge with its score."""

    model_config = ConfigDict(extra="allow")

    source: int = Field(description="The node it comes from.")
    target: int = Field(description="The node it goes to.")
    score: float = Field(description="The probability with which the model keeps it.")


class ExplanationOut(BaseModel):
    """A prediction and the scores of the edges behind it."""

    model_config = ConfigDict(extra="allow")

    id: str | None = Field(description="The identifier of the graph.")
    answer: str = Field(description="The prediction in words.")
    outputs: list[str] = Field(description="Names of the classes, labels or numbers.")
    prediction: Any = Field(None, description="The class, the labels or the number.")
    probabilities: list[float] | None = Field(None, description="One per class or label.")
    confidence: float | None = Field(None, description="The highest of them.")
    found: bool = Field(description="Whether any edge stands out.")
    message: str = Field(description="The same in words.")
    stability: float | None = Field(
        None, description="Agreement of ensemble members or snapshots about the scores, at most 1."
    )
    necessary: bool | None = Field(
        None, description="Whether the prediction changes without the explanation."
    )
    sufficient: bool | None = Field(
        None, description="Whether the prediction stays with the explanation alone."
    )
    edges: list[Edge] = Field(description="In the order of the graph that was sent.")


class Explanations(BaseModel):
    """One entry for each graph or molecule, in the order of the request."""

    results: list[ExplanationOut | dict[str, str]] = Field(
        description="Explanations; {'error': …} for one that could not be used, among others."
    )


_PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": Problem, "description": text}
    for status, text in (
        (400, "The body is not JSON."),
        (401, "A token is needed."),
        (403, "The request comes from another site."),
        (404, "There is no such run, split or graph."),
        (408, "The body came too slowly."),
        (413, "The request is too large."),
        (421, "The Host header names another service."),
        (422, "What was sent can't be used."),
        (503, "Too many requests are waiting, or the time is up."),
    )
}
_BODY: Final = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Question"}}},
    }
}


def answered(values: Any, status: int = 200) -> Response:
    """Answer with JSON."""
    return Response(json_bytes(values), status, media_type="application/json")


def make_api(service: Service) -> APIRouter:
    """Make the routes of the API."""
    router = APIRouter(responses=_PROBLEMS)
    library = service.library

    @router.get("/healthz", tags=["service"])
    def healthz() -> Response:
        """Say that the service is up, and how many runs it shows."""
        return answered({"status": "ok", "runs": len(library.entries())})

    @router.get("/metrics", tags=["service"], response_class=Response)
    def metrics() -> Response:
        """Counters, as Prometheus reads them."""
        service.metrics.runs.set(len(library.entries()))
        return Response(service.metrics.text(), headers={"content-type": CONTENT_TYPE})

    @router.get("/api/runs", tags=["runs"])
    def runs() -> Response:
        """List the runs."""
        return answered({"runs": [run_values(entry) for entry in library.entries()]})

    @router.get("/api/runs/{run}", tags=["runs"])
    def one_run(run: Name) -> Response:
        """Say what was trained on what, how well it did, and what its model needs."""
        entry, loaded = library.entry(run), library.open(run)
        values = {**run_values(entry), "splits": list(SPLITS)}
        if loaded.run.finished:
            values |= {"valid": loaded.run.valid, "best_epoch": loaded.run.result["best_epoch"]}
        try:
            values["model"] = model_values(loaded)
        except GSATError as error:  # it has not come to its first epoch
            values |= {"model": None, "note": str(error)}
        return answered(values)

    @router.get("/api/runs/{run}/curves", tags=["runs"])
    def curves(run: Name) -> Response:
        """Metrics of every epoch so far."""
        return answered(curve_values(library.open(run).run.log))

    @router.get("/api/runs/{run}/graphs", tags=["graphs"])
    def graphs(
        run: Name, rows: Rows, split: InSplit = "test", offset: _Offset = 0, limit: _Limit = PAGE
    ) -> Response:
        """List graphs (or nodes) of a split with the answers: filtered, sorted, searched."""
        loaded = library.open(run)
        return answered(_listed(loaded, split, rows, offset, limit))

    @router.get("/api/runs/{run}/graphs/{split}/{number}", tags=["graphs"])
    def one_graph(run: Name, split: Split, number: Number) -> Response:
        """Return a graph of a split: its edges and features, and what is known of it."""
        loaded = library.open(run)
        scored, place = loaded.row(split, number)
        data = scored.store[int(scored.graph[place])]
        values: dict[str, Any] = {
            "num_nodes": int(data.num_nodes),
            "edges": data.edge_index.T.tolist(),
        }
        for name in ("x", "edge_attr", "edge_weight", "edge_truth"):
            if data.get(name) is not None:
                values[name] = data[name].tolist()
        described = row_values(scored, place, loaded.outputs)
        return answered({**described, "input": values})

    @router.get("/api/runs/{run}/predictions", tags=["predictions"])
    def predictions(
        run: Name, split: InSplit = "test", offset: _Offset = 0, limit: _Limit = PAGE
    ) -> Response:
        """Predictions for graphs (or nodes) of a split."""
        return answered(_listed(library.open(run), split, Filter(), offset, limit))

    @router.get(
        "/api/runs/{run}/explanations/{split}/{number}",
        tags=["explanations"],
        responses={200: {"model": ExplanationOut}},
    )
    def explanation(
        run: Name,
        split: Split,
        number: Number,
        top: Annotated[
            str | None, Query(max_length=20, description="Mark the top edges: 6, or 20%.")
        ] = None,
    ) -> Response:
        """Explain a graph (or node) of a split."""
        loaded = library.open(run)
        found = loaded.explanation(split, number)
        scored, place = loaded.row(split, number)
        return answered(explanation_values(found, top, scored.title(place)))

    @router.post(
        "/api/runs/{run}/explanations",
        tags=["explanations"],
        responses={200: {"model": Explanations}},
        openapi_extra=_BODY,
    )
    async def explain(run: Name, request: Request) -> Response:
        """Explain graphs or molecules that are sent, one or many."""
        asked = parse_question(await request.body(), service.limits)
        found = await service.batcher.answer(library.open(run), asked)
        return answered(
            {
                "results": [
                    error_values(one)
                    if isinstance(one, GSATError)
                    else explanation_values(one, asked.top)
                    for one in found
                ]
            }
        )

    @router.post("/api/runs/{run}/predictions", tags=["predictions"], openapi_extra=_BODY)
    async def predict(run: Name, request: Request) -> Response:
        """Predict graphs or molecules that are sent, one or many."""
        asked = parse_question(await request.body(), service.limits)
        found = await service.batcher.answer(library.open(run), asked)
        return answered(
            {
                "results": [
                    error_values(one) if isinstance(one, GSATError) else prediction_values(one)
                    for one in found
                ]
            }
        )

    @router.get("/api/runs/{run}/patterns", tags=["explanations"])
    def patterns(run: Name, split: InSplit = "test") -> Response:
        """Fragments of molecules that recur in the explanations of a split, by predicted class."""
        loaded = library.open(run)
        if not loaded.split(split).smiles:
            raise NotFoundError("there are no patterns: the graphs of this run are no molecules")
        return answered({"groups": pattern_values(loaded.patterns(split))})

    @router.get("/api/runs/{run}/audit", tags=["runs"])
    def audit(run: Name) -> Response:
        """The last audit of a run: verdict, evidence and measures."""
        values = read_audit(library.entry(run).path)
        if values is None:
            raise NotFoundError(f"the run '{run}' was not audited yet")
        return answered(values)

    return router


_Offset = Annotated[int, Query(ge=0, lt=2**31, description="How many to leave out.")]
_Limit = Annotated[int, Query(ge=1, le=MOST_ROWS, description="How many to return.")]


def add_question(schema: dict[str, Any]) -> dict[str, Any]:
    """Add the form of a question to the description of the API."""
    made = Question.model_json_schema(ref_template="#/components/schemas/{model}")
    parts = schema.setdefault("components", {}).setdefault("schemas", {})
    parts.update(made.pop("$defs", {}))
    parts["Question"] = made
    return schema


def _listed(loaded: LoadedRun, split: str, rows: Filter, offset: int, limit: int) -> dict[str, Any]:
    scored = loaded.split(split)
    found = scored.rows(rows)
    if offset and offset >= len(found):
        raise BadInputError(f"there are {len(found)} rows; 'offset' is {offset}")
    chosen = found[offset : offset + limit].tolist()
    return {
        "total": len(found),
        "offset": offset,
        "graphs": [row_values(scored, row, loaded.outputs) for row in chosen],
    }
