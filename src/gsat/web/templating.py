"""Templates of the page; all that comes from data is escaped."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from fastapi import Response
from jinja2 import Environment, PackageLoader, StrictUndefined


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("gsat.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["number"] = number
    made.filters["duration"] = duration
    return made


def number(value: float | None, digits: int = 3) -> str:
    """Write a number for people; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.{digits}f}"


def duration(seconds: float) -> str:
    """Write a time for people."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {whole % 60:02d} s"


def render(name: str, status: int = 200, **values: Any) -> Response:
    """Answer with a page, or a part of one."""
    text = _environment().get_template(name).render(**values)
    return Response(text, status, media_type="text/html")
