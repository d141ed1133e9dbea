"""One explained molecule as a picture: the structural formula, with the truth behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from gsat.draw.legend import Entry
from gsat.draw.marks import FADED
from gsat.draw.molecule import ColourScale, Formula, atom_places, formula, natural_size
from gsat.draw.options import DrawingOptions
from gsat.draw.sheet import Circles, Floats, Layer, Molecule, Part, Strokes, Tag

if TYPE_CHECKING:
    from gsat.explanation import Explanation

_PIXEL: Final = 0.01  # inches
_WIDEST, _SMALLEST = 900, 60  # pixels
_HALO: Final = 17.0  # points: wider than the colour of a bond
_RING: Final = 12.0  # pixels: wider than the colour of an atom
_HIT: Final = 9.0  # points: where a pointer finds a bond


@dataclass(frozen=True)
class MoleculePicture:
    """A structural formula.

    Attributes:
        formula: The formula.
        scale: Colours of its scores.
        tags: What a page knows its bonds by, in RDKit's order.
        true: Which bonds are of the ground truth.
        true_atoms: Atoms, in RDKit's order, with bonds of the ground truth to hydrogens that are
            not drawn.
        label: What the colours mean; empty if nothing is coloured.
        options: How it is drawn.
        uncertain: What is known of the uncertainty of the scores, in words.
    """

    formula: Formula
    scale: ColourScale
    tags: list[Tag]
    true: list[bool]
    true_atoms: list[int]
    label: str
    options: DrawingOptions
    uncertain: str = ""

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches that suit the molecule."""
        wide, high = natural_size(self.formula)
        shrink = min(1.0, _WIDEST / wide, _WIDEST / high)
        return (
            _PIXEL * max(round(wide * shrink), _SMALLEST),
            _PIXEL * max(round(high * shrink), _SMALLEST),
        )

    def part(
        self,
        box: tuple[float, float, float, float],
        title: Sequence[str] = (),
        note: Sequence[str] = (),
        font: float = 9.5,
    ) -> Part:
        """Fit the formula into a part of a sheet; arguments as the fields of :class:`Part`."""
        wide, high = round(box[2] / _PIXEL), round(box[3] / _PIXEL)
        style = {"aromatic": self.options.aromatic, "numbers": self.options.numbers}
        at = atom_places(self.formula, (wide, high), **style)
        ends = [
            (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())
            for bond in self.formula.molecule.GetBonds()
        ]
        lines: list[Floats] = [np.array([at[u], at[v]]) for u, v in ends]
        layers: list[Layer] = []
        true = [line for line, known in zip(lines, self.true, strict=True) if known]
        if true:
            inks, ones = ["halo"] * len(true), np.ones(len(true))
            layers.append(Strokes("truth", true, inks, ones, np.full(len(true), _HALO)))
        if self.true_atoms:
            middles, count = at[self.true_atoms], len(self.true_atoms)
            radius, none = np.full(count, _RING), np.zeros(count)
            inks, rims = ["halo"] * count, ["none"] * count
            layers.append(Circles("true atoms", middles, radius, inks, np.ones(count), rims, none))
        layers.append(Molecule("formula", self.formula, self.scale, style))
        known = [i for i, tag in enumerate(self.tags) if tag.title]
        if known:
            # Nothing to see: a page finds the bonds by them.
            layers.append(
                Strokes(
                    "edges",
                    [lines[i] for i in known],
                    ["ink"] * len(known),
                    np.zeros(len(known)),
                    np.full(len(known), _HIT),
                    tags=[self.tags[i] for i in known],
                )
            )
        return Part("molecule", box, (0.0, 0.0, wide, high), layers, title, note, font)

    def entries(self, scores_of: str = "") -> list[Entry]:
        """Return the legend; ``scores_of`` names the method where there are several."""
        out = []
        if self.label:
            what = f"{scores_of}: {self.label}" if scores_of else self.label
            full = (("full", self.scale.fade),)
            low, high = self.scale.low, self.scale.high
            out.append(Entry("formula", f"{what} {low:.2f}", f"{high:.2f}", full))
        if any(self.true) or self.true_atoms:
            out.append(Entry("truth", after="ground truth"))
        return out


def molecule_picture(
    explanation: Explanation, options: DrawingOptions, scale: ColourScale | None = None
) -> MoleculePicture | None:
    """Prepare the picture of a molecule."""
    drawn = formula(explanation, options.top)
    if drawn is None:
        return None
    scale = ColourScale.of([explanation]) if scale is None else scale
    if options.doubt_of(explanation):
        scale = replace(scale, fade=FADED)
    spread = options.spread_of(explanation)
    edges = _edges(explanation, spread, options.truth)
    tags, true = [], []
    for bond in drawn.molecule.GetBonds():
        u, v = (drawn.numbers[i] for i in (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))
        tag, known = edges.get((min(u, v), max(u, v)), (Tag(), False))
        tags.append(tag)
        true.append(known)
    place = {number: atom for atom, number in enumerate(drawn.numbers)}
    half_drawn = [
        {place[end] for end in pair if end in place} for pair, (_, known) in edges.items() if known
    ]
    true_atoms = sorted({atom for ends in half_drawn if len(ends) == 1 for atom in ends})
    uncertain = ""
    if spread is not None and len(spread):
        middle, highest = float(np.median(spread)), float(spread.max())
        uncertain = f"scores are uncertain by {middle:.2f} (median), at most {highest:.2f}"
    label = _label(explanation, options.top)
    return MoleculePicture(drawn, scale, tags, true, true_atoms, label, options, uncertain)


def _label(explanation: Explanation, top: int | str | None) -> str:
    """Say what the colours mean; empty if nothing is coloured."""
    if not explanation.found:
        return ""
    if top is not None:
        return f"score of the top {str(top).strip()} bonds"
    return "bond score" if explanation.get("node_mask") is None else "atom score"


def _edges(
    explanation: Explanation, spread: Floats | None, truth: bool
) -> dict[tuple[int, int], tuple[Tag, bool]]:
    """Return what is known of each bond, by the numbers of its atoms."""
    node_id, edge_id = explanation.get("node_id"), explanation.get("edge_id")
    ends = explanation.edge_index if node_id is None else node_id[explanation.edge_index]
    numbers = range(len(explanation.edge_mask)) if edge_id is None else edge_id.tolist()
    known = explanation.get("edge_truth") if truth else None
    out: dict[tuple[int, int], tuple[Tag, bool]] = {}
    best: dict[tuple[int, int], float] = {}
    scores = explanation.edge_mask.tolist()
    for place, ((u, v), number) in enumerate(zip(ends.T.tolist(), numbers, strict=True)):
        pair = (min(u, v), max(u, v))
        true = (known is not None and float(known[place]) > 0) or (pair in out and out[pair][1])
        first = out[pair][0].data["edge"] if pair in out else str(number)
        best[pair] = score = max(scores[place], best.get(pair, 0.0))
        title = f"{u} – {v}: {score:.3f}"
        data = {"edge": first, "source": str(u), "target": str(v), "score": f"{score:.4f}"}
        if spread is not None:
            title += f" ± {spread[place]:.3f}"
            data["spread"] = f"{spread[place]:.4f}"
        if true:
            title, data["truth"] = f"{title} (ground truth)", "1"
        out[pair] = (Tag(title, data), true)
    return out
