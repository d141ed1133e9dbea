"""What the page of a comparison shows."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

import numpy as np
from markupsafe import Markup

from gsat.training.run_files import shown_metrics
from gsat.web import views
from gsat.web.compare import Comparison
from gsat.web.errors import NotFoundError
from gsat.web.pictures import draw_picture

LISTED: Final = 24


def compare_values(found: Comparison, split: str, row: int | None, page: int) -> dict[str, Any]:
    """Gather what the page of a comparison shows."""
    order = found.most_different()
    pages = max(1, -(-len(order) // LISTED))
    page = min(page, pages)
    if row is None:
        place = int(order[0])
    else:
        places = np.flatnonzero(found.rows[0] == row)
        if not len(places):
            raise NotFoundError(f"graph {row} is not among those that the runs have in common")
        place = int(places[0])
    names = [run.name for run in found.runs]
    query = urlencode([*(("run", name) for name in names), ("split", split)])
    return {
        "runs": [
            {"run": run, "scores": shown_metrics(run.run.test, has_truth=False)}
            for run in found.runs
            if run.run.finished
        ],
        "titles": list(
            dict.fromkeys(
                title
                for run in found.runs
                if run.run.finished
                for title in shown_metrics(run.run.test, has_truth=False)
            )
        ),
        "names": names,
        "split": split,
        "query": query,
        "count": len(order),
        "page": page,
        "pages": pages,
        "mean_correlation": _mean(found.correlation),
        "mean_overlap": _mean(found.overlap),
        "same": float(found.same.mean()),
        "place": _place(found, place),
        "pictures": [_picture(found, number, place, split) for number in range(len(names))],
        "listed": [_place(found, int(i)) for i in order[(page - 1) * LISTED : page * LISTED]],
        "previous": int(found.rows[0][place - 1]) if place > 0 else None,
        "following": int(found.rows[0][place + 1]) if place + 1 < len(order) else None,
    }


def _place(found: Comparison, place: int) -> dict[str, Any]:
    row = int(found.rows[0][place])
    return {
        "row": row,
        "title": found.splits[0].title(row),
        "correlation": float(found.correlation[place]),
        "overlap": float(found.overlap[place]),
        "same": bool(found.same[place]),
    }


def _picture(found: Comparison, number: int, place: int, split: str) -> dict[str, Any]:
    """One run's picture of a graph; all are laid out alike."""
    run, row = found.runs[number], int(found.rows[number][place])
    explanation = run.explanation(split, row)
    key = ("data", int(found.data_rows[place]))
    made = draw_picture(found.runs[0], key, explanation)
    card = views.card(found.splits[number], row, run.outputs)
    return {"run": run, "svg": Markup(made.svg), "card": card, "picture": made,
            "message": explanation.message}  # fmt: skip


def _mean(values: Any) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")
