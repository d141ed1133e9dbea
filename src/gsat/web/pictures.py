"""An explanation as a picture of the page: each kind of graph as itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from typing import Any, Final

import numpy as np

from gsat.draw.budget import RankedEdge
from gsat.draw.caption import answer
from gsat.draw.molecule import ColourScale, formula, formula_svg, hexadecimal, mixed
from gsat.draw.scene import scene
from gsat.draw.sentence import sentence
from gsat.explanation import Explanation
from gsat.web.loaded import LoadedRun
from gsat.web.svg import EdgeName, formula_with_links, scene_svg, sentence_svg, without_styles

LARGE: Final = 150  # nodes; of larger graphs the highest-scored edges are shown
SHOWN_EDGES: Final = 60
THUMBNAIL: Final = (260, 180)


@dataclass(frozen=True)
class Picture:
    """A picture, and what a legend says about it.

    Attributes:
        svg: An ``<svg>`` element.
        kind: ``"graph"``, ``"molecule"`` or ``"sentence"``.
        low: The score at the lower end of the scale.
        high: The score at its upper end.
        cropped: How many edges are shown, if not all are.
    """

    svg: str
    kind: str
    low: float
    high: float
    cropped: int | None = None


def draw_picture(
    loaded: LoadedRun,
    key: tuple[Any, ...],
    explanation: Explanation,
    *,
    top: int | None = None,
    truth: bool = True,
    small: bool = False,
) -> Picture:
    """Draw an explanation for the page.

    Args:
        loaded: The run, which keeps layouts.
        key: What names the graph within the run.
        explanation: The explanation.
        top: Emphasise this many edges. (default: ``None``)
        truth: Whether the ground truth is shown. (default: ``True``)
        small: Whether it is one of many: no numbers, nothing to point at. (default: ``False``)
    """
    cropped = None
    if int(explanation.num_nodes or 0) > LARGE and explanation.num_units > SHOWN_EDGES:
        explanation, cropped = explanation.top(SHOWN_EDGES), SHOWN_EDGES
    scores = explanation.edge_mask
    low, high = (float(scores.min()), float(scores.max())) if len(scores) else (0.0, 0.0)
    label = answer(explanation) or "explained graph"
    names = [] if small else edge_names(explanation)
    budget = None if top is None or top <= 0 else top
    drawn = formula(explanation, budget)
    if drawn is not None:
        scale = ColourScale.of([explanation])
        if small:
            text = formula_svg(drawn, scale, THUMBNAIL, compact=True)
            svg = text.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1)
            return Picture(without_styles(svg), "molecule", scale.low, scale.high)
        bonds, true = _bonds(drawn, explanation, names)
        svg = formula_with_links(formula_svg(drawn, scale), label, bonds, true if truth else ())
        return Picture(svg, "molecule", scale.low, scale.high)
    words = sentence(explanation, budget, 4.6 if small else 7.6)
    if words is not None:
        return Picture(sentence_svg(words, label, names), "sentence", low, high, cropped)
    places = loaded.kept(
        ("layout", *key), lambda: scene(explanation).at, 16 * int(explanation.num_nodes or 0) + 200
    )
    picture = scene(explanation, budget, at=places)
    if small:
        picture = replace(picture, labels=[""] * len(picture.labels))
    if not truth:
        none = np.zeros(len(picture.true), dtype=bool)
        picture = replace(picture, true=none, true_nodes=np.zeros(len(picture.at), dtype=bool))
    texts = [] if small else [f"node {name}" for name in node_names(explanation)]
    svg = scene_svg(picture, label, names=names, texts=texts)
    return Picture(svg, "graph", low, high, cropped)


def node_names(explanation: Explanation) -> list[str]:
    """Name the nodes: atoms by element and number, words by number and word.

    Args:
        explanation: The explanation.
    """
    names, drawn = explanation.node_names(), formula(explanation)
    if drawn is None:
        return names
    symbols = {
        number: drawn.molecule.GetAtomWithIdx(i).GetSymbol()
        for i, number in enumerate(drawn.numbers)
    }
    return [f"{symbols.get(int(name), 'H')}{name}" for name in names]


def edge_names(explanation: Explanation) -> list[EdgeName]:
    """Say what each edge is and how it is scored, by its number among the units.

    Args:
        explanation: The explanation.
    """
    names, joint = node_names(explanation), "–" if explanation.undirected else "→"
    numbers = edge_numbers(explanation)
    out = [EdgeName(0, "")] * len(numbers)
    for edge in explanation.ranked_edges():
        text = f"{names[edge.source]} {joint} {names[edge.target]}: {edge.score:.3f}"
        out[edge.unit] = EdgeName(numbers[edge.unit], text)
    return out


def edge_numbers(explanation: Explanation) -> list[int]:
    """The number of the first edge of each unit, in the graph that was explained.

    Args:
        explanation: The explanation, or a part of one.
    """
    unit, score = explanation.units()
    edge_id = explanation.get("edge_id")
    numbers = range(len(unit)) if edge_id is None else edge_id.tolist()
    out = [0] * len(score)
    for place, number in zip(reversed(unit.tolist()), reversed(numbers), strict=True):
        out[place] = number
    return out


def ranked(explanation: Explanation) -> list[tuple[RankedEdge, int, str, str]]:
    """List the edges from the highest score down, with their numbers and the names of their ends.

    Args:
        explanation: The explanation.
    """
    names, numbers = node_names(explanation), edge_numbers(explanation)
    return [
        (edge, numbers[edge.unit], names[edge.source], names[edge.target])
        for edge in explanation.ranked_edges()
    ]


def scale_colours() -> list[str]:
    """The colours of a molecule's scale, from its lower end to its upper."""
    return [hexadecimal(mixed(part / 4)) for part in range(5)]


def _bonds(
    drawn: Any, explanation: Explanation, names: list[EdgeName]
) -> tuple[dict[int, EdgeName], list[int]]:
    """What each drawn bond is known by, and the bonds of the ground truth."""
    place = {number: i for i, number in enumerate(drawn.numbers)}
    node_id = explanation.get("node_id")
    bonds: dict[int, EdgeName] = {}
    true = []
    for edge in explanation.ranked_edges():
        ends = (edge.source, edge.target)
        if node_id is not None:
            ends = (int(node_id[ends[0]]), int(node_id[ends[1]]))
        if ends[0] in place and ends[1] in place:
            bond = drawn.molecule.GetBondBetweenAtoms(place[ends[0]], place[ends[1]])
            if bond is not None:
                bonds[bond.GetIdx()] = names[edge.unit]
                if edge.true:
                    true.append(bond.GetIdx())
    return bonds, true
