"""What the page of patterns shows."""

from __future__ import annotations

from typing import Any, Final

from markupsafe import Markup

from gsat.draw.molecule import formula, formula_svg
from gsat.draw.pages import SHOWN, SIGNIFICANT
from gsat.draw.scales import ColourScale
from gsat.explain.molecules import ExplainedMolecule
from gsat.web.loaded import LoadedRun
from gsat.web.pictures import without_styles

EXAMPLE: Final = (180, 130)


def pattern_values(loaded: LoadedRun, split: str) -> dict[str, Any]:
    """Gather what the page of patterns shows."""
    report = loaded.patterns(split)
    shown = [[p for p in group.patterns if p.odds_ratio > 1][:SHOWN] for group in report.groups]
    used = sorted({i for patterns in shown for pattern in patterns for i in pattern.examples})
    scale = ColourScale.of([report.molecules[i].explanation for i in used])
    groups = [
        {
            "name": group.name,
            "size": group.size,
            "total": group.total,
            "effect_of": report.info.effect_of(group.target),
            "patterns": [
                {
                    "pattern": pattern,
                    "significant": pattern.q_value <= SIGNIFICANT,
                    "examples": [_example(report.molecules[i], scale) for i in pattern.examples],
                }
                for pattern in patterns
            ],
        }
        for group, patterns in zip(report.groups, shown, strict=True)
    ]
    tests = sum(len(group.patterns) for group in report.groups)
    return {"groups": groups, "notes": report.info.notes, "tests": tests, "limit": SIGNIFICANT,
            "regression": report.info.regression}  # fmt: skip


def _example(molecule: ExplainedMolecule, scale: ColourScale) -> dict[str, Any]:
    drawn = formula(molecule.explanation, molecule=molecule.molecule)
    svg = "" if drawn is None else formula_svg(drawn, scale, EXAMPLE, compact=True)
    return {
        "row": molecule.number,
        "svg": Markup(without_styles(svg)),
        "caption": molecule.explanation.caption().removeprefix("predicted "),
        "name": molecule.name or f"graph {molecule.number}",
    }
