"""Patterns of models trained on real molecules: the true groups come first."""

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


@pytest.mark.slow
@pytest.mark.raw_data
def test_the_amide_is_the_first_pattern_of_molecules_with_an_amide(
    raw_data: Path, tmp_path: Path
) -> None:
    settings = {"epochs": 8, "batch_size": 128, "r_interval": 1}
    run = gsat.train(
        gsat.make_recipe("ibench-amide-class", settings=settings), out=tmp_path / "run"
    )
    with_amide = run.patterns().groups[1]
    assert "amide" in with_amide.patterns[0].name
    assert with_amide.patterns[0].q_value < 1e-6
    assert run.test["atom_auc"] > 0.9
