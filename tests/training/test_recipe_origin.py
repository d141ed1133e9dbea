"""Where the settings of a recipe come from, in words."""

from __future__ import annotations

import pytest

from gsat.training.recipe import MOST_NAMED, describe_origin, make_recipe


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("spmotif-0.7", "the recipe for spmotif"),
        (
            "graphs.jsonl",
            "the defaults for data without a recipe (compared with others where explanations are "
            "known: docs/defaults.md)",
        ),
        ("table.csv", "the defaults for molecules"),
    ],
)
def test_a_shipped_recipe_is_named(data: str, expected: str) -> None:
    described = describe_origin(make_recipe(data, seed=7, settings={"split_seed": 3}))
    assert described == expected  # neither the seed nor the split is a matter of the recipe


def test_what_differs_is_named_up_to_a_limit() -> None:
    changed = {
        "epochs": 3, "lr": 0.5, "hidden": 8, "layers": 1, "r_final": 0.6, "info_coef": 2.0,
        "temperature": 2.0, "attention": "edge",
    }  # fmt: skip
    one = make_recipe("mutag", backbone="gin", settings={"attention": "edge"})
    assert describe_origin(one) == "the recipe for mutag, with attention=edge"
    many = describe_origin(make_recipe("mutag", backbone="gin", settings=changed))
    assert many.startswith("the recipe for mutag, with hidden=8, layers=1")
    assert many.endswith("and 2 others")
    assert many.count("=") == MOST_NAMED


def test_data_that_is_not_installed_here_is_no_error() -> None:
    recipe = make_recipe("mutag")
    unknown = recipe.model_copy(update={"data": recipe.data.model_copy(update={"name": "gone"})})
    assert describe_origin(unknown) == "of its own"
