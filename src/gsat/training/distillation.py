"""One model with the explanations of an ensemble."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gsat.core.errors import GSATError
from gsat.core.registry import METHODS
from gsat.methods.gsat import GSATSettings
from gsat.training.recipe import Recipe, from_tables, with_settings
from gsat.training.run import Run
from gsat.training.run_directory import RunDirectory
from gsat.training.train import train

METHOD = "distilled"


def distill(
    teacher: str | Path,
    out: str | Path | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    **how: Any,
) -> Run:
    """Train one model to explain as an ensemble, or another run, does.

    It is trained on the teacher's data and split, by the teacher's recipe, with the distance from
    the teacher's scores as an additional loss.

    Args:
        teacher: The run directory of the ensemble or single model.
        out: Run directory to create. (default: None, nothing is written)
        settings: Settings that differ from the teacher's, by name, such as ``distill_coef``.
            (default: none)
        **how: As for :func:`gsat.train`.

    Returns:
        The finished run.

    Raises:
        GSATError: If the teacher is unfinished, or not a GSAT variant.
    """
    return train(distillation_recipe(teacher, settings), out, **how)


def distillation_recipe(teacher: str | Path, settings: Mapping[str, Any] | None = None) -> Recipe:
    """Make the recipe of a distillation from that of the teacher."""
    run = RunDirectory.open(teacher)
    recipe = run.recipe
    _ = run.result  # which says so if it is not finished
    if not issubclass(METHODS[recipe.method].Settings, GSATSettings):
        raise GSATError(
            f"{teacher} was trained by {recipe.method}; only runs of GSAT, GSAT* and the like can "
            "be distilled"
        )
    shared = recipe.settings.model_dump(include=set(GSATSettings.model_fields))
    tables = recipe.tables()
    tables.pop("members", None)
    tables["data"]["split_seed"] = recipe.split_seed
    own = {**shared, "teacher": str(Path(teacher).absolute())}
    tables["method"] = {"name": METHOD, METHOD: own}
    return with_settings(from_tables(tables), settings or {})
