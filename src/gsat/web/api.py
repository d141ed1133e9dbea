"""Routes of the JSON API."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Annotated, Any, Final

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, HTTPException, Path, Query, Request, Response
from fastapi.routing import APIRoute

from gsat.core.errors import GSATError
from gsat.explanation import Explanation
from gsat.web.batching import BUSY, Answer, Batcher
from gsat.web.cancellation import check_cancelled
from gsat.web.charts import curve_values, selected_epoch
from gsat.web.library import LoadedRun, RunLibrary
from gsat.web.metrics import CONTENT_TYPE, Metrics
from gsat.web.requests import (
    SPLITS,
    BadInputError,
    Filter,
    GraphsQuery,
    Limits,
    PartQuery,
    Question,
    RequestError,
    SplitQuery,
    read_question,
    without_folders,
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

_INLINE: Final = 8 << 10  # bytes of a body that is parsed at once, not in a thread
_FEW_EDGES: Final = 2000  # of answers that are written at once
_PARSERS: Final = CapacityLimiter(2)
_WORKING: Final = threading.BoundedSemaphore(Limits.working)
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


class _QuestionRequest(Request):
    """A request whose body is parsed strictly; a large one in a thread."""

    limits = Limits()

    async def json(self) -> Any:
        """Return the body as a checked :class:`Question`."""
        body = await self.body()
        try:
            if len(body) <= _INLINE:
                return read_question(body, self.limits)
            return await to_thread.run_sync(read_question, body, self.limits, limiter=_PARSERS)
        except RequestError as error:  # FastAPI hides any other exception
            raise HTTPException(error.status, str(error)) from None


class ServiceRoute(APIRoute):
    """A route that limits computing threads, and reads bodies whatever their content type says.

    A request is refused at once if too many others wait, and after a while if none of them ends.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        if not inspect.iscoroutinefunction(endpoint):
            endpoint = _taking_turns(endpoint)
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Make the function that handles a request."""
        handle = super().get_route_handler()
        needs_thread = not inspect.iscoroutinefunction(self.endpoint)

        async def limited(request: Request) -> Response:
            if needs_thread and to_thread.current_default_thread_limiter().available_tokens < 1:
                raise RequestError(503, BUSY)
            headers = [pair for pair in request.scope["headers"] if pair[0] != b"content-type"]
            headers.append((b"content-type", b"application/json"))
            scope = {**request.scope, "headers": headers}
            made = _QuestionRequest(scope, request.receive)
            made.limits = request.app.state.limits
            return await handle(made)

        return limited


def _taking_turns(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """Let an endpoint wait until few enough others compute."""

    @wraps(endpoint)
    def run(*arguments: Any, **options: Any) -> Any:
        if not _WORKING.acquire(timeout=Limits.wait_seconds):
            raise RequestError(503, BUSY)
        try:
            check_cancelled()
            return endpoint(*arguments, **options)
        finally:
            _WORKING.release()

    return run


def make_api(library: RunLibrary, batcher: Batcher, counters: Metrics) -> APIRouter:
    """Make the routes of the API."""
    router = APIRouter(responses=_PROBLEMS, route_class=ServiceRoute)

    @router.get("/healthz", tags=["service"])
    async def healthz() -> Health:
        """Whether the process answers, and how many runs it has."""
        return Health(runs=library.count)

    @router.get("/readyz", tags=["service"])
    async def readyz() -> Health:
        """Whether a run is loaded and few requests wait; else 503."""
        if not library.has_loaded:
            raise RequestError(503, "no run is loaded yet")
        if batcher.overloaded:
            raise RequestError(503, BUSY)
        return Health(runs=library.count)

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
            details |= {"model": None, "note": library.explain_error(error)}
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

    @router.post("/api/runs/{run}/explanations", tags=["explanations"], response_model=Explanations)
    async def explain(run: Name, question: Question) -> Response:
        """Explain graphs or molecules."""
        answers = await batcher.answer(await opened(run), question)
        return await _results(answers, lambda one: ExplanationValues.of(one, question.top))

    @router.post("/api/runs/{run}/predictions", tags=["predictions"], response_model=Predictions)
    async def predict(run: Name, question: Question) -> Response:
        """Predict graphs or molecules."""
        answers = await batcher.answer(await opened(run), question)
        return await _results(answers, PredictionValues.of)

    @router.get("/api/runs/{run}/patterns", tags=["explanations"])
    def patterns(run: Name, query: Annotated[SplitQuery, Query()]) -> Patterns:
        """Fragments that recur in the explanations of a split, by predicted class."""
        return Patterns(groups=list(library.open(run).patterns(query.split).groups))

    async def opened(name: str) -> LoadedRun:
        """Open a run; reading its files is left to a thread."""
        loaded = library.loaded(name)
        return await to_thread.run_sync(library.open, name) if loaded is None else loaded

    return router


async def _results(
    answers: list[Answer], describe: Callable[[Explanation], PredictionValues]
) -> Response:
    """Write answers as JSON, one at a time; many edges in a thread."""

    def text(answer: Answer) -> bytes:
        if isinstance(answer, GSATError):
            return ItemProblem(error=without_folders(str(answer))).model_dump_json().encode()
        return describe(answer).model_dump_json().encode()

    def write() -> bytes:
        return b'{"results":[' + b",".join(map(text, answers)) + b"]}"

    edges = sum(one.num_edges for one in answers if isinstance(one, Explanation))
    many = edges + 20 * len(answers) > _FEW_EDGES
    body = await to_thread.run_sync(write, limiter=_PARSERS) if many else write()
    return Response(body, media_type="application/json")


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
