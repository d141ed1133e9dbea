"""The application: routes, errors as JSON or as a page, and the guard in front of them."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from gsat.core.errors import DataNotFoundError, GSATError, RunError, shown
from gsat.web.api import make_api
from gsat.web.batching import Batcher
from gsat.web.guard import INTERNAL, Guard, Policy, problem
from gsat.web.library import RunLibrary
from gsat.web.metrics import Metrics
from gsat.web.pages import error_page, make_pages
from gsat.web.requests import RequestError, in_one_line

DESCRIPTION: Final = (
    "Predictions of graph neural networks, and scores of the edges that explain them. Errors are "
    "JSON with a status and a message of one line."
)


def make_app(library: RunLibrary, policy: Policy | None = None, *, pages: bool = True) -> Guard:
    """Make the application for runs."""
    from gsat import __version__

    limits, metrics = library.limits, Metrics()
    batcher = Batcher(limits, metrics)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        batcher.start()
        # A thread of its own: the executor's threads are waited for at the end.
        threading.Thread(target=library.load_one, daemon=True).start()
        yield
        await batcher.stop()

    app = FastAPI(
        title="gsat",
        description=DESCRIPTION,
        version=__version__,
        lifespan=lifespan,
        openapi_url="/api/openapi.json",
        docs_url=None,  # they load scripts from other sites
        redoc_url=None,
    )
    app.state.limits = limits
    app.include_router(make_api(library, batcher, metrics))
    if pages:
        app.include_router(make_pages(library), include_in_schema=False)
    _add_errors(app, library)
    return Guard(app, policy or Policy(), limits, metrics)


def _add_errors(app: FastAPI, library: RunLibrary) -> None:
    @app.exception_handler(GSATError)
    async def user_error(request: Request, error: GSATError) -> Response:
        status = 409 if isinstance(error, RunError) else 422
        if isinstance(error, RequestError):
            status = error.status
        elif isinstance(error, DataNotFoundError):
            status = 404
        return _response(request, status, library.explain_error(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return _response(request, 422, in_one_line(error.errors()[0], skip=1))

    @app.exception_handler(Exception)  # the guard logs it
    async def internal(request: Request, error: Exception) -> Response:
        return _response(request, 500, INTERNAL)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        messages = {
            404: f"there is nothing at {shown(request.url.path, 80)}",
            405: f"{request.method} is not possible here",
        }
        message = messages.get(error.status_code, str(error.detail))
        response = _response(request, error.status_code, message)
        response.headers.update(error.headers or {})
        return response


def _response(request: Request, status: int, message: str) -> Response:
    wants_page = "text/html" in request.headers.get("accept", "")
    if wants_page and not request.url.path.startswith("/api"):
        return error_page(status, message)
    return problem(status, message)
