"""Results as web pages that need no other file: one explanation, molecules, patterns, an audit.

Everything that comes from data is escaped; only our own pictures are not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gsat.draw.curves import Line, Panel, draw_curves
from gsat.draw.explanations import explanation_svg
from gsat.draw.figure import render
from gsat.draw.molecule import Formula, formula, formula_svg
from gsat.draw.options import DrawingOptions
from gsat.draw.scales import ColourScale, scale_colours
from gsat.draw.scene import scene

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gsat.audit.audit import Audit
    from gsat.audit.report import AuditReport
    from gsat.explain.fragments import ScoredFragment
    from gsat.explain.molecules import ExplainedMolecule, ReportInfo
    from gsat.explain.patterns import Pattern, PatternGroup
    from gsat.explanation import Explanation

# Sizes of formulae in pixels.
CARD: Final = (320, 220)
EXAMPLE: Final = (180, 130)
FRAGMENT: Final = (150, 80)
FRAGMENTS: Final = 4  # shown for a molecule
SIGNIFICANT: Final = 0.05  # largest q-value of a pattern that is not pale
SHOWN: Final = 12  # patterns of a group
FOOT: Final = (
    "A score is the probability with which the model keeps a bond, or an atom. The number of a "
    "fragment is its mean score, bold if it stands out in the molecule. Its effect is the answer "
    "for the whole molecule minus the answer without the fragment; for a probability, also the "
    "factor by which the fragment multiplies (×) or divides (÷) the odds p / (1 − p). The bar "
    "shows the odds: a probability near 0 or 1 hardly changes. Made with gsat."
)


# -- one explanation ------------------------------------------------------------------------------


def explanation_page(explanation: Explanation, **options: Any) -> str:
    """Make a page with the picture and the edges ranked by score."""
    title = options.pop("title", None)
    predicted = explanation.caption(options.get("class_names"))
    # The table needs the names and marks of the graph, but not its layout.
    flat = np.zeros((int(explanation.num_nodes or 0), 2))
    picture = scene(explanation, DrawingOptions(**options), at=flat)
    joint = "→" if picture.directed else "–"
    edges = [
        {
            "name": f"{picture.names[edge.source]} {joint} {picture.names[edge.target]}",
            "score": f"{edge.score:.4f}",
            "true": edge.true,
            "chosen": picture.chosen is not None and bool(picture.chosen[edge.unit]),
        }
        for edge in explanation.ranked_edges()
    ]
    heading = title or predicted or "Explained graph"
    lines = ["" if predicted == heading else predicted, explanation.message]
    return render_page(
        "explanation.html",
        title=heading,
        about=[line for line in (*lines, explanation.reliability) if line],
        label=predicted or "explained graph",
        svg=explanation_svg(explanation, **options),
        truth=explanation.get("edge_truth") is not None,
        edges=edges,
    )


# -- molecules ------------------------------------------------------------------------------------


def report_page(molecules: Sequence[ExplainedMolecule], info: ReportInfo) -> str:
    """Make a page of molecules with one colour scale, sortable."""
    scale = ColourScale.of([molecule.explanation for molecule in molecules])
    largest = largest_effect(
        [
            _length(molecule.effect(fragment), molecule.log_odds(fragment))
            for molecule in molecules
            for fragment in molecule.fragments[:FRAGMENTS]
        ]
    )
    targets = {molecule.target for molecule in molecules}
    one = info.effect_of(next(iter(targets))) if len(targets) == 1 else "the answer"
    cards = [_card(molecule, info, scale, largest) for molecule in molecules]
    has_lines = any(molecule.line is not None for molecule in molecules)
    known = any(card["truth"] for card in cards)
    for card, molecule in zip(cards, molecules, strict=True):
        card["place"] = molecule.number if molecule.line is None else molecule.line
        card["cells"] = [molecule.name, card["predicted"], *([card["truth"]] if known else [])]
    return render_page(
        "report.html",
        title=info.title,
        about=info.about,
        notes=info.notes,
        cards=cards,
        columns=["line" if has_lines else "number", "name", "prediction",
                 *(["truth"] if known else []), "SMILES"],
        value_name=one if len(targets) == 1 else "prediction",
        effect_of=one,
        has_confidence=any(card["confidence"] is not None for card in cards),
        has_near=any(card["similarity"] is not None for card in cards),
        rejected=info.rejected,
        foot=FOOT,
        **scale_values(scale),
    )  # fmt: skip


def _card(
    molecule: ExplainedMolecule, info: ReportInfo, scale: ColourScale, largest: float
) -> dict[str, Any]:
    explanation = molecule.explanation
    predicted, _, true = explanation.caption().partition(", true ")
    drawn = formula(explanation, molecule=molecule.molecule)
    fragments = [
        _fragment(molecule, fragment, largest) for fragment in molecule.fragments[:FRAGMENTS]
    ]
    near = molecule.nearest
    name = molecule.name or (
        f"molecule {molecule.number}" if molecule.line is None else f"line {molecule.line}"
    )
    values = explanation.probabilities.reshape(-1)
    values = values if len(values) else explanation.prediction.reshape(-1)
    return {
        "number": molecule.number,
        "name": name,
        "smiles": molecule.smiles,
        "svg": "" if drawn is None else formula_svg(drawn, scale, CARD, compact=True),
        "predicted": predicted,
        "truth": f"true {true}" if true else "",
        "wrong": bool(true) and _is_wrong(molecule, info),
        "value": f"{float(values[molecule.target]):.6g}",
        "confidence": None if explanation.confidence is None else f"{explanation.confidence:.6f}",
        "similarity": f"{near[0].similarity if near else 0:.4f}" if near is not None else None,
        "nearest": _nearest(molecule),
        "nearest_smiles": "\n".join(f"{n.similarity:.2f}  {n.smiles}" for n in near or ()),
        "notes": molecule.notes,
        "reliability": explanation.reliability,
        "fragments": fragments,
        "text": " ".join(
            [name, molecule.smiles, predicted, *(fragment["name"] for fragment in fragments)]
        ),
    }


def _fragment(
    molecule: ExplainedMolecule, fragment: ScoredFragment, largest: float
) -> dict[str, Any]:
    effect, log_odds = molecule.effect(fragment), molecule.log_odds(fragment)
    return {
        "name": fragment.name,
        "smiles": fragment.smiles,
        "used": fragment.used,
        "score": f"{fragment.score:.2f}",
        "bar": effect_bar(_length(effect, log_odds), largest),
        "effect": signed(effect),
        "odds": odds_factor(log_odds),
    }


def _nearest(molecule: ExplainedMolecule) -> str:
    if not molecule.nearest:
        return ""
    first = molecule.nearest[0]
    if first.similarity == 1:
        return f"nearest training molecule: similarity 1 (same fingerprint), {first.smiles}"
    return f"nearest training molecule: similarity {first.similarity:.2f}, {first.smiles}"


def _is_wrong(molecule: ExplainedMolecule, info: ReportInfo) -> bool:
    """Whether a known class or label differs from the prediction."""
    truth = molecule.explanation.get("y")
    if truth is None or info.regression:
        return False
    pairs = zip(
        molecule.explanation.prediction.reshape(-1).tolist(),
        truth.reshape(-1).tolist(),
        strict=False,
    )
    return any(not math.isnan(float(true)) and int(true) != given for given, true in pairs)


# -- patterns -------------------------------------------------------------------------------------


def pattern_page(
    groups: Sequence[PatternGroup], molecules: Sequence[ExplainedMolecule], info: ReportInfo
) -> str:
    """Make a page of patterns, each with its picture, statistics and three examples."""
    return render_page(
        "patterns.html",
        title=info.title,
        about=info.about,
        foot="Made with gsat.",
        **pattern_values(groups, molecules, info),
    )


def pattern_values(
    groups: Sequence[PatternGroup], molecules: Sequence[ExplainedMolecule], info: ReportInfo
) -> dict[str, Any]:
    """Gather what a page of patterns shows, here and in the web app."""
    shown = [[p for p in group.patterns if p.odds_ratio > 1][:SHOWN] for group in groups]
    examples = {i for patterns in shown for pattern in patterns for i in pattern.examples}
    scale = ColourScale.of([molecules[i].explanation for i in sorted(examples)])
    largest = largest_effect(
        [_length(p.effect, p.log_odds) for patterns in shown for p in patterns]
    )
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
    return {
        "notes": info.notes,
        "groups": listed,
        "unit": "prediction" if info.regression else "probability",
        "tests": sum(len(group.patterns) for group in groups),
        "limit": SIGNIFICANT,
        **scale_values(scale),
    }


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
        "bar": effect_bar(_length(pattern.effect, pattern.log_odds), largest),
        "effect": _effect(pattern),
        "factor": odds_factor(pattern.log_odds),
        "examples": [_example(molecules[i], scale) for i in pattern.examples],
    }


def _effect(pattern: Pattern) -> str:
    if pattern.effect is None or pattern.deviation is None:
        return ""
    return f"{signed(pattern.effect)} ± {pattern.deviation:.2f}"


def _example(molecule: ExplainedMolecule, scale: ColourScale) -> dict[str, Any]:
    drawn = formula(molecule.explanation, molecule=molecule.molecule)
    named = molecule.name or ("" if molecule.line is None else f"line {molecule.line}")
    predicted = molecule.explanation.caption().removeprefix("predicted ")
    return {
        "number": molecule.number,
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
    return formula_svg(drawn, ColourScale(0.0, 1.0), FRAGMENT, compact=True)


# -- audits ---------------------------------------------------------------------------------------


def audit_page(report: AuditReport) -> str:
    """Make a page with the verdict, the curves, and every measure with its meaning."""
    audit, verdict = report.audit, report.verdict
    svg = render(draw_audit(audit), ".svg").decode() if audit.curves["shares"] else ""
    return render_page(
        "audit.html",
        title=report.title,
        about=report.about,
        outcome=verdict.outcome,
        reasons=verdict.reasons,
        against=verdict.against,
        remedy=verdict.remedy,
        svg=svg[svg.find("<svg") :],  # a prolog has no place inside a page
        unit=audit.unit,
        groups=report.groups(),
    )


def draw_audit(audit: Audit) -> Figure:
    """Draw the curves of an audit: the predictions that stay as units are kept, and removed."""
    shares = [share for share in audit.curves["shares"] if share is not None]
    units = f"{audit.unit.capitalize()}s"
    panels = [
        Panel(
            title,
            f"share of {audit.unit}s {name}",
            "predictions that stay",
            [
                Line("by score", shares, audit.curves[name]),
                Line("at random", shares, audit.curves[f"random_{name}"]),
            ],
            y_range=(-0.02, 1.02),
        )
        for name, title in (("kept", f"{units} kept"), ("removed", f"{units} removed"))
    ]
    return draw_curves(panels, columns=2)


# -- effects in words -----------------------------------------------------------------------------


def signed(effect: float | None) -> str:
    """Write an effect with its sign; empty if there is none."""
    if effect is None:
        return ""
    digits = f"{effect:+.2f}" if abs(effect) < 100 else f"{effect:+.3g}"
    return digits.replace("-", "−").replace("+0.00", "0.00").replace("−0.00", "0.00")


def odds_factor(log_odds: float | None) -> str:
    """Write a change of log-odds as a factor of the odds, such as ``×20``."""
    if log_odds is None:
        return ""
    factor = math.exp(min(abs(log_odds), 50))
    digits = ">1000" if factor > 1000 else f"{factor:.{1 if factor < 9.95 else 0}f}"
    return f"{'÷' if log_odds < 0 and digits != '1.0' else '×'}{digits}"


def _length(effect: float | None, log_odds: float | None) -> float | None:
    """Return the length of an effect's bar: on log-odds or, in a regression, on the number."""
    return effect if log_odds is None else log_odds


def effect_bar(effect: float | None, largest: float) -> str:
    """Draw an effect as a bar to the right, if it raises the answer, or to the left."""
    if effect is None:
        return ""
    wide = 50 * min(abs(effect) / largest, 1) if largest else 0
    side = "left:50%" if effect >= 0 else "right:50%"
    kind = "raise" if effect >= 0 else "lower"
    return f'<span class="effect"><i class="{kind}" style="{side};width:{wide:.1f}%"></i></span>'


def largest_effect(effects: Sequence[float | None]) -> float:
    """Return the effect of the longest bar; a few outliers are cut off."""
    known = [abs(effect) for effect in effects if effect is not None]
    return float(np.quantile(known, 0.98)) if known else 0.0


def scale_values(scale: ColourScale) -> dict[str, Any]:
    """Return the ends and the colours of a scale for a template."""
    low, high = f"{scale.low:.2f}", f"{scale.high:.2f}"
    return {"low": low, "high": high, "colours": scale_colours(5)}


# -- templates ------------------------------------------------------------------------------------


def render_page(name: str, **values: Any) -> str:
    """Fill in a template; values from data are escaped."""
    return _templates().get_template(name).render(style=_text("style.css"), **values)


@cache
def _templates() -> Any:
    from jinja2 import Environment, FunctionLoader

    return Environment(
        loader=FunctionLoader(_text), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )


@cache
def _text(name: str) -> str:
    return (resources.files("gsat.draw") / "templates" / name).read_text(encoding="utf-8")
