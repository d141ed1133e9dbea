"""Errors of requests: a status, and a line that says what was needed and what came."""

from __future__ import annotations

from gsat.core.errors import GSATError


class RequestError(GSATError):
    """A request can't be answered."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class NotFoundError(RequestError):
    """There is no such run, graph or page."""

    def __init__(self, message: str) -> None:
        super().__init__(404, message)


class BadInputError(RequestError):
    """What was sent can't be used."""

    def __init__(self, message: str) -> None:
        super().__init__(422, message)
