"""The application: routes, errors as JSON or as a page, and the guard in front of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from gsat.core.errors import DataNotFoundError, GSATError, RunError, shown
from gsat.web.api import add_question, make_api
from gsat.web.errors import RequestError
from gsat.web.guard import Guard, error_body
from gsat.web.pages import error_page, make_pages
from gsat.web.service import Service

TITLE: Final = "gsat"
ABOUT: Final = (
    "Predictions of graph neural networks, and the edges behind them. Errors are JSON with a "
    "status and a line that says what was needed and what came."
)


def make_app(service: Service, *, page: bool = True) -> Guard:
    """Make the application."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        service.batcher.start()
        yield
        await service.batcher.stop()

    from gsat import __version__

    app = FastAPI(
        title=TITLE,
        description=ABOUT,
        version=__version__,
        lifespan=lifespan,
        openapi_url="/api/openapi.json",
        docs_url=None,  # its scripts would come from elsewhere
        redoc_url=None,
    )
    app.include_router(make_api(service))
    if page:
        app.include_router(make_pages(service), include_in_schema=False)
    describe = app.openapi
    app.openapi = lambda: add_question(describe())  # type: ignore[method-assign]
    _add_errors(app)
    return Guard(app, service.policy, service.limits, service.metrics)


def _add_errors(app: FastAPI) -> None:
    """Answer errors in the form that was asked for."""

    @app.exception_handler(GSATError)
    async def ours(request: Request, error: Exception) -> Response:
        return _problem(request, _status(error), str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: Exception) -> Response:
        first: dict[str, Any] = error.errors()[0]  # type: ignore[attr-defined]
        where = ".".join(str(part) for part in first["loc"][1:])
        what = first["msg"][:1].lower() + first["msg"][1:]
        return _problem(
            request, 422, f"'{shown(where, 60)}': {what}, not {shown(first.get('input'), 60)}"
        )

    @app.exception_handler(Exception)  # which the guard logs
    async def unexpected(request: Request, error: Exception) -> Response:
        return _problem(request, 500, "an error in gsat itself; the service has logged it")

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: Exception) -> Response:
        status = int(getattr(error, "status_code", 500))
        texts = {404: f"there is nothing at {shown(request.url.path, 80)}",
                 405: f"{request.method} is not possible here"}  # fmt: skip
        answer = _problem(request, status, texts.get(status, str(getattr(error, "detail", ""))))
        for name, value in (getattr(error, "headers", None) or {}).items():
            answer.headers[name] = value
        return answer


def _status(error: Exception) -> int:
    if isinstance(error, RequestError):
        return error.status
    if isinstance(error, DataNotFoundError):
        return 404
    return 409 if isinstance(error, RunError) else 422


def _problem(request: Request, status: int, message: str) -> Response:
    wants_page = "text/html" in request.headers.get("accept", "")
    if wants_page and not request.url.path.startswith("/api"):
        return error_page(status, message)
    return Response(error_body(status, message), status, media_type="application/json")
