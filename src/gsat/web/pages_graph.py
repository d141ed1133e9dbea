"""What the page of one graph shows."""

from __future__ import annotations

from typing import Any

from gsat.draw.caption import reliability
from gsat.draw.marks import DASHES, SPREADS
from gsat.draw.molecule_page import largest_effect, odds_factor
from gsat.web import views
from gsat.web.loaded import SPLITS, LoadedRun
from gsat.web.pictures import ranked, scale_colours, unit_spreads

FRAGMENTS = 8
LISTED_EDGES = 500


def graph_values(loaded: LoadedRun, split: str, row: int, top: int, truth: bool) -> dict[str, Any]:
    """Gather what the page of a graph shows."""
    scored, place = loaded.row(split, row)
    explanation = loaded.explanation(split, row)
    molecule = loaded.molecule(split, row)
    edges = ranked(explanation)
    fragments = []
    if molecule is not None:
        effects = [molecule.effect(fragment) for fragment in molecule.fragments[:FRAGMENTS]]
        longest = largest_effect(effects)
        fragments = [
            {
                "fragment": fragment,
                "effect": effect,
                "odds": odds_factor(molecule.log_odds(fragment)),
                "bar": _bar(effect, longest),
            }
            for fragment, effect in zip(molecule.fragments[:FRAGMENTS], effects, strict=True)
        ]
    return {
        **picture_values(loaded, split, row, top, truth),
        "splits": SPLITS,
        "scored": scored,
        "card": views.card(scored, place, loaded.outputs),
        "caption": views.caption(explanation),
        "message": explanation.message,
        "reliability": reliability(explanation),
        "found": explanation.found,
        "edges": edges[:LISTED_EDGES],
        "spreads": unit_spreads(explanation),
        "edge_count": len(edges),
        "joint": "–" if explanation.undirected else "→",
        "bars": views.bars(scored, place, loaded.outputs),
        "features": views.features(explanation),
        "molecule": molecule,
        "fragments": fragments,
        "target": loaded.outputs[molecule.target] if molecule is not None else "",
        "nodes": int(explanation.num_nodes or 0),
        "previous": row - 1 if row > 0 else None,
        "following": row + 1 if row + 1 < loaded.count(split) else None,
    }


def picture_values(
    loaded: LoadedRun, split: str, row: int, top: int, truth: bool
) -> dict[str, Any]:
    """Gather what the picture of a graph needs, with its legend."""
    explanation = loaded.explanation(split, row)
    count = explanation.num_units
    top = min(top, count)
    picture, svg = views.picture_of(
        loaded, split, row, top=top if 0 < top < count else None, truth=truth
    )
    known = explanation.get("edge_truth") is not None or explanation.get("node_truth") is not None
    return {
        "run": loaded,
        "split": split,
        "row": row,
        "svg": svg,
        "picture": picture,
        "colours": scale_colours(),
        "top": top,
        "count": count,
        "truth": truth,
        "truth_known": known,
        "scored_edges": explanation.found,
        "dashes": _dashes() if explanation.get("edge_spread") is not None else [],
    }


def _dashes() -> list[tuple[str, str]]:
    """What dashes mean, and how they are drawn, where a score is uncertain."""
    low, high = SPREADS
    texts = (f"members differ by {low:g} or more", f"by {high:g} or more")
    return [
        (text, " ".join(f"{3 * part:g}" for part in dash))
        for text, dash in zip(texts, DASHES[1:], strict=True)
    ]


def _bar(effect: float | None, longest: float) -> tuple[float, float] | None:
    """Where the bar of an effect begins and how long it is, in per cent."""
    if effect is None:
        return None
    length = 50 * min(abs(effect) / longest, 1) if longest else 0.0
    return (50.0 if effect >= 0 else 50 - length), length
