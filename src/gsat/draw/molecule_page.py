"""A page of explained molecules: one colour scale, sortable, with the table they come from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gsat.draw.molecule import ColourScale, formula, formula_svg, hexadecimal, mixed

if TYPE_CHECKING:
    from gsat.explain.fragments import ScoredFragment
    from gsat.explain.molecules import ExplainedMolecule, ReportInfo

SIZE: Final = (320, 220)  # of a formula, in pixels
FRAGMENTS: Final = 4  # shown for a molecule
FOOT: Final = (
    "A score is the probability with which the model keeps a bond, or an atom. The number of a "
    "fragment is its mean score, bold if it stands out in the molecule. Its effect is the answer "
    "for the whole molecule minus the answer without the fragment; for a probability, also the "
    "factor by which the fragment multiplies (×) or divides (÷) the odds p / (1 − p). The bar "
    "shows the odds: a probability near 0 or 1 hardly changes. Made with gsat."
)


def report_page(molecules: Sequence[ExplainedMolecule], info: ReportInfo) -> str:
    """Make a page of molecules that needs no other file."""
    scale = ColourScale.of([molecule.explanation for molecule in molecules])
    largest = largest_effect(
        [
            _length(molecule, fragment)
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
        "svg": "" if drawn is None else formula_svg(drawn, scale, SIZE, compact=True),
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
    return {
        "name": fragment.name,
        "smiles": fragment.smiles,
        "used": fragment.used,
        "score": f"{fragment.score:.2f}",
        "bar": effect_bar(_length(molecule, fragment), largest),
        "effect": signed(molecule.effect(fragment)),
        "odds": odds_factor(molecule.log_odds(fragment)),
    }


def _length(molecule: ExplainedMolecule, fragment: ScoredFragment) -> float | None:
    """What the bar of a fragment shows: its effect on log-odds, or on a number."""
    change = molecule.log_odds(fragment)
    return molecule.effect(fragment) if change is None else change


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


def signed(effect: float | None) -> str:
    """Write an effect with its sign; empty if there is none."""
    if effect is None:
        return ""
    digits = f"{effect:+.2f}" if abs(effect) < 100 else f"{effect:+.3g}"
    return digits.replace("-", "−").replace("+0.00", "0.00").replace("−0.00", "0.00")


def odds_factor(log_odds: float | None) -> str:
    """Write a change of log-odds as what the odds are multiplied with or divided by."""
    if log_odds is None:
        return ""
    factor = math.exp(min(abs(log_odds), 50))
    digits = ">1000" if factor > 1000 else f"{factor:.{1 if factor < 9.95 else 0}f}"
    return f"{'÷' if log_odds < 0 and digits != '1.0' else '×'}{digits}"


def effect_bar(effect: float | None, largest: float) -> str:
    """Draw an effect as a bar to the right, if it raises the answer, or to the left."""
    if effect is None:
        return ""
    wide = 50 * min(abs(effect) / largest, 1) if largest else 0
    side = "left:50%" if effect >= 0 else "right:50%"
    kind = "raise" if effect >= 0 else "lower"
    return f'<span class="effect"><i class="{kind}" style="{side};width:{wide:.1f}%"></i></span>'


def largest_effect(effects: Sequence[float | None]) -> float:
    """Choose the effect of the longest bar: a few outliers may be longer."""
    known = [abs(effect) for effect in effects if effect is not None]
    return float(np.quantile(known, 0.98)) if known else 0.0


def scale_values(scale: ColourScale) -> dict[str, Any]:
    """Return what a template needs to show a colour scale."""
    colours = [hexadecimal(mixed(part / 4)) for part in range(5)]
    return {"low": f"{scale.low:.2f}", "high": f"{scale.high:.2f}", "colours": colours}


def render_page(name: str, **values: Any) -> str:
    """Fill in one of the templates; all that comes from data is escaped."""
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
