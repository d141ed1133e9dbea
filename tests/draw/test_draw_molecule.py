"""Structural formulae: scores at the right bonds, well-formed files, one colour scale."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.image import imread
from rdkit import Chem

from explained_molecules import explanation_of
from gsat.draw import draw_grid, explanation_svg
from gsat.draw.molecule import Formula, atom_places, formula, formula_svg
from gsat.draw.options import DrawingOptions
from gsat.draw.scales import ColourScale, hexadecimal
from gsat.explanation import Explanation
from gsat.molecules.smiles import write_smiles

NITRO = "O=[N+]([O-])c1ccccc1C"
HIGH = {(0, 1): 0.9, (1, 2): 0.7}


def drawn_of(explanation: Explanation, **options: object) -> Formula:
    found = formula(explanation, DrawingOptions(**options))  # type: ignore[arg-type]
    assert found is not None
    return found


def colours_in(svg: str) -> set[str]:
    """The colours of areas; RDKit fills highlights only, but for the glyphs of atoms."""
    fills = re.findall(r"fill:(#[0-9A-F]{6});fill-rule", svg)
    return {colour.lower() for colour in fills}


def test_very_large_molecules_have_no_formula() -> None:
    assert formula(explanation_of("C" * 500, {})) is not None
    assert formula(explanation_of("C1" + "C" * 499 + "C1", {})) is None


def test_bonds_have_the_scores_of_their_edges() -> None:
    found = drawn_of(explanation_of(NITRO, HIGH))
    for bond in found.molecule.GetBonds():
        ends = tuple(sorted((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())))
        assert found.bonds[bond.GetIdx()] == pytest.approx(HIGH.get(ends, 0.1))
    assert found.atoms[:4] == pytest.approx([0.9, 0.9, 0.7, 0.1])
    assert found.numbers == list(range(10))


def test_atoms_have_their_own_scores_where_the_model_attends_to_nodes() -> None:
    own = torch.linspace(0, 1, 10)
    explanation = explanation_of(NITRO, HIGH, node_mask=own[:, None])
    explanation.edge_mask = own[explanation.edge_index].prod(dim=0)
    found = drawn_of(explanation)
    assert found.atoms == pytest.approx(own.tolist())
    for bond in found.molecule.GetBonds():
        ends = own[bond.GetBeginAtomIdx()] * own[bond.GetEndAtomIdx()]
        assert found.bonds[bond.GetIdx()] == pytest.approx(float(ends) ** 0.5)
    best = drawn_of(explanation, top=1)
    assert np.flatnonzero(best.atoms).tolist() == [8, 9], "the ends of the best bond"
    part = drawn_of(explanation.top(1))
    assert np.flatnonzero(part.atoms).tolist() == [8, 9]


def test_hydrogens_are_left_out_and_pass_their_score_on() -> None:
    # Methylamine with all hydrogens as nodes.
    bonds = [(0, 1, 1), (0, 2, 1), (0, 3, 1), (1, 4, 1), (1, 5, 1), (1, 6, 1)]
    smiles = write_smiles(["N", "C", "H", "H", "H", "H", "H"], bonds)
    index = torch.tensor([[a, b] for a, b, _ in bonds for a, b in ((a, b), (b, a))]).T
    scores = {(0, 2): 0.9, (0, 3): 0.8}
    out = Explanation(edge_index=index, num_nodes=7, smiles=smiles, undirected=True, r=0.5)
    out.edge_mask = torch.tensor([scores.get((min(p), max(p)), 0.1) for p in index.T.tolist()])
    found = drawn_of(out)
    assert found.molecule.GetNumAtoms() == 2
    assert found.atoms == pytest.approx([0.9, 0.1])
    assert found.bonds == pytest.approx([0.1])


@pytest.mark.parametrize(
    "change",
    [{"smiles": ""}, {"smiles": "C("}, {"smiles": "CC"}, {"smiles": "C" * 10}, {"node": 3}],
)
def test_what_is_no_molecule_has_no_formula(change: dict[str, object]) -> None:
    # "CCCCCCCCCC" has as many atoms, and other bonds.
    explanation = explanation_of(NITRO, HIGH)
    for name, value in change.items():
        explanation[name] = value
    assert formula(explanation) is None


def test_only_bonds_above_the_scale_are_coloured() -> None:
    explanation = explanation_of(NITRO, HIGH)
    scale = ColourScale(0.5, 0.9)
    svg = formula_svg(drawn_of(explanation), scale)
    ET.fromstring(svg)
    # Colours go through RDKit as floats.
    near = {hexadecimal(scale.colour(score)) for score in HIGH.values()}
    found = colours_in(svg) - {"#000000"}
    assert any(_close(colour, other) for colour in near for other in found)
    highlights = re.findall(r"<path class='bond-(\d+)[^>]*fill-rule:evenodd;fill-opacity:1", svg)
    coloured = {int(bond) for bond in highlights}
    molecule = Chem.MolFromSmiles(NITRO)
    assert coloured == {molecule.GetBondBetweenAtoms(*ends).GetIdx() for ends in HIGH}


def _close(one: str, other: str) -> bool:
    parts = zip(*(bytes.fromhex(text[1:]) for text in (one, other)), strict=True)
    return all(abs(a - b) <= 1 for a, b in parts)


def test_only_the_best_bonds_are_coloured_on_request() -> None:
    found = drawn_of(explanation_of(NITRO, HIGH), top=1)
    kept = np.flatnonzero(found.bonds > 0)
    assert len(kept) == 1
    assert found.bonds[kept[0]] == pytest.approx(0.9)


def test_nothing_is_coloured_where_nothing_stands_out() -> None:
    bonds = {
        (b.GetBeginAtomIdx(), b.GetEndAtomIdx()): 0.5 for b in Chem.MolFromSmiles(NITRO).GetBonds()
    }
    explanation = explanation_of(NITRO, bonds)
    assert not explanation.found
    assert not drawn_of(explanation).bonds.any()


def test_a_scale_is_shared_by_all_molecules() -> None:
    low, high = explanation_of("CCO", {(0, 1): 0.6}), explanation_of("CCN", {(0, 1): 0.9})
    scale = ColourScale.of([low, high])
    assert scale == ColourScale(pytest.approx(0.5), pytest.approx(0.9))
    assert (scale.share(0.5), scale.share(0.7), scale.share(0.95)) == (0, pytest.approx(0.5), 1)
    assert scale.share(math.nan) == 0
    assert scale.colour(0.2) == (1, 1, 1)
    assert hexadecimal(scale.colour(1)) == "#ec791b"
    assert ColourScale.of([]) == ColourScale(0, 1)


def test_a_scale_has_a_width_even_if_all_scores_are_equal() -> None:
    bonds = {(0, 1): 0.1}
    scale = ColourScale.of([explanation_of("CC", bonds, r=None)])
    assert scale.high > scale.low


def test_numbers_and_dashed_bonds_are_drawn_on_request() -> None:
    explanation, scale = explanation_of(NITRO, HIGH), ColourScale(0.5, 1)
    plain = formula_svg(drawn_of(explanation), scale)
    assert "class='note'" not in plain
    assert "class='note'" in formula_svg(drawn_of(explanation, numbers=True), scale)
    assert "class='note'" not in formula_svg(drawn_of(explanation), scale), "notes are gone again"
    assert formula_svg(drawn_of(explanation, aromatic=True), scale) != plain


def test_a_compact_picture_is_well_formed_and_smaller() -> None:
    found, scale = drawn_of(explanation_of(NITRO, HIGH)), ColourScale(0.5, 1)
    whole, compact = (formula_svg(found, scale, (300, 200), compact=c) for c in (False, True))
    ET.fromstring(compact)
    assert len(compact) < len(whole) / 2
    assert "class=" not in compact
    assert "style=" not in compact


def test_explanations_of_molecules_save_themselves_as_formulae(tmp_path: Path) -> None:
    explanation = explanation_of(NITRO, HIGH, class_names=["safe", "<toxic> & more"])
    text = explanation.save(tmp_path / "m.svg").read_text(encoding="utf-8")
    root = ET.fromstring(text)
    words = " ".join(element.text or "" for element in root.iter() if element.tag.endswith("text"))
    assert "predicted <toxic> & more (0.80)" in words
    assert "bond score" in words
    bonds = [e for e in root.iter() if e.get("data-edge") is not None]
    assert len(bonds) == 10, "a page finds each bond once"
    assert "style=" not in text, "a page may forbid inline styles"
    for suffix in (".png", ".pdf", ".html", ".json", ".csv"):
        path = explanation.save(tmp_path / f"m{suffix}", numbers=True)
        assert path.stat().st_size > 100
    assert imread(tmp_path / "m.png").shape[0] > 200
    assert explanation._repr_svg_() == text


def test_the_truth_lies_behind_the_formula_and_can_be_left_out() -> None:
    explanation = explanation_of(NITRO, HIGH)
    explanation.edge_truth = (explanation.edge_mask > 0.5).long()
    svg = explanation_svg(explanation)
    assert svg.index('class="truth"') < svg.index("<svg ", 1)
    true = [e for e in ET.fromstring(svg).iter() if e.get("data-truth") == "1"]
    assert {float(e.get("data-score", 0)) > 0.5 for e in true} == {True}
    assert "ground truth" in svg
    bare = explanation_svg(explanation, truth=False)
    assert 'class="truth"' not in bare
    assert "ground truth" not in bare


def test_the_truth_of_hydrogens_that_are_not_drawn_is_around_their_atom(
    explain: Callable[..., Explanation],
) -> None:
    bonds, scores, truth = [(0, 1), (1, 2), (1, 3)], [0.9, 0.8, 0.1], [1, 1, 0]
    explanation = explain(bonds, scores, truth=truth, smiles="[H]N([H])C")
    root = ET.fromstring(explanation_svg(explanation))
    groups = [e for e in root.iter() if e.get("class") == "true-atoms"]
    assert [len(group) for group in groups] == [1]
    assert not [e for e in root.iter() if e.get("class") == "truth"]
    assert "ground truth" in "".join(e.text or "" for e in root.iter())


def test_unreliable_explanations_have_pale_colours() -> None:
    scale = ColourScale(0.5, 1, fade=0.4)
    assert all(p > b for p, b in zip(scale.colour(1), ColourScale(0.5, 1).colour(1), strict=True))
    svg = explanation_svg(explanation_of(NITRO, HIGH), doubt="seeds disagree")
    assert "unreliable: seeds disagree" in svg
    assert "#ec791b" not in svg.lower().split("</svg>")[0]


def test_places_of_atoms_are_those_of_the_picture() -> None:
    found = drawn_of(explanation_of(NITRO, HIGH))
    at = atom_places(found, (300, 200))
    svg = formula_svg(found, ColourScale(2, 3), (300, 200))
    for bond in found.molecule.GetBonds():
        ends = at[[bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()]]
        paths = re.findall(rf"class='bond-{bond.GetIdx()} [^']*' d='([^']*)'", svg)
        drawn = np.array([float(n) for p in paths for n in re.findall(r"[\d.]+", p)]).reshape(-1, 2)
        drawn[:, 1] = 200 - drawn[:, 1]
        assert (drawn >= ends.min(axis=0) - 6).all()
        assert (drawn <= ends.max(axis=0) + 6).all()


def test_molecules_stand_in_a_grid_as_formulae(tmp_path: Path) -> None:
    draw_grid([explanation_of(NITRO, HIGH)] * 3, tmp_path / "g.svg")
    root = ET.parse(tmp_path / "g.svg").getroot()
    assert sum(element.tag.endswith("svg") for element in root.iter()) == 1 + 3
    figure = draw_grid([explanation_of(NITRO, HIGH)] * 3)
    assert [len(axes.images) for axes in figure.axes] == [1, 1, 1, 0]


def test_a_subgraph_is_drawn_within_the_whole_molecule(tmp_path: Path) -> None:
    explanation = explanation_of(NITRO, HIGH)
    part = explanation.top(1)
    assert part.num_nodes == 2
    found = drawn_of(part)
    assert found.molecule.GetNumAtoms() == 10
    assert np.nansum(found.bonds) == pytest.approx(0.9)
    assert part.top(1).save(tmp_path / "part.svg").is_file()
