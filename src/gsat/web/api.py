"""Routes of the JSON API."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Final, TypeVar

from fastapi import APIRouter, HTTPException, Path, Query, Request, Response
from fastapi.routing import APIRoute

from gsat.core.errors import GSATError
from gsat.core.parsing import ParseError, parse_json
from gsat.explanation import Explanation
from gsat.web.batching import Answer, Batcher
from gsat.web.charts import curve_values, selected_epoch
from gsat.web.library import LoadedRun, RunLibrary
from gsat.web.metrics import CONTENT_TYPE, Metrics
from gsat.web.requests import (
    SPLITS,
    BadInputError,
    Filter,
    GraphsQuery,
    PartQuery,
    Question,
    SplitQuery,
)
from gsat.web.responses import (
    Curves,
    Explanations,
    ExplanationValues,
    GraphDetails,
    GraphRow,
    GraphRows,
    Health,
    ItemProblem,
    ModelValues,
    Patterns,
    Predictions,
    PredictionValues,
    Problem,
    RunDetails,
    Runs,
    RunValues,
)

T = TypeVar("T")
Name = Annotated[str, Path(description="The name of a run, as in /api/runs.", max_length=100)]
Split = Annotated[str, Path(description=f"One of {', '.join(SPLITS)}.", max_length=20)]
Number = Annotated[int, Path(description="A graph, or node, of the split.", ge=0, lt=2**31)]

_PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": Problem, "description": text}
    for status, text in (
        (400, "The body is not valid JSON."),
        (401, "A token is needed."),
        (403, "The request comes from another site."),
        (404, "There is no such run, split or graph."),
        (408, "The body arrived too slowly."),
        (409, "The run can't be used in this way."),
        (413, "The request is too large."),
        (421, "The Host header names another service."),
        (422, "The request is invalid."),
        (503, "Too many requests are waiting, or the time is up."),
    )
}


class _StrictRequest(Request):
    async def json(self) -> Any:
        """Parse the body by our strict parser: depth, repeated keys, size of numbers."""
        try:
            return parse_json(await self.body())
        except ParseError as error:
            raise HTTPException(400, f"the body can't be parsed: {error}") from None


class _StrictRoute(APIRoute):
    """A route whose body is JSON, whatever its content type says."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def strict(request: Request) -> Response:
            headers = [pair for pair in request.scope["headers"] if pair[0] != b"content-type"]
            headers.append((b"content-type", b"application/json"))
            scope = {**request.scope, "headers": headers}
            return await handle(_StrictRequest(scope, request.receive))

        return strict


def make_api(library: RunLibrary, batcher: Batcher, counters: Metrics) -> APIRouter:
    """Make the routes of the API."""
    router = APIRouter(responses=_PROBLEMS, route_class=_StrictRoute)

    @router.get("/healthz", tags=["service"])
    def healthz() -> Health:
        """Whether the service is up, and how many runs it has."""
        return Health(runs=len(library.entries()))

    @router.get("/metrics", tags=["service"], response_class=Response)
    def metrics() -> Response:
        """Counters for Prometheus."""
        counters.runs.set(len(library.entries()))
        return Response(counters.text(), headers={"content-type": CONTENT_TYPE})

    @router.get("/api/runs", tags=["runs"])
    def runs() -> Runs:
        """List the runs."""
        return Runs(runs=[RunValues.of(entry) for entry in library.entries()])

    @router.get("/api/runs/{run}", tags=["runs"])
    def one_run(run: Name) -> RunDetails:
        """Describe a run: data, method, metrics, and what its model needs."""
        entry, loaded = library.entry(run), library.open(run)
        details: dict[str, Any] = {"splits": SPLITS}
        if loaded.run.finished:
            details |= {"valid": loaded.run.valid, "best_epoch": loaded.run.result["best_epoch"]}
        try:
            details["model"] = ModelValues.of(loaded)
        except GSATError as error:  # the first epoch has not ended
            details |= {"model": None, "note": str(error)}
        return RunDetails.of(entry, **details)

    @router.get("/api/runs/{run}/curves", tags=["runs"], response_model=Curves)
    def curves(run: Name) -> Any:
        """Metrics of every epoch so far."""
        opened = library.open(run).run
        return {**curve_values(opened.log), "selected": selected_epoch(opened)}

    @router.get("/api/runs/{run}/audit", tags=["runs"])
    def audit(run: Name) -> dict[str, Any]:
        """The last audit of a run: verdict, evidence and measures."""
        return library.entry(run).read_audit()

    @router.get("/api/runs/{run}/graphs", tags=["graphs"])
    def graphs(run: Name, query: Annotated[GraphsQuery, Query()]) -> GraphRows:
        """List graphs (or nodes) of a split with predictions: filtered, sorted, searched."""
        return _rows(library.open(run), query, query)

    @router.get("/api/runs/{run}/graphs/{split}/{number}", tags=["graphs"])
    def one_graph(run: Name, split: Split, number: Number) -> GraphDetails:
        """Return a graph of a split: its edges, features, label and prediction."""
        loaded = library.open(run)
        scored, place = loaded.row(split, number)
        data = scored.store[int(scored.graph[place])]
        graph: dict[str, Any] = {
            "num_nodes": int(data.num_nodes),
            "edges": data.edge_index.T.tolist(),
        }
        for name in ("x", "edge_attr", "edge_weight", "edge_truth"):
            if data.get(name) is not None:
                graph[name] = data[name].tolist()
        return GraphDetails.of(scored, place, input=graph)

    @router.get("/api/runs/{run}/predictions", tags=["predictions"])
    def predictions(run: Name, query: Annotated[PartQuery, Query()]) -> GraphRows:
        """Predictions for graphs (or nodes) of a split."""
        return _rows(library.open(run), query, Filter())

    @router.get("/api/runs/{run}/explanations/{split}/{number}", tags=["explanations"])
    def explanation(
        run: Name,
        split: Split,
        number: Number,
        top: Annotated[
            str | None, Query(max_length=20, description="Mark the top edges: 6, or 20%.")
        ] = None,
    ) -> ExplanationValues:
        """Explain a graph (or node) of a split."""
        loaded = library.open(run)
        explained = loaded.explanation(split, number)
        scored, place = loaded.row(split, number)
        return ExplanationValues.of(explained, top, scored.title(place))

    @router.post("/api/runs/{run}/explanations", tags=["explanations"])
    async def explain(run: Name, question: Question) -> Explanations:
        """Explain graphs or molecules."""
        answers = await batcher.answer(library.open(run), question)
        return Explanations(
            results=_results(answers, lambda one: ExplanationValues.of(one, question.top))
        )

    @router.post("/api/runs/{run}/predictions", tags=["predictions"])
    async def predict(run: Name, question: Question) -> Predictions:
        """Predict graphs or molecules."""
        answers = await batcher.answer(library.open(run), question)
        return Predictions(results=_results(answers, PredictionValues.of))

    @router.get("/api/runs/{run}/patterns", tags=["explanations"])
    def patterns(run: Name, query: Annotated[SplitQuery, Query()]) -> Patterns:
        """Fragments that recur in the explanations of a split, by predicted class."""
        return Patterns(groups=list(library.open(run).patterns(query.split).groups))

    return router


def _results(answers: list[Answer], describe: Callable[[Explanation], T]) -> list[T | ItemProblem]:
    return [
        ItemProblem(error=str(one)) if isinstance(one, GSATError) else describe(one)
        for one in answers
    ]


def _rows(loaded: LoadedRun, part: PartQuery, query: Filter) -> GraphRows:
    scored = loaded.split(part.split)
    rows = scored.rows(query)
    if part.offset and part.offset >= len(rows):
        raise BadInputError(f"there are {len(rows)} rows; 'offset' is {part.offset}")
    chosen = rows[part.offset : part.offset + part.limit].tolist()
    return GraphRows(
        total=len(rows),
        offset=part.offset,
        graphs=[GraphRow.of(scored, row) for row in chosen],
    )
