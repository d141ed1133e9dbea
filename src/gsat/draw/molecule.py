"""Explained molecules as structural formulae, drawn by RDKit.

Bonds and atoms carry the colour of their score behind the formula; elements keep theirs. All
pictures of a page can share one :class:`ColourScale`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from gsat.core.errors import DataError, MissingExtraError
from gsat.molecules import molecule_of

if TYPE_CHECKING:
    from gsat.explanation import Explanation

Colour = tuple[float, float, float]
# From white to the full colour: letters of elements stay readable on all of them.
_STOPS: Final = ((255, 255, 255), (255, 234, 190), (253, 191, 99), (236, 121, 27))
_STEP: Final = 0.05  # a scale is at least this wide
_BOND: Final = 26.0  # pixels
# RDKit's colours of light elements, darker: they stand on colours of scores, too.
_PALETTE: Final = {9: (0.0, 0.45, 0.45), 16: (0.58, 0.45, 0.0), 17: (0.0, 0.5, 0.0)}
_STYLE: Final = re.compile(r" style='([^']*)'")
_CLASS: Final = re.compile(r" class='[^']*'")


@dataclass(frozen=True)
class ColourScale:
    """Scores to colours: white up to ``low``, the full colour from ``high``.

    Attributes:
        low: Scores up to this one have no colour.
        high: Scores from this one on have the full colour.
        fade: How much of the colours is left, from 0 to 1. (default: ``1.0``)
    """

    low: float
    high: float
    fade: float = 1.0

    @classmethod
    def of(cls, explanations: Iterable[Explanation]) -> ColourScale:
        """Choose the scale of one or several explanations.

        It reaches from the middle between the lowest and the highest score (or from r, the prior,
        if that is higher) to the highest score. Scores are those of atoms where the model attends
        to nodes, else those of bonds.
        """
        found = [e for e in explanations if len(e.edge_mask)]
        if not found:
            return cls(0.0, 1.0)
        scores = [e.edge_mask if e.get("node_mask") is None else e.node_mask for e in found]
        lowest = min(float(values.min()) for values in scores)
        highest = max(float(values.max()) for values in scores)
        prior = max((float(e.r) for e in found if e.get("r") is not None), default=0.0)
        low = max((lowest + highest) / 2, min(prior, highest))
        high = max(highest, low + _STEP)
        if highest <= 1 < high:  # no score is above 1: the scale widens downwards
            return cls(1 - _STEP, 1.0)
        return cls(low, high)

    def share(self, score: float) -> float:
        """Return where a score is on the scale, from 0 (no colour) to 1."""
        # NaN, the score of a bond that has none, is not above anything.
        return min((score - self.low) / (self.high - self.low), 1.0) if score > self.low else 0.0

    def colour(self, score: float) -> Colour:
        """Return the colour of a score: red, green and blue from 0 to 1."""
        red, green, blue = (1 - self.fade * (1 - part) for part in mixed(self.share(score)))
        return red, green, blue


def mixed(share: float) -> Colour:
    """Return the colour at a share of the scale, from 0 to 1."""
    place = share * (len(_STOPS) - 1)
    step = min(int(place), len(_STOPS) - 2)
    red, green, blue = (
        (below + (place - step) * (above - below)) / 255
        for below, above in zip(_STOPS[step], _STOPS[step + 1], strict=True)
    )
    return red, green, blue


def hexadecimal(colour: Colour) -> str:
    """Write a colour as HTML does: ``#ffbf63``."""
    return "#" + "".join(f"{round(255 * part):02x}" for part in colour)


@dataclass(frozen=True)
class Formula:
    """A molecule to draw, without the hydrogens that chemists leave out.

    Attributes:
        molecule: The RDKit ``Mol`` that is drawn.
        atoms: The score of each of its atoms.
        bonds: The score of each of its bonds; NaN where there is none.
        numbers: The number of each of its atoms in the graph.
    """

    molecule: Any
    atoms: NDArray[np.float64]
    bonds: NDArray[np.float64]
    numbers: list[int]


def formula(
    explanation: Explanation, top: int | str | None = None, molecule: Any = None
) -> Formula | None:
    """Prepare the structural formula of an explained graph."""
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
    return _without_hydrogens(molecule, atoms, bonds)


def _without_hydrogens(
    molecule: Any, atoms: NDArray[np.float64], bonds: NDArray[np.float64]
) -> Formula:
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
    aromatic: bool = False,
    numbers: bool = False,
    compact: bool = False,
    classes: bool = False,
) -> str:
    """Draw a formula as SVG."""
    from rdkit.Chem.Draw import rdMolDraw2D

    canvas = rdMolDraw2D.MolDraw2DSVG(*size, -1, -1, compact)
    _draw(canvas, drawn, scale, aromatic, numbers)
    text = canvas.GetDrawingText()
    text = text[text.index("<svg") :].replace("<!-- END OF HEADER -->\n", "")
    return _compacted(text, classes) if compact else text


def formula_png(
    drawn: Formula,
    scale: ColourScale,
    size: tuple[int, int],
    *,
    aromatic: bool = False,
    numbers: bool = False,
    zoom: float = 1.0,
) -> bytes:
    """Draw a formula as PNG."""
    from rdkit.Chem.Draw import rdMolDraw2D

    canvas = rdMolDraw2D.MolDraw2DCairo(*size)
    _draw(canvas, drawn, scale, aromatic, numbers, zoom)
    return bytes(canvas.GetDrawingText())


def natural_size(drawn: Formula) -> tuple[int, int]:
    """Return the width and height in pixels that a formula needs."""
    text = formula_svg(drawn, ColourScale(0, 1))
    found = re.search(r"width='(\d+)px' height='(\d+)px'", text)
    return (int(found[1]), int(found[2])) if found else (200, 200)


def atom_places(
    drawn: Formula, size: tuple[int, int], *, aromatic: bool = False, numbers: bool = False
) -> NDArray[np.float64]:
    """Return where the atoms of a formula are drawn."""
    from rdkit.Chem.Draw import rdMolDraw2D

    canvas = rdMolDraw2D.MolDraw2DSVG(*size)
    _draw(canvas, drawn, ColourScale(0, 1), aromatic, numbers)
    places = [canvas.GetDrawCoords(atom) for atom in range(drawn.molecule.GetNumAtoms())]
    return np.array([(place.x, size[1] - place.y) for place in places]).reshape(-1, 2)


def _draw(
    canvas: Any, drawn: Formula, scale: ColourScale, aromatic: bool, numbers: bool, zoom: float = 1
) -> None:
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
    if numbers:
        shown = type(shown)(shown)  # the note is not for other pictures of it
        for atom, number in zip(shown.GetAtoms(), drawn.numbers, strict=True):
            atom.SetProp("atomNote", str(number))
        options.annotationFontScale = 0.55
    atoms = {i: score for i, score in enumerate(drawn.atoms.tolist()) if scale.share(score) > 0}
    bonds = {i: score for i, score in enumerate(drawn.bonds.tolist()) if scale.share(score) > 0}
    molecule = rdMolDraw2D.PrepareMolForDrawing(shown, kekulize=not aromatic)
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
