"""Where the settings of a recipe come from, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gsat.core.errors import GSATError, shown
from gsat.datasets.registry import recipe_family
from gsat.training.recipe import Recipe, make_recipe

MOST_NAMED: Final = 6  # settings that differ

_FAMILIES: Final = {
    "default": "the defaults for data without a recipe",
    "molecules": "the defaults for molecules",
}


def describe_origin(recipe: Recipe) -> str:
    """Say which shipped recipe the settings of a run are those of, and what differs."""
    try:
        family = recipe_family(recipe.data.name)
        shipped = make_recipe(
            recipe.data.name, backbone=recipe.backbone.name, method=recipe.method, seed=recipe.seed
        )
    except GSATError:  # of a data set, a method or a network that is not installed here
        return "of its own"
    expected, own = dict(_flat(shipped.tables())), dict(_flat(recipe.tables()))
    changed = [
        f"{key.rpartition('.')[2]}={shown(value)}"
        for key, value in own.items()
        if key != "members" and not key.startswith("data.") and value != expected.get(key)
    ]
    if len(changed) > MOST_NAMED:
        changed[MOST_NAMED:] = [f"and {len(changed) - MOST_NAMED} others"]
    origin = _FAMILIES.get(family, f"the recipe for {family}")
    if (family, recipe.backbone.name) == ("default", "gin"):
        origin += " (compared with others where explanations are known: docs/defaults.md)"
    return f"{origin}, with {', '.join(changed)}" if changed else origin


def _flat(tables: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{within}{key}.")
        else:
            yield f"{within}{key}", value
