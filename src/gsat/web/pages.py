"""Routes of the pages, and their templates."""

from __future__ import annotations

import hashlib
import math
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import resources
from pathlib import Path as FilePath
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, BackgroundTasks, Depends, Query, Request, Response
from fastapi.responses import RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from gsat.core.errors import GSATError
from gsat.draw.pages import pattern_values
from gsat.metric_names import shown_metrics
from gsat.study.cost import format_duration
from gsat.web import views
from gsat.web.api import Name, Number, ServiceRoute, Split
from gsat.web.compare import compare, comparison_values
from gsat.web.library import LoadedRun, RunLibrary
from gsat.web.pictures import without_styles
from gsat.web.requests import (
    PAGE,
    SPLITS,
    BadInputError,
    GalleryQuery,
    NotFoundError,
    RequestError,
    SplitQuery,
)
from gsat.web.user_input import (
    InputCard,
    InputTable,
    cached_table,
    example_graph,
    explain_json,
    explain_smiles,
    explain_table,
)

STATIC: Final = {"style.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
DOWNLOADS: Final = {
    "svg": "image/svg+xml",
    "png": "image/png",
    "json": "application/json",
    "csv": "text/csv",
}
MAX_COMPARED: Final = 4
_PAUSE, _PATIENCE = 0.2, 10.0  # seconds without requests before drawing ahead; at most this long
Top = Annotated[int, Query(ge=0, lt=2**31)]
Truth = Annotated[Literal["yes", "no"], Query()]
OfSplit = Annotated[SplitQuery, Query()]


async def _body(request: Request) -> bytes:
    """Read the body of a request, whatever its content type is."""
    return await request.body()


Body = Annotated[bytes, Depends(_body)]


def make_pages(library: RunLibrary) -> APIRouter:
    """Make the routes of the pages."""
    router = APIRouter(route_class=ServiceRoute)
    limits = library.limits

    def page(template: str, here: str, loaded: LoadedRun | None = None, **values: Any) -> Response:
        """Render a whole page, with its place in the navigation."""
        return render(
            template,
            here=here,
            run=loaded,
            several=len(library.entries()) > 1,
            has_patterns=loaded is not None and _has_patterns(loaded),
            has_audit=loaded is not None and library.entry(loaded.name).audit is not None,
            **values,
        )

    @router.get("/")
    def index() -> Response:
        entries = library.entries()
        if len(entries) == 1 and not library.is_folder:
            return RedirectResponse(f"/runs/{entries[0].name}", 302)
        return RedirectResponse("/runs", 302)

    @router.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in STATIC:
            raise NotFoundError("there is no such file")
        headers = {"cache-control": "max-age=3600"}
        return Response(_static_file(name), headers=headers, media_type=STATIC[name])

    @router.get("/runs")
    def runs(part: bool = False) -> Response:
        rows: list[dict[str, Any]] = [
            {
                "entry": entry,
                "summary": entry.summary,
                "scores": shown_metrics(entry.summary.test, has_truth=False),
                "audit": entry.audit,
            }
            for entry in library.entries()
        ]
        values: dict[str, Any] = {
            "rows": rows,
            "titles": list(dict.fromkeys(title for row in rows for title in row["scores"])),
            "live": any(row["summary"].state == "running" for row in rows),
        }
        if part:
            return render("_runs.html", **values)
        return page("runs.html", "runs", **values)

    @router.get("/runs/{run}")
    def overview(run: Name) -> Response:
        loaded, entry = library.open(run), library.entry(run)
        return page(
            "overview.html",
            "overview",
            loaded,
            summary=entry.summary,
            facts=views.facts(loaded),
            scores=views.score_table(loaded),
            charts=views.charts(loaded),
            audit=entry.audit,
            recipe=loaded.run.recipe.toml(),
        )

    @router.get("/runs/{run}/live")
    def live(run: Name) -> Response:
        loaded, entry = library.open(run), library.entry(run)
        return render("_curves.html", charts=views.charts(loaded), summary=entry.summary)

    @router.get("/runs/{run}/warnings")
    def warnings(run: Name) -> Response:
        return render("_warnings.html", warnings=views.warnings(library.open(run)))

    @router.get("/runs/{run}/confusion")
    def confusion(run: Name, query: OfSplit) -> Response:
        loaded = library.open(run)
        scored = loaded.split(query.split)
        return render(
            "_confusion.html",
            run=loaded,
            split=query.split,
            scored=scored,
            matrix=views.confusion(scored),
            scatter=views.predicted_against_true(scored),
        )

    @router.get("/runs/{run}/graphs")
    def gallery(
        run: Name,
        query: Annotated[GalleryQuery, Query()],
        request: Request,
        tasks: BackgroundTasks,
    ) -> Response:
        loaded, split = library.open(run), query.split
        rows: Sequence[int] = []
        problem = ""
        if query.page == 1 and query.is_unfiltered:
            scored, size = loaded.first_rows(split, PAGE)
            rows = range(size)
        else:
            scored = loaded.split(split)
            size = len(scored)
            try:
                rows = scored.rows(query).tolist()
            except BadInputError as error:
                problem = library.explain_error(error)
        pages = max(1, -(-len(rows) // PAGE))
        number = min(query.page, pages)
        loaded.last_thumbnail_request = time.monotonic()
        # Score the whole split and draw the next page while the user looks at this one.
        tasks.add_task(_draw_ahead, loaded, split, rows[number * PAGE : (number + 1) * PAGE])
        has_truth = scored.has_truth or (len(scored) < size and scored.store.has("edge_truth"))
        response = page(
            "gallery.html",
            "graphs",
            loaded,
            split=split,
            splits=SPLITS,
            query=query,
            sorts=views.sort_titles(scored, has_truth),
            scored=scored,
            size=size,
            has_truth=has_truth,
            places=rows[(number - 1) * PAGE : number * PAGE],
            total=len(rows),
            page=number,
            pages=pages,
            problem=problem,
            link=lambda other: _address(request, page=other),
        )
        response.background = tasks
        return response

    @router.get("/runs/{run}/graphs/{split}/{number}/thumb.svg")
    def thumb(run: Name, split: Split, number: Number) -> Response:
        loaded = library.open(run)
        loaded.last_thumbnail_request = time.monotonic()
        svg = views.thumbnail(loaded, split, number)
        headers = {"cache-control": "private, max-age=60"}
        return Response(svg, headers=headers, media_type="image/svg+xml")

    @router.get("/runs/{run}/graphs/{split}/{number}")
    def graph(
        run: Name, split: Split, number: Number, top: Top = 0, truth: Truth = "yes"
    ) -> Response:
        loaded = library.open(run)
        values = views.graph_values(loaded, split, number, top, truth == "yes")
        return page("graph.html", "graphs", loaded, **values)

    @router.get("/runs/{run}/graphs/{split}/{number}/picture")
    def picture(
        run: Name, split: Split, number: Number, top: Top = 0, truth: Truth = "yes"
    ) -> Response:
        values = views.picture_values(library.open(run), split, number, top, truth == "yes")
        return render("_picture.html", **values)

    @router.get("/runs/{run}/graphs/{split}/{number}/similar")
    def similar(run: Name, split: Split, number: Number) -> Response:
        loaded = library.open(run)
        nearest, scored = loaded.similar(split, number), loaded.split(split)
        return render("_similar.html", run=loaded, split=split, nearest=nearest, scored=scored)

    @router.get("/runs/{run}/graphs/{split}/{number}/download/{kind}")
    def download(
        run: Name,
        split: Split,
        number: Number,
        kind: Literal["svg", "png", "json", "csv"],
        top: Top = 0,
    ) -> Response:
        explanation = library.open(run).explanation(split, number)
        with tempfile.TemporaryDirectory(prefix="gsat-") as folder:
            path = explanation.save(FilePath(folder) / f"graph.{kind}", top=top or None)
            content = path.read_bytes()
        return _attachment(content, f"{run}-{split}-{number}.{kind}", DOWNLOADS[kind])

    @router.get("/compare")
    def comparison(
        run: Annotated[list[str], Query(max_length=MAX_COMPARED)],
        split: Annotated[str, Query(max_length=20)] = "test",
        row: Annotated[int | None, Query(ge=0, lt=2**31)] = None,
        page_number: Annotated[int, Query(alias="page", ge=1, lt=2**20)] = 1,
    ) -> Response:
        compared = compare([library.open(name) for name in dict.fromkeys(run)], split)
        values = comparison_values(compared, split, row, page_number)
        return page("compare.html", "compare", splits=SPLITS, **values)

    @router.get("/runs/{run}/patterns")
    def patterns(run: Name, query: OfSplit) -> Response:
        loaded = library.open(run)
        report = loaded.patterns(query.split)
        values = pattern_values(report.groups, report.molecules, report.info)
        return page("patterns.html", "patterns", loaded, split=query.split, splits=SPLITS, **values)

    @router.get("/runs/{run}/audit")
    def audit(run: Name) -> Response:
        loaded, entry = library.open(run), library.entry(run)
        entry.read_audit()  # raises without an audit
        return page("audit.html", "audit", loaded, audit=entry.audit)

    @router.get("/runs/{run}/try")
    def try_own(run: Name, smiles: Annotated[str, Query(max_length=4000)] = "") -> Response:
        loaded = library.open(run)
        cards, problem = [], ""
        if smiles.strip():
            try:
                cards = explain_smiles(loaded, smiles)
            except GSATError as error:
                problem = library.explain_error(error)
        return page(
            "try.html",
            "try",
            loaded,
            smiles=smiles,
            cards=cards,
            problem=problem,
            table=None,
            example=example_graph(loaded),
            limits=limits,
        )

    @router.post("/runs/{run}/try")
    def try_graph(run: Name, body: Body) -> Response:
        loaded = library.open(run)
        try:
            cards = explain_json(loaded, body)
        except GSATError as error:
            return answers(loaded, problem=library.explain_error(error))
        return answers(loaded, cards)

    @router.post("/runs/{run}/try/table")
    def try_table(
        run: Name, body: Body, name: Annotated[str, Query(max_length=200)] = "table.csv"
    ) -> Response:
        loaded = library.open(run)
        try:
            table = explain_table(loaded, name, body)
        except GSATError as error:
            return answers(loaded, problem=library.explain_error(error))
        return answers(loaded, table.cards, table)

    def answers(
        loaded: LoadedRun,
        cards: Sequence[InputCard] = (),
        table: InputTable | None = None,
        problem: str = "",
    ) -> Response:
        """Show answers to the user's input, or what is wrong with it."""
        status = 422 if problem else 200
        values = {"cards": cards, "table": table, "problem": problem}
        return render("_answers.html", status, run=loaded, **values)

    @router.get("/runs/{run}/try/table/{key}.csv")
    def table(run: Name, key: str) -> Response:
        predicted = cached_table(library.open(run), key[:64])
        return _attachment(predicted.to_csv().encode(), f"{run}-predictions.csv", "text/csv")

    return router


def error_page(status: int, message: str) -> Response:
    """Show an error as a page."""
    return render("error.html", status, code=status, message=message)


def _attachment(content: bytes, name: str, kind: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(content, headers=headers, media_type=kind)


def _draw_ahead(loaded: LoadedRun, split: str, rows: Sequence[int]) -> None:
    """Score a split and draw thumbnails in advance, while no request waits for one."""
    until = time.monotonic() + _PATIENCE

    def pause() -> None:
        while time.monotonic() < min(loaded.last_thumbnail_request + _PAUSE, until):
            time.sleep(_PAUSE / 4)

    pause()
    with suppress(RequestError):  # the service is stopping
        loaded.split(split)
        for row in rows:
            pause()
            views.thumbnail(loaded, split, row)


def _has_patterns(loaded: LoadedRun) -> bool:
    """Whether the graphs are molecules, as far as is known without loading them."""
    try:
        dataset = loaded.run.loaded_dataset
        molecules = loaded.takes_smiles or (dataset is not None and dataset.store.has("smiles"))
        return molecules and loaded.task.level == "graph"
    except GSATError:  # there is no model yet
        return False


def _address(request: Request, **changes: Any) -> str:
    """The address of this page with other values."""
    pairs = [(key, value) for key, value in request.query_params.multi_items() if value != ""]
    kept = [(key, value) for key, value in pairs if key not in changes]
    return "?" + urlencode([*kept, *((key, str(value)) for key, value in changes.items())])


# -- templates ------------------------------------------------------------------------------------


def render(template: str, status: int = 200, **values: Any) -> Response:
    """Render a template: a page, or a part of one."""
    text = _environment().get_template(template).render(values)
    return Response(text, status, media_type="text/html")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("gsat.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": _number,
        "duration": format_duration,
        "set_name": _set_name,
        "without_styles": without_styles,
    }
    environment.tests["finite"] = math.isfinite
    navigation = {"here": "", "run": None, "several": True, "has_patterns": False}
    environment.globals |= {**navigation, "has_audit": False, "version": _version()}
    return environment


def _number(value: float | None, digits: int = 3) -> str:
    """Write a number; a dash for None and NaN."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.{digits}f}"


def _set_name(split: str) -> str:
    return "whole data set" if split == "all" else f"{split} set"


@cache
def _static_file(name: str) -> bytes:
    return (resources.files("gsat.web") / "static" / name).read_bytes()


@cache
def _version() -> str:
    """Hash of the static files, so that browsers reload changed ones."""
    content = b"".join(_static_file(name) for name in sorted(STATIC))
    return hashlib.sha256(content).hexdigest()[:10]
