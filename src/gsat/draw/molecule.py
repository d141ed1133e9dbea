"""Explained molecules as structural formulae, drawn by RDKit.

Bonds and atoms carry the colour of their score behind the formula; elements keep their colours. All
pictures of a page can share one :class:`ColourScale`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gsat.core.errors import DataError, MissingExtraError
from gsat.draw.legend import Entry
from gsat.draw.options import DrawingOptions
from gsat.draw.scales import FADED, ColourScale
from gsat.draw.scene import edge_tag
from gsat.draw.shapes import Circles, Floats, Inset, Layer, Part, Strokes, Tag
from gsat.molecules import molecule_of

if TYPE_CHECKING:
    from gsat.explanation import Explanation

_BOND: Final = 26.0  # pixels
# RDKit's colours of light elements, darker: they stand on colours of scores, too.
_PALETTE: Final = {9: (0.0, 0.45, 0.45), 16: (0.58, 0.45, 0.0), 17: (0.0, 0.5, 0.0)}
_MOST_ATOMS: Final = 500  # RDKit places 500 atoms in 0.1 s, 1500 in 5 s
_PIXEL: Final = 0.01  # inches
_WIDEST, _SMALLEST = 900, 60  # pixels
_HALO: Final = 17.0  # points: wider than the colour of a bond
_RING: Final = 12.0  # pixels: wider than the colour of an atom
_HIT: Final = 9.0  # points: where a pointer finds a bond
_STYLE: Final = re.compile(r" style='([^']*)'")
_CLASS: Final = re.compile(r" class='[^']*'")


@dataclass(frozen=True)
class Formula:
    """A molecule to draw, without the hydrogens that chemists leave out."""

    molecule: Any  # RDKit's ``Mol``
    atoms: Floats  # scores
    bonds: Floats  # scores; NaN where there is none
    numbers: list[int]  # of the atoms in the graph
    aromatic: bool = False  # whether aromatic bonds are dashed
    numbered: bool = False  # whether the numbers stand beside the atoms


def formula(
    explanation: Explanation, options: DrawingOptions | None = None, molecule: Any = None
) -> Formula | None:
    """Prepare the structural formula of an explained graph; None if it has none or is too large."""
    options = DrawingOptions() if options is None else options
    top = options.top
    smiles = explanation.get("smiles")
    if not isinstance(smiles, str) or not smiles or explanation.get("node") is not None:
        return None
    if molecule is None:
        atoms_in_all = int(explanation.get("whole_nodes") or explanation.num_nodes)
        try:
            molecule = molecule_of(smiles, atoms_in_all)
        except (DataError, MissingExtraError):
            return None
    kept = [True] * len(explanation.edge_mask) if top is None else explanation.in_top(top).tolist()
    node_id = explanation.get("node_id")
    ends = explanation.edge_index if node_id is None else node_id[explanation.edge_index]
    own = explanation.get("node_mask")
    # The weight of a bond is the product of its atoms' scores: its root is on their scale.
    weights = explanation.edge_mask if own is None else explanation.edge_mask.sqrt()
    atoms = np.zeros(molecule.GetNumAtoms())
    if len(atoms) > _MOST_ATOMS:
        return None
    bonds = np.full(molecule.GetNumBonds(), np.nan)
    shown = np.full(molecule.GetNumAtoms(), top is None)
    found = explanation.found
    for (u, v), score, keep in zip(ends.T.tolist(), weights.tolist(), kept, strict=True):
        bond = molecule.GetBondBetweenAtoms(u, v)
        if bond is None:
            return None
        score = score if found and keep else 0.0
        shown[[u, v]] |= keep
        bonds[bond.GetIdx()] = np.fmax(bonds[bond.GetIdx()], score)
        atoms[[u, v]] = np.maximum(atoms[[u, v]], score)
    if own is not None and found:
        places = slice(None) if node_id is None else node_id.numpy(force=True)
        atoms[places] = own[:, 0].numpy(force=True)
        atoms[~shown] = 0.0
    drawn = _without_hydrogens(molecule, atoms, bonds)
    return replace(drawn, aromatic=options.aromatic, numbered=options.numbers)


def _without_hydrogens(molecule: Any, atoms: Floats, bonds: Floats) -> Formula:
    """Leave out plain hydrogens; the atom that one is bound to takes its score over."""
    if all(atom.GetAtomicNum() != 1 for atom in molecule.GetAtoms()):
        return Formula(molecule, atoms, bonds, list(range(len(atoms))))
    from rdkit import Chem, rdBase

    for atom in molecule.GetAtoms():
        atom.SetIntProp("number", atom.GetIdx())
    for bond in molecule.GetBonds():
        bond.SetIntProp("number", bond.GetIdx())
    with rdBase.BlockLogs():
        plain = Chem.RemoveHs(molecule)
    atoms = atoms.copy()
    kept = {atom.GetIntProp("number") for atom in plain.GetAtoms()}
    for bond in molecule.GetBonds():
        u, v = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        if (u in kept) != (v in kept):
            heavy, gone = (u, v) if u in kept else (v, u)
            atoms[heavy] = max(atoms[heavy], atoms[gone])
    numbers = [atom.GetIntProp("number") for atom in plain.GetAtoms()]
    own = [bond.GetIntProp("number") for bond in plain.GetBonds()]
    return Formula(plain, atoms[numbers], bonds[own] if own else np.zeros(0), numbers)


def formula_svg(
    drawn: Formula,
    scale: ColourScale,
    size: tuple[int, int] = (-1, -1),
    *,
    compact: bool = False,
    classes: bool = False,
) -> str:
    """Draw a formula as SVG."""
    from rdkit.Chem.Draw import rdMolDraw2D

    canvas = rdMolDraw2D.MolDraw2DSVG(*size, -1, -1, compact)
    _draw(canvas, drawn, scale)
    text = canvas.GetDrawingText()
    text = text[text.index("<svg") :].replace("<!-- END OF HEADER -->\n", "")
    return _compacted(text, classes) if compact else text


def natural_size(drawn: Formula) -> tuple[int, int]:
    """Return the width and height in pixels that a formula needs."""
    match = re.search(r"width='(\d+)px' height='(\d+)px'", formula_svg(drawn, ColourScale(0, 1)))
    return (int(match[1]), int(match[2])) if match else (200, 200)


def atom_places(drawn: Formula, size: tuple[int, int]) -> Floats:
    """Return where the atoms of a formula are drawn."""
    from rdkit.Chem.Draw import rdMolDraw2D

    canvas = rdMolDraw2D.MolDraw2DSVG(*size)
    _draw(canvas, drawn, ColourScale(0, 1))
    places = [canvas.GetDrawCoords(atom) for atom in range(drawn.molecule.GetNumAtoms())]
    return np.array([(place.x, size[1] - place.y) for place in places]).reshape(-1, 2)


def _draw(canvas: Any, drawn: Formula, scale: ColourScale, zoom: float = 1) -> None:
    from rdkit.Chem.Draw import rdMolDraw2D

    options = canvas.drawOptions()
    options.bondLineWidth = 1.3 * zoom
    options.scaleBondWidth = False
    options.fixedBondLength = _BOND * zoom
    options.highlightBondWidthMultiplier = round(20 / zoom)
    options.highlightRadius = 0.28
    options.updateAtomPalette(_PALETTE)
    options.fillHighlights = True
    options.atomHighlightsAreCircles = True
    options.standardColoursForHighlightedAtoms = True
    options.clearBackground = False
    options.padding = 0.04
    options.prepareMolsBeforeDrawing = False
    shown = drawn.molecule
    if drawn.numbered:
        shown = type(shown)(shown)  # the note is not for other pictures of it
        for atom, number in zip(shown.GetAtoms(), drawn.numbers, strict=True):
            atom.SetProp("atomNote", str(number))
        options.annotationFontScale = 0.55
    atoms = {i: score for i, score in enumerate(drawn.atoms.tolist()) if scale.share(score) > 0}
    bonds = {i: score for i, score in enumerate(drawn.bonds.tolist()) if scale.share(score) > 0}
    molecule = rdMolDraw2D.PrepareMolForDrawing(shown, kekulize=not drawn.aromatic)
    canvas.DrawMolecule(
        molecule,
        highlightAtoms=list(atoms),
        highlightBonds=list(bonds),
        highlightAtomColors={i: scale.colour(score) for i, score in atoms.items()},
        highlightBondColors={i: scale.colour(score) for i, score in bonds.items()},
    )
    canvas.FinishDrawing()


def _compacted(svg: str, classes: bool) -> str:
    """Shorten an SVG: attributes in place of styles, and none that are the browser's own."""
    svg = _STYLE.sub(lambda match: _attributes(match[1]), svg if classes else _CLASS.sub("", svg))
    svg = " ".join(line.strip() for line in svg.splitlines() if ":rdkit=" not in line)
    return svg.replace("<svg ", '<svg font-family="sans-serif" ', 1)


@lru_cache(maxsize=1 << 12)
def _attributes(text: str) -> str:
    """Write a style as attributes, without those that are the browser's own."""
    style = dict(part.split(":", 1) for part in text.split(";") if ":" in part)
    stroked = style.get("stroke", "none") != "none" and style.get("stroke-width") != "0.0px"
    out = ""
    for name in ("fill", "stroke", "stroke-width", "font-size", "text-anchor"):
        value = style.get(name, "").removesuffix("px")
        if not value or (name.startswith("stroke") and not stroked):
            continue
        if (name, value) not in (("fill", "#000000"), ("text-anchor", "start")):
            out += f' {name}="{value}"'
    return out


@dataclass(frozen=True)
class MoleculePicture:
    """A structural formula, with the truth behind it."""

    formula: Formula
    scale: ColourScale
    tags: list[Tag]  # of the bonds in RDKit's order, empty where the graph has no edge
    true: list[bool]  # bonds of the ground truth
    true_atoms: list[int]  # atoms with bonds of the ground truth to hydrogens that are not drawn
    label: str  # of the scale; empty if nothing is coloured
    uncertain: str = ""  # uncertainty of the scores in words
    scene: None = None

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches that suit the molecule."""
        wide, high = natural_size(self.formula)
        shrink = min(1.0, _WIDEST / wide, _WIDEST / high)
        return (
            _PIXEL * max(round(wide * shrink), _SMALLEST),
            _PIXEL * max(round(high * shrink), _SMALLEST),
        )

    def part(self, box: tuple[float, float, float, float], **text: Any) -> Part:
        """Fit the formula into a part of a sheet; ``text`` as for graphs."""
        wide, high = round(box[2] / _PIXEL), round(box[3] / _PIXEL)
        at = atom_places(self.formula, (wide, high))
        lines = [
            at[[bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()]]
            for bond in self.formula.molecule.GetBonds()
        ]
        layers: list[Layer] = []
        if true := [line for line, marked in zip(lines, self.true, strict=True) if marked]:
            layers.append(Strokes("truth", true, "halo", widths=_HALO))
        if self.true_atoms:
            layers.append(Circles("true atoms", at[self.true_atoms], _RING, "halo"))

        def svg(size: tuple[int, int]) -> str:
            return formula_svg(self.formula, self.scale, size, compact=True, classes=True)

        def png(size: tuple[int, int], zoom: float) -> bytes:
            from rdkit.Chem.Draw import rdMolDraw2D

            canvas = rdMolDraw2D.MolDraw2DCairo(*size)
            _draw(canvas, self.formula, self.scale, zoom)
            return bytes(canvas.GetDrawingText())

        layers.append(Inset("formula", svg, png))
        if drawn := [i for i, tag in enumerate(self.tags) if tag.title]:
            # Invisible lines, by which a page finds the bonds.
            paths, tags = [lines[i] for i in drawn], [self.tags[i] for i in drawn]
            layers.append(Strokes("edges", paths, "ink", 0.0, _HIT, tags=tags))
        return Part("molecule", box, (0.0, 0.0, wide, high), layers, **text)

    def entries(self, scores_of: str = "") -> list[Entry]:
        """Return the legend; ``scores_of`` names the method where there are several."""
        out, scale = [], self.scale
        if self.label:
            what = f"{scores_of}: {self.label}" if scores_of else self.label
            out.append(Entry("formula", f"{what} {scale.low:.2f}", f"{scale.high:.2f}", scale.fade))
        if any(self.true) or self.true_atoms:
            out.append(Entry("truth", after="ground truth"))
        return out


def molecule_picture(
    explanation: Explanation, options: DrawingOptions, scale: ColourScale | None = None
) -> MoleculePicture | None:
    """Prepare the picture of a molecule."""
    drawn = formula(explanation, options)
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
    label = "bond score" if explanation.get("node_mask") is None else "atom score"
    if options.top is not None:
        label = f"score of the top {str(options.top).strip()} bonds"
    label = label if explanation.found else ""
    return MoleculePicture(drawn, scale, tags, true, true_atoms, label, uncertain)


def _edges(
    explanation: Explanation, spread: Floats | None, truth: bool
) -> dict[tuple[int, int], tuple[Tag, bool]]:
    """Return the tag of each bond and whether it is true, by the numbers of its atoms."""
    node_id, edge_id = explanation.get("node_id"), explanation.get("edge_id")
    ends = explanation.edge_index if node_id is None else node_id[explanation.edge_index]
    numbers = range(len(explanation.edge_mask)) if edge_id is None else edge_id.tolist()
    known = explanation.get("edge_truth") if truth else None
    places: dict[tuple[int, int], list[int]] = {}
    for place, (u, v) in enumerate(ends.T.tolist()):
        places.setdefault((min(u, v), max(u, v)), []).append(place)
    scores, out = explanation.edge_mask.tolist(), {}
    for (u, v), own in places.items():
        true = known is not None and any(float(known[place]) > 0 for place in own)
        certain = None if spread is None else spread[own[-1]]
        score = max(0.0, *(scores[place] for place in own))
        tag = edge_tag(f"{u} – {v}", (numbers[own[0]], u, v), score, certain, true)
        out[u, v] = (tag, true)
    return out
