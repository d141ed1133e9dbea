"""Explanations as files: a picture, JSON, CSV, a web page, or the scores of a whole split."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gsat.core.errors import GSATError
from gsat.core.writing import check_suffix, write_output
from gsat.draw.files import PICTURES
from gsat.draw.graph import draw_explanation, explanation_svg
from gsat.draw.molecule_page import report_page
from gsat.draw.molecule_tables import patterns_csv, scores_csv
from gsat.draw.options import DrawingOptions
from gsat.draw.page import html_page
from gsat.draw.pattern_page import pattern_page

if TYPE_CHECKING:
    from gsat.explain.molecules import MoleculeReport
    from gsat.explain.patterns import PatternReport
    from gsat.explanation import Explanation

FORMATS: Final = (*PICTURES, ".json", ".html", ".csv")
REPORTS: Final = (".html", ".csv", ".json")
PATTERN_FILES: Final = (".html", ".csv")
MOST_CARDS: Final = 10_000  # of a page, some 10 kB each


def write_explanation(explanation: Explanation, path: str | Path, **options: Any) -> Path:
    """Write one explanation in the format that the suffix names.

    Args:
        explanation: The explained graph.
        path: ``.svg``, ``.png`` or ``.pdf`` for a picture; ``.json`` for
            :meth:`Explanation.as_dict`; ``.csv`` for a line per edge; ``.html`` for a page with the
            picture and the ranked edges.
        options: The options of :func:`gsat.draw.draw_explanation`. In JSON and CSV, ``top`` marks
            the edges as ``chosen``; in JSON, ``class_names`` and ``title`` stand beside the rest.

    Returns:
        The path.

    Raises:
        GSATError: If the suffix is unknown or the file can't be written.
    """
    suffix = check_suffix(path, FORMATS)
    if suffix == ".svg":
        return write_output(path, explanation_svg(explanation, **options).encode())
    if suffix in PICTURES:
        draw_explanation(explanation, path, **options)
        return Path(path)
    make = {".json": _json, ".csv": _csv, ".html": html_page}[suffix]
    return write_output(path, make(explanation, **options).encode())


def write_molecules(report: MoleculeReport, path: str | Path, **options: Any) -> Path:
    """Write a report on molecules; ``options`` are those of a picture of one molecule."""
    molecules = report.molecules
    suffix = check_suffix(path, (*PICTURES, *REPORTS) if len(molecules) == 1 else REPORTS)
    if suffix in PICTURES:
        return write_explanation(molecules[0].explanation, path, **options)
    if suffix == ".html" and len(molecules) > MOST_CARDS:
        raise GSATError(
            f"a page of {len(molecules)} molecules would be too large for a browser: give at most "
            f"{MOST_CARDS}, or write a .csv file"
        )
    if suffix == ".html":
        return write_output(path, report_page(molecules, report.info).encode())
    if suffix == ".csv":
        return write_output(path, scores_csv(molecules).encode())
    values = [molecule.as_dict() for molecule in molecules]
    named = {"outputs": list(report.info.outputs), "notes": list(report.info.notes)}
    whole = {**named, "molecules": values} if len(values) != 1 else {**named, **values[0]}
    return write_output(path, _dumped(whole))


def write_patterns(report: PatternReport, path: str | Path) -> Path:
    """Write a report on patterns."""
    if check_suffix(path, PATTERN_FILES) == ".csv":
        return write_output(path, patterns_csv(report.groups, report.molecules).encode())
    page = pattern_page(report.groups, report.molecules, report.info)
    return write_output(path, page.encode())


def _dumped(values: Any) -> bytes:
    text = json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()


def _edges(explanation: Explanation, top: int | str | None) -> list[dict[str, Any]]:
    """List the edges in the order of the graph, marked as ``chosen`` where there is a budget."""
    edges: list[dict[str, Any]] = explanation.as_dict()["edges"]
    if top is not None:
        for edge, chosen in zip(edges, explanation.in_top(top).tolist(), strict=True):
            edge["chosen"] = chosen
    return edges


def _json(explanation: Explanation, **options: Any) -> str:
    style = DrawingOptions(**options)
    values = explanation.as_dict()
    values["edges"] = _edges(explanation, style.top)
    if style.title is not None:
        values["title"] = style.title
    given = style.class_names
    class_names = explanation.get("class_names") if given is None else given
    if class_names is not None:
        values["class_names"] = list(class_names)
    return json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _csv(explanation: Explanation, **options: Any) -> str:
    edges = _edges(explanation, DrawingOptions(**options).top)
    node_id = explanation.get("node_id")
    if node_id is not None:  # numbers of the graph that was explained, as in every other format
        for edge in edges:
            edge |= {end: int(node_id[edge[end]]) for end in ("source", "target")}
    columns = ["source", "target", "score"]
    columns += [name for name in ("spread", "truth", "chosen") if edges and name in edges[0]]
    text = io.StringIO()
    table = csv.DictWriter(text, columns, lineterminator="\n")
    table.writeheader()
    rounded = ("score", "spread")
    table.writerows(
        {k: f"{v:.6g}" if k in rounded else v for k, v in edge.items()} for edge in edges
    )
    return text.getvalue()
