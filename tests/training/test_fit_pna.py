"""`fit` on a PNA: its own settings are in the recipe, and a kill does not matter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import gsat
from gsat.core.errors import RecipeError
from training_harness import differing, one_line, outcome, stopping

SETTINGS: dict[str, Any] = {"epochs": 13, "r_interval": 1, "batch_size": 32}


def make(data: gsat.Dataset) -> gsat.GSAT:
    pna = gsat.PNA.for_data(
        data, hidden=8, layers=1, aggregators=("max", "std"), scalers=("identity", "attenuation"),
        mean_log_degree=3.0,
    )  # fmt: skip
    return gsat.GSAT(pna)


@pytest.fixture(scope="module")
def data() -> gsat.Dataset:
    return gsat.load_dataset("ba2motifs", graphs=60)


def test_it_resumes_exactly_with_the_degrees_it_was_given(
    data: gsat.Dataset, run_path: Path, tmp_path: Path
) -> None:
    """The recipe would measure the degrees anew; the weights say what they were."""
    whole = gsat.fit(make(data), data, out=tmp_path / "whole", **SETTINGS)
    assert whole.recipe.backbone.aggregators == ["max", "std"]
    assert whole.recipe.backbone.scalers == ["identity", "attenuation"]
    with stopping(4), pytest.raises(KeyboardInterrupt):
        gsat.fit(make(data), data, out=run_path, checkpoint_seconds=0, **SETTINGS)
    again = gsat.resume(run_path)
    ours, theirs = again.model.state_dict(), whole.model.state_dict()
    assert float(ours["backbone.mean_log_degree"]) == 3.0
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert differing(outcome(run_path), outcome(tmp_path / "whole")) == []
    loaded = gsat.load(run_path).backbone
    assert isinstance(loaded, gsat.PNA)
    assert float(loaded.mean_log_degree) == 3.0


def test_settings_of_the_model_can_not_be_changed(data: gsat.Dataset) -> None:
    with pytest.raises(RecipeError) as caught:
        gsat.fit(make(data), data, aggregators=["mean"], **SETTINGS)
    assert "backbone.aggregators" in one_line(caught.value)
