"""Recipes written and read again, and their hashes, by which recorded runs are found."""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from pathlib import Path
from typing import Any

from gsat.training.recipe import Recipe, from_tables, make_recipe, read_recipe, to_toml


def test_toml_keeps_every_kind_of_value() -> None:
    tables = {
        "text": 'a "quoted" \\ é 😀\n', "whole": 3, "small": 1e-300, "large": 1e22, "yes": True,
        "listed": [1, 2], "below": {"deeper": {"x": 0.1}, "beside": "z"}, "empty": {},
    }  # fmt: skip
    assert tomllib.loads(to_toml(tables)) == tables


def test_the_hash_ignores_the_seed_and_nothing_else() -> None:
    base = make_recipe("ba2motifs")
    assert make_recipe("ba2motifs", seed=9).hash() == base.hash()
    assert make_recipe("ba2motifs", settings={"weight_decay": 0}).hash() == base.hash()

    def leaves(tables: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        return [
            place
            for key, value in tables.items()
            for place in (
                leaves(value, (*path, key)) if isinstance(value, dict) else [(*path, key)]
            )
        ]

    others = {
        "name": "houses", "source": "published", "sampling": "none", "attention": "node",
        "regulariser": "l1", "info_on": "p", "edge_features": False, "batch_norm": "separate",
        "selection": "stable", "snapshot_epochs": "spread", "extractor_norm": "row",
        "readout": "attended",
    }  # fmt: skip
    hashes = {base.hash()}
    places = [p for p in leaves(base.tables()) if p not in (("seed",), ("data", "name"))]
    changed = [("data", "split_seed"), *(p for p in places if p[-1] != "name")]
    for place in changed:
        tables = base.tables()
        table = tables
        for part in place[:-1]:
            table = table[part]
        old = table.get(place[-1]) or 0
        table[place[-1]] = others.get(place[-1]) if place[-1] in others else _other(old)
        recipe: Recipe = from_tables(tables)
        assert recipe != base, place
        hashes.add(recipe.hash())
    assert len(changed) > 20
    assert len(hashes) == 1 + len(changed)
    assert make_recipe("spmotif-0.5").hash() != make_recipe("spmotif-0.7").hash()


def _other(value: float) -> float:
    if isinstance(value, int):
        return value + 1
    return 0.25 if not math.isclose(value, 0.25) else 0.5


def test_a_renamed_setting_keeps_its_hash() -> None:
    for name in ("settledness", "stable"):
        recipe = make_recipe("ba2motifs", settings={"selection": name})
        assert (recipe.training.selection, recipe.hash()) == ("stable", "fedd2095d6f7f41e")


def test_absent_settings_do_not_change_the_hash() -> None:
    """So that a new optional setting leaves the names of recorded runs as they are."""
    recipe = make_recipe("ba2motifs", method="gsat-star")
    settings = recipe.settings.model_dump(exclude_none=True)
    assert settings != recipe.settings.model_dump()
    tables = recipe.tables()
    tables["method"]["gsat-star"] = settings
    tables["training"] = recipe.training.model_dump(exclude_none=True)
    bare = {k: v for k, v in tables.items() if k != "seed"}
    expected = hashlib.sha256(json.dumps(bare, sort_keys=True).encode()).hexdigest()[:16]
    assert recipe.hash() == expected


RUNS = Path(__file__).parents[2] / "results" / "runs.jsonl"


def test_recorded_runs_keep_their_recipes_and_hashes(tmp_path: Path) -> None:
    """A changed default or key would make every recorded run one of another recipe."""
    file, seen = tmp_path / "recipe.toml", set()
    for record in map(json.loads, RUNS.read_text().splitlines()):
        recipe = from_tables(record["recipe"])
        assert recipe.hash() == record["recipe_hash"]
        assert (recipe.method, recipe.backbone.name) == (record["method"], record["backbone"])
        if recipe.hash() not in seen:
            seen.add(recipe.hash())
            file.write_text(recipe.toml())
            assert read_recipe(file) == recipe
            assert recipe.tables()["backbone"] == record["recipe"]["backbone"]
    assert len(seen) > 80
