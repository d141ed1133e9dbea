"""The routes of the page."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import resources
from pathlib import Path as FilePath
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, BackgroundTasks, Query, Request, Response
from fastapi.responses import RedirectResponse

from gsat.core.errors import GSATError
from gsat.training.prediction_table import PredictedTable
from gsat.training.run_files import shown_metrics
from gsat.web import views
from gsat.web.api import InSplit, Name, Number, Split
from gsat.web.audits import audit_summary
from gsat.web.compare import compare
from gsat.web.errors import BadInputError, NotFoundError, RequestError
from gsat.web.loaded import SPLITS, LoadedRun
from gsat.web.pages_compare import compare_values
from gsat.web.pages_graph import graph_values, picture_values
from gsat.web.pages_patterns import pattern_values
from gsat.web.queries import PAGE, Rows
from gsat.web.scored import SORTS, Filter
from gsat.web.service import Service
from gsat.web.templating import render
from gsat.web.trying import kept_table, try_json, try_smiles, try_table

STATIC: Final = {"style.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
Top = Annotated[int, Query(ge=0, lt=2**31)]
Truth = Annotated[Literal["yes", "no"], Query()]
Kind = Literal["svg", "png", "json", "csv"]
_TYPES: Final = {"svg": "image/svg+xml", "png": "image/png", "json": "application/json",
                 "csv": "text/csv"}  # fmt: skip
_PAUSE, _PATIENCE = 0.2, 10.0  # seconds: before a page is drawn ahead; of waiting for that
MOST_COMPARED: Final = 4


def make_pages(service: Service) -> APIRouter:
    """Make the routes of the page."""
    router = APIRouter()
    library = service.library

    def shared(run: LoadedRun | None = None, here: str = "") -> dict[str, Any]:
        """What every page needs: its place in the navigation."""
        entries = library.entries()
        patterns = run is not None and _has_patterns(run)
        audit = run is not None and run.run.path is not None and audit_summary(run.run.path)
        return {
            "run": run, "here": here, "entries": entries, "several": len(entries) > 1,
            "has_patterns": patterns, "has_audit": bool(audit), "version": _version(),
        }  # fmt: skip

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
        return Response(_file(name), headers=headers, media_type=STATIC[name])

    @router.get("/runs")
    def runs(part: bool = False) -> Response:
        titles: dict[str, None] = {}
        rows: list[dict[str, Any]] = []
        for entry in library.entries():
            scores = shown_metrics(entry.summary.test, has_truth=False)
            titles |= dict.fromkeys(scores)
            rows.append({"entry": entry, "summary": entry.summary, "scores": scores,
                         "audit": audit_summary(entry.path)})  # fmt: skip
        live = any(row["summary"].state == "running" for row in rows)
        values: dict[str, Any] = {"rows": rows, "titles": list(titles), "live": live}
        if part:
            return render("_runs.html", **values)
        return render("runs.html", **shared(here="runs"), **values)

    @router.get("/runs/{run}")
    def overview(run: Name) -> Response:
        loaded, entry = library.open(run), library.entry(run)
        return render(
            "overview.html",
            **shared(loaded, "overview"),
            summary=entry.summary,
            facts=views.facts(loaded),
            scores=views.score_table(loaded),
            charts=views.charts(loaded),
            audit=audit_summary(entry.path),
            recipe=loaded.run.recipe.toml(),
        )

    @router.get("/runs/{run}/live")
    def live(run: Name) -> Response:
        loaded, entry = library.open(run), library.entry(run)
        return render("_curves.html", charts=views.charts(loaded), summary=entry.summary)

    @router.get("/runs/{run}/notes")
    def weak_points(run: Name) -> Response:
        return render("_notes.html", notes=views.notes(library.open(run)))

    @router.get("/runs/{run}/confusion")
    def confusion(run: Name, split: InSplit = "test") -> Response:
        loaded = library.open(run)
        scored = loaded.split(split)
        return render(
            "_confusion.html",
            run=loaded,
            split=split,
            matrix=views.confusion(scored, loaded.outputs),
            scatter=views.predicted_against_true(scored),
            count=len(scored),
        )

    @router.get("/runs/{run}/graphs")
    def gallery(
        run: Name,
        rows: Rows,
        request: Request,
        tasks: BackgroundTasks,
        split: InSplit = "test",
        page: Annotated[int, Query(ge=1, lt=2**20)] = 1,
    ) -> Response:
        loaded = library.open(run)
        found: Sequence[int] = []
        problem = ""
        if page == 1 and rows == Filter():
            # Nothing is chosen or sorted: the other graphs are scored while these are looked at.
            scored, size = loaded.first_rows(split, PAGE)
            found = range(size)
        else:
            scored = loaded.split(split)
            size = len(scored)
            try:
                found = scored.rows(rows).tolist()
            except BadInputError as error:
                problem = str(error)
        pages = max(1, -(-len(found) // PAGE))
        page = min(page, pages)
        chosen = found[(page - 1) * PAGE : page * PAGE]
        loaded.asked = time.monotonic()
        # The next page is drawn while this one is looked at.
        tasks.add_task(_draw_ahead, loaded, split, found[page * PAGE : (page + 1) * PAGE])
        has_truth = scored.has_truth or (len(scored) < size and scored.store.has("edge_truth"))
        answer = render(
            "gallery.html",
            **shared(loaded, "graphs"),
            split=split, splits=SPLITS, rows=rows, sorts=_sorts(scored, has_truth),
            scored=scored, size=size, has_truth=has_truth,
            cards=[views.card(scored, row, loaded.outputs) for row in chosen],
            total=len(found), page=page, pages=pages, problem=problem,
            link=lambda number: _address(request, page=number),
        )  # fmt: skip
        answer.background = tasks
        return answer

    @router.get("/runs/{run}/graphs/{split}/{number}/thumb.svg")
    def thumb(run: Name, split: Split, number: Number) -> Response:
        loaded = library.open(run)
        loaded.asked = time.monotonic()
        text = views.thumbnail(loaded, split, number)
        headers = {"cache-control": "private, max-age=60"}
        return Response(text, headers=headers, media_type="image/svg+xml")

    @router.get("/runs/{run}/graphs/{split}/{number}")
    def graph(
        run: Name, split: Split, number: Number, top: Top = 0, truth: Truth = "yes"
    ) -> Response:
        loaded = library.open(run)
        values = graph_values(loaded, split, number, top, truth == "yes")
        return render("graph.html", **(shared(loaded, "graphs") | values))

    @router.get("/runs/{run}/graphs/{split}/{number}/picture")
    def picture(
        run: Name, split: Split, number: Number, top: Top = 0, truth: Truth = "yes"
    ) -> Response:
        loaded = library.open(run)
        return render("_picture.html", **picture_values(loaded, split, number, top, truth == "yes"))

    @router.get("/runs/{run}/graphs/{split}/{number}/similar")
    def similar(run: Name, split: Split, number: Number) -> Response:
        loaded = library.open(run)
        near, scored = loaded.similar(split, number), loaded.split(split)
        cards = [views.card(scored, row, loaded.outputs, likeness) for row, likeness in near]
        return render("_similar.html", run=loaded, split=split, cards=cards, scored=scored)

    @router.get("/runs/{run}/graphs/{split}/{number}/download/{kind}")
    def download(run: Name, split: Split, number: Number, kind: Kind, top: Top = 0) -> Response:
        explanation = library.open(run).explanation(split, number)
        with tempfile.TemporaryDirectory(prefix="gsat-") as folder:
            path = explanation.save(FilePath(folder) / f"graph.{kind}", top=top or None)
            content = path.read_bytes()
        return _attached(content, f"{run}-{split}-{number}.{kind}", _TYPES[kind])

    @router.get("/compare")
    def comparison(
        run: Annotated[list[str], Query(max_length=MOST_COMPARED)],
        split: InSplit = "test",
        row: Annotated[int | None, Query(ge=0, lt=2**31)] = None,
        page: Annotated[int, Query(ge=1, lt=2**20)] = 1,
    ) -> Response:
        opened = [library.open(name) for name in dict.fromkeys(run)]
        found = compare(opened, split)
        return render(
            "compare.html",
            **shared(None, "compare"),
            **compare_values(found, split, row, page),
            splits=SPLITS,
        )

    @router.get("/runs/{run}/patterns")
    def patterns(run: Name, split: InSplit = "test") -> Response:
        loaded = library.open(run)
        if not loaded.split(split).smiles:
            raise NotFoundError("there are no patterns: the graphs of this run are no molecules")
        return render(
            "patterns.html",
            **shared(loaded, "patterns"),
            split=split,
            splits=SPLITS,
            **pattern_values(loaded, split),
        )

    @router.get("/runs/{run}/audit")
    def audit(run: Name) -> Response:
        loaded, entry = library.open(run), library.entry(run)
        found = audit_summary(entry.path)
        if found is None:
            raise NotFoundError(f"the run '{run}' was not audited yet")
        return render("audit.html", **shared(loaded, "audit"), audit=found)

    @router.get("/runs/{run}/try")
    def try_own(run: Name, smiles: Annotated[str, Query(max_length=4000)] = "") -> Response:
        loaded = library.open(run)
        tried, problem = [], ""
        if smiles.strip():
            try:
                tried = try_smiles(loaded, smiles, service.limits)
            except GSATError as error:
                problem = str(error)
        return render(
            "try.html",
            **shared(loaded, "try"),
            smiles=smiles, tried=tried, problem=problem, table=None,
            example=_example(loaded), limits=service.limits,
        )  # fmt: skip

    @router.post("/runs/{run}/try")
    async def try_graph(run: Name, request: Request) -> Response:
        body = await request.body()
        return await _in_thread(lambda: _tried(library.open(run), body))

    def _tried(loaded: LoadedRun, body: bytes) -> Response:
        try:
            tried = try_json(loaded, body, service.limits)
        except GSATError as error:
            return render("_tried.html", 422, run=loaded, tried=[], problem=str(error), table=None)
        return render("_tried.html", run=loaded, tried=tried, problem="", table=None)

    @router.post("/runs/{run}/try/table")
    async def try_file(
        run: Name, request: Request, name: Annotated[str, Query(max_length=200)] = "table.csv"
    ) -> Response:
        body = await request.body()
        return await _in_thread(lambda: _tabled(library.open(run), name, body))

    def _tabled(loaded: LoadedRun, name: str, body: bytes) -> Response:
        try:
            table = try_table(loaded, name, body)
        except GSATError as error:
            return render("_tried.html", 422, run=loaded, tried=[], problem=str(error), table=None)
        return render("_tried.html", run=loaded, tried=table.cards, problem="", table=table)

    @router.get("/runs/{run}/try/table/{key}.csv")
    def table(run: Name, key: str) -> Response:
        found: PredictedTable = kept_table(library.open(run), key[:64])
        return _attached(found.to_csv().encode(), f"{run}-predictions.csv", "text/csv")

    return router


def error_page(status: int, message: str) -> Response:
    """Show an error as a page."""
    return render(
        "error.html", status, code=status, message=message, run=None, here="", entries=[],
        several=True, has_patterns=False, has_audit=False, version=_version(),
    )  # fmt: skip


async def _in_thread(work: Any) -> Response:
    from fastapi.concurrency import run_in_threadpool

    return await run_in_threadpool(work)


def _attached(content: bytes, name: str, kind: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(content, headers=headers, media_type=kind)


def _draw_ahead(loaded: LoadedRun, split: str, rows: Sequence[int]) -> None:
    """Score a split and draw small pictures before they are asked for, while nobody waits."""
    until = time.monotonic() + _PATIENCE

    def pause() -> None:
        while time.monotonic() < min(loaded.asked + _PAUSE, until):
            time.sleep(_PAUSE / 4)

    pause()
    with suppress(RequestError):  # the service is being stopped
        loaded.split(split)
        for row in rows:
            pause()
            views.thumbnail(loaded, split, row)


def _has_patterns(loaded: LoadedRun) -> bool:
    """Whether the graphs are molecules, as far as that is known without loading them."""
    try:
        known = loaded.run.loaded_dataset
        molecules = loaded.takes_smiles or (known is not None and known.store.has("smiles"))
        return molecules and loaded.task.level == "graph"
    except GSATError:  # it has no model yet
        return False


def _sorts(scored: Any, has_truth: bool) -> list[tuple[str, str]]:
    titles = {"auc": "explanation AUC", "value": "prediction"}
    regression = scored.task.kind == "regression"
    gone = {"confidence", "auc"} if regression else {"error", "value"}
    if has_truth:
        gone.discard("auc")
    else:
        gone.add("auc")
    return [(name, titles.get(name, name)) for name in SORTS if name not in gone]


def _address(request: Request, **changes: Any) -> str:
    """The address of this page with other values."""
    pairs = [(key, value) for key, value in request.query_params.multi_items() if value != ""]
    kept = [(key, value) for key, value in pairs if key not in changes]
    return "?" + urlencode([*kept, *((key, str(value)) for key, value in changes.items())])


def _example(loaded: LoadedRun) -> str:
    """A small graph that the model takes, as JSON."""
    width = int(loaded.model.network.get("in_features") or 1)
    edge_width = int(loaded.model.network.get("edge_features") or 0)
    edges = [[0, 1], [1, 0], [1, 2], [2, 1], [2, 0], [0, 2]]
    row = ", ".join(["1"] * width) if width <= 12 else f"1, … ({width} numbers)"
    text = f'{{"edges": {edges},\n "x": [[{row}], [{row}], [{row}]]'
    if edge_width:
        one = ", ".join(["1"] * edge_width) if edge_width <= 12 else f"1, … ({edge_width} numbers)"
        text += f',\n "edge_attr": [{", ".join([f"[{one}]"] * 6)}]'
    return text + "}"


@cache
def _file(name: str) -> bytes:
    return (resources.files("gsat.web") / "static" / name).read_bytes()


@cache
def _version() -> str:
    """What changes when a file that browsers keep has changed."""
    content = b"".join(_file(name) for name in sorted(STATIC))
    return hashlib.sha256(content).hexdigest()[:10]
