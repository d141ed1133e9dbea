"""Patterns as a page: every pattern drawn, with its statistics and three molecules that have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gsat.draw.molecule import ColourScale, Formula, formula, formula_svg
from gsat.draw.molecule_page import (
    effect_bar,
    largest_effect,
    odds_factor,
    render_page,
    scale_values,
    signed,
)

if TYPE_CHECKING:
    from gsat.explain.molecules import ExplainedMolecule, ReportInfo
    from gsat.explain.patterns import Pattern, PatternGroup

SIGNIFICANT: Final = 0.05
SHOWN: Final = 12  # patterns of a group
EXAMPLE: Final = (180, 130)
FRAGMENT_SIZE: Final = (150, 80)


def pattern_page(
    groups: Sequence[PatternGroup], molecules: Sequence[ExplainedMolecule], info: ReportInfo
) -> str:
    """Make a page of patterns that needs no other file."""
    shown = [[p for p in group.patterns if p.odds_ratio > 1][:SHOWN] for group in groups]
    examples = {i for patterns in shown for pattern in patterns for i in pattern.examples}
    scale = ColourScale.of([molecules[i].explanation for i in sorted(examples)])
    largest = largest_effect([_length(p) for patterns in shown for p in patterns])
    listed = [
        {
            "heading": group.name if info.regression else f"Predicted {group.name}",
            "size": group.size,
            "total": group.total,
            "effect_of": info.effect_of(group.target),
            "patterns": [_row(pattern, molecules, scale, largest) for pattern in patterns],
        }
        for group, patterns in zip(groups, shown, strict=True)
    ]
    return render_page(
        "patterns.html",
        title=info.title,
        about=info.about,
        notes=info.notes,
        groups=listed,
        unit="prediction" if info.regression else "probability",
        tests=sum(len(group.patterns) for group in groups),
        limit=SIGNIFICANT,
        foot="Made with gsat.",
        **scale_values(scale),
    )


def _row(
    pattern: Pattern, molecules: Sequence[ExplainedMolecule], scale: ColourScale, largest: float
) -> dict[str, Any]:
    return {
        "name": pattern.name,
        "smiles": pattern.smiles,
        "svg": _fragment_svg(pattern.smiles),
        "occurs": pattern.occurs,
        "used": pattern.used,
        "used_in_group": pattern.used_in_group,
        "odds": f"{pattern.odds_ratio:.1f}" if pattern.odds_ratio < 1000 else "> 1000",
        "q": f"{pattern.q_value:.2g}",
        "significant": pattern.q_value <= SIGNIFICANT,
        "bar": effect_bar(_length(pattern), largest),
        "effect": _effect(pattern),
        "factor": odds_factor(pattern.log_odds),
        "examples": [_example(molecules[i], scale) for i in pattern.examples],
    }


def _length(pattern: Pattern) -> float | None:
    """What the bar shows: the effect on log-odds, or on a number."""
    return pattern.effect if pattern.log_odds is None else pattern.log_odds


def _effect(pattern: Pattern) -> str:
    if pattern.effect is None or pattern.deviation is None:
        return ""
    return f"{signed(pattern.effect)} ± {pattern.deviation:.2f}"


def _example(molecule: ExplainedMolecule, scale: ColourScale) -> dict[str, str]:
    drawn = formula(molecule.explanation, molecule=molecule.molecule)
    named = molecule.name or ("" if molecule.line is None else f"line {molecule.line}")
    predicted = molecule.explanation.caption().removeprefix("predicted ")
    return {
        "svg": "" if drawn is None else formula_svg(drawn, scale, EXAMPLE, compact=True),
        "caption": f"{named}: {predicted}" if named else predicted,
    }


def _fragment_svg(smiles: str) -> str:
    """Draw a fragment alone; empty if RDKit can't read it."""
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(smiles)
    if molecule is None:
        return ""
    atoms, bonds = np.zeros(molecule.GetNumAtoms()), np.zeros(molecule.GetNumBonds())
    drawn = Formula(molecule, atoms, bonds, list(range(len(atoms))))
    return formula_svg(drawn, ColourScale(0.0, 1.0), FRAGMENT_SIZE, compact=True)
