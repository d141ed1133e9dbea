"""Explanations and reports as files: pictures, JSON, tables and web pages."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gsat.core.errors import GSATError
from gsat.core.writing import check_suffix, write_output
from gsat.draw.explanations import draw_explanation, explanation_svg
from gsat.draw.figure import PICTURES
from gsat.draw.options import DrawingOptions
from gsat.draw.pages import explanation_page, pattern_page, report_page
from gsat.molecules.rejected import write_csv

if TYPE_CHECKING:
    from gsat.explain.molecules import ExplainedMolecule, MoleculeReport
    from gsat.explain.patterns import PatternGroup, PatternReport
    from gsat.explanation import Explanation

FORMATS: Final = (*PICTURES, ".json", ".html", ".csv")
REPORTS: Final = (".html", ".csv", ".json")
PATTERN_FILES: Final = (".html", ".csv")
MOST_CARDS: Final = 10_000  # of a page, some 10 kB each

SCORES: Final = (
    "molecule", "line", "id", "kind", "atom", "atom_2", "symbol", "score", "fragment",
    "fragment_smiles", "fragment_score", "in_explanation", "fragment_effect", "fragment_log_odds",
)  # fmt: skip
PATTERNS: Final = (
    "group", "rank", "pattern", "kind", "smiles", "molecules", "group_size", "occurs",
    "in_explanation", "in_explanation_of_group", "odds_ratio", "p_value", "q_value", "mean_effect",
    "effect_deviation", "mean_log_odds", "examples",
)  # fmt: skip
_BONDS: Final = {"SINGLE": "-", "DOUBLE": "=", "TRIPLE": "#", "AROMATIC": ":"}


def write_explanation(explanation: Explanation, path: str | Path, **options: Any) -> Path:
    """Write one explanation in the format that the suffix names; see :meth:`Explanation.save`."""
    suffix = check_suffix(path, FORMATS)
    if suffix == ".svg":
        return write_output(path, explanation_svg(explanation, **options).encode())
    if suffix in PICTURES:
        draw_explanation(explanation, path, **options)
        return Path(path)
    make = {".json": _json, ".csv": _csv, ".html": explanation_page}[suffix]
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


def scores_csv(molecules: Iterable[ExplainedMolecule]) -> str:
    """Write a row per atom and per bond of each molecule.

    Atoms have the numbers of the SMILES. The score of an atom is its own, where the model attends
    to nodes, or else the mean over its bonds. Each row names the best-scored fragment that
    contains the atom or bond.
    """
    return write_csv(SCORES, (row for molecule in molecules for row in _score_rows(molecule)))


def _score_rows(molecule: ExplainedMolecule) -> Iterator[list[str]]:
    explanation = molecule.explanation
    read = molecule.molecule
    line = "" if molecule.line is None else str(molecule.line)
    head = [str(molecule.number), line, molecule.name]
    bonds = np.zeros(read.GetNumBonds())
    atoms, degree = np.zeros(read.GetNumAtoms()), np.zeros(read.GetNumAtoms())
    pairs = zip(explanation.edge_index.T.tolist(), explanation.edge_mask.tolist(), strict=True)
    for (u, v), score in pairs:
        bond = read.GetBondBetweenAtoms(u, v).GetIdx()
        bonds[bond] = max(bonds[bond], score)
        atoms[v] += score
        degree[v] += 1
    atoms /= np.maximum(degree, 1)
    if explanation.get("node_mask") is not None:
        atoms = explanation.node_mask[:, 0].numpy(force=True)
    for atom in read.GetAtoms():
        i = atom.GetIdx()
        place = ["atom", str(i), "", atom.GetSymbol(), f"{atoms[i]:.6g}"]
        yield [*head, *place, *_fragment_cells(molecule, (i,))]
    for bond in read.GetBonds():
        ends = (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())
        place = ["bond", *map(str, ends), _BONDS.get(str(bond.GetBondType()), "~")]
        yield [*head, *place, f"{bonds[bond.GetIdx()]:.6g}", *_fragment_cells(molecule, ends)]


def _fragment_cells(molecule: ExplainedMolecule, atoms: tuple[int, ...]) -> list[str]:
    """Describe the best-scored fragment that contains the atoms; empty without one."""
    for fragment in molecule.fragments:
        if set(atoms) <= set(fragment.atoms):
            return [
                fragment.name,
                fragment.smiles,
                f"{fragment.score:.6g}",
                str(int(fragment.used)),
                _number(molecule.effect(fragment)),
                _number(molecule.log_odds(fragment)),
            ]
    return [""] * 6


def patterns_csv(groups: Iterable[PatternGroup], molecules: Sequence[ExplainedMolecule]) -> str:
    """Write a row per pattern and group."""
    rows = (
        [
            group.name,
            rank,
            pattern.name,
            pattern.kind,
            pattern.smiles,
            group.total,
            group.size,
            pattern.occurs,
            pattern.used,
            pattern.used_in_group,
            "" if math.isnan(pattern.odds_ratio) else f"{pattern.odds_ratio:.6g}",
            f"{pattern.p_value:.6g}",
            f"{pattern.q_value:.6g}",
            _number(pattern.effect),
            _number(pattern.deviation),
            _number(pattern.log_odds),
            " ".join(_named(molecules[i]) for i in pattern.examples),
        ]
        for group in groups
        for rank, pattern in enumerate(group.patterns, 1)
    )
    return write_csv(PATTERNS, ([str(cell) for cell in row] for row in rows))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _named(molecule: ExplainedMolecule) -> str:
    return molecule.name or str(molecule.number if molecule.line is None else molecule.line)
