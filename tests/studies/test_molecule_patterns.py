"""What a model trained on Mutag goes by: the groups that are the truth come first."""

from __future__ import annotations

from pathlib import Path

import pytest

import gsat


@pytest.mark.slow
@pytest.mark.raw_data
def test_nitro_and_aromatic_amine_are_the_first_patterns_of_mutagens(
    raw_data: Path, tmp_path: Path
) -> None:
    recipe = gsat.make_recipe("mutag", settings={"data.test": "held-out"})
    report = gsat.train(recipe, out=tmp_path / "run").patterns()
    (mutagens,) = [group for group in report.groups if group.name == "mutagen"]
    first = mutagens.patterns[:3]
    assert {"nitro", "primary aromatic amine"} <= {pattern.name for pattern in first}
    for pattern in first[:2]:
        assert pattern.q_value < 1e-6
        assert pattern.effect is not None
        assert pattern.effect > 0.1
