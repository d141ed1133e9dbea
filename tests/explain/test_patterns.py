"""Patterns: counts by hand, Fisher's test by the hypergeometric distribution, q-values by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import hypergeom

from explained_molecules import explained
from gsat.audit.verdict import model_notes
from gsat.explain.molecules import FAR, ExplainedMolecule, molecule_notes
from gsat.explain.patterns import Pattern, PatternGroup, find_patterns
from gsat.molecules.fingerprints import Neighbour
from gsat.tasks import Task

BINARY = Task("binary")


def molecule(
    smiles: str, fragment: str | None, predicted: int, effect: float = 0.1
) -> ExplainedMolecule:
    """A molecule whose explanation is one of its fragments, or nothing."""
    out = explained(smiles, {})
    out.explanation.prediction = torch.tensor(predicted)
    fragments = tuple(
        replace(p, used=p.name == fragment, effects=(-effect, effect)) for p in out.fragments
    )
    assert fragment is None or any(p.used for p in fragments)
    return replace(out, fragments=fragments)


@pytest.fixture
def molecules() -> list[ExplainedMolecule]:
    """20 with nitro in the explanation, 18 of them predicted 1; 20 chlorides, all predicted 0."""
    nitro = [molecule("O=[N+]([O-])c1ccccc1", "nitro", int(i < 18), i / 100) for i in range(20)]
    chloride = [molecule("Clc1ccccc1", "aryl chloride", 0) for _ in range(15)]
    nothing = [molecule("Clc1ccccc1", None, 0) for _ in range(5)]
    return [*nitro, *chloride, *nothing]


def _named(groups: list[PatternGroup], group: str, name: str) -> Pattern:
    (found,) = [g for g in groups if g.name == group]
    return next(pattern for pattern in found.patterns if pattern.name == name)


def test_counts_odds_and_p_values(molecules: list[ExplainedMolecule]) -> None:
    groups = find_patterns(molecules, BINARY, ["no", "yes"])
    assert [(g.name, g.size, g.total) for g in groups] == [("no", 22, 40), ("yes", 18, 40)]
    nitro = _named(groups, "yes", "nitro")
    assert (nitro.occurs, nitro.used, nitro.used_in_group) == (20, 20, 18)
    # 18 of 18 in the group and 2 of 22 others: a zero cell, so 0.5 is added to each.
    assert nitro.odds_ratio == pytest.approx((18.5 * 20.5) / (0.5 * 2.5))
    assert nitro.p_value == pytest.approx(hypergeom.sf(17, 40, 20, 18))
    chloride = _named(groups, "no", "aryl chloride")
    assert (chloride.occurs, chloride.used, chloride.used_in_group) == (20, 15, 15)
    assert chloride.p_value == pytest.approx(hypergeom.sf(14, 40, 15, 22))


def test_the_odds_ratio_needs_no_correction_without_empty_cells() -> None:
    few = [molecule("O=[N+]([O-])c1ccccc1", "nitro", int(i < 6)) for i in range(8)]
    others = [molecule("Clc1ccccc1", "aryl chloride", int(i < 3)) for i in range(12)]
    nitro = _named(find_patterns([*few, *others], BINARY, ["no", "yes"]), "yes", "nitro")
    assert nitro.odds_ratio == pytest.approx((6 * 9) / (3 * 2))


def test_q_values_are_those_of_benjamini_and_hochberg(molecules: list[ExplainedMolecule]) -> None:
    found = [p for g in find_patterns(molecules, BINARY, ["no", "yes"]) for p in g.patterns]
    p_values = np.array([pattern.p_value for pattern in found])
    order = np.argsort(p_values)
    ranked = p_values[order] * len(found) / np.arange(1, len(found) + 1)
    expected = np.empty(len(found))
    expected[order] = np.minimum.accumulate(ranked[::-1])[::-1].clip(max=1)
    assert [pattern.q_value for pattern in found] == pytest.approx(expected)


def test_effects_are_those_on_the_class_of_the_group(molecules: list[ExplainedMolecule]) -> None:
    groups = find_patterns(molecules, BINARY, ["no", "yes"])
    mean, spread = np.mean(np.arange(20) / 100), np.std(np.arange(20) / 100)
    yes, no = (_named(groups, name, "nitro") for name in ("yes", "no"))
    assert (yes.effect, no.effect) == (pytest.approx(mean), pytest.approx(-mean))
    assert yes.deviation == pytest.approx(spread)
    assert yes.examples == (17, 16, 15), "members of the group with the largest effect"


def test_rare_patterns_are_left_out(molecules: list[ExplainedMolecule]) -> None:
    rare = [molecule("CC#N", "nitrile", 1)] * 2
    names = {
        p.name
        for g in find_patterns([*molecules, *rare], BINARY, ["no", "yes"])
        for p in g.patterns
    }
    assert names == {"nitro", "aryl chloride"}
    kept = find_patterns([*molecules, *rare], BINARY, ["no", "yes"], fewest=2)
    assert "nitrile" in {p.name for g in kept for p in g.patterns}


def test_a_regression_is_split_at_the_median(molecules: list[ExplainedMolecule]) -> None:
    for number, one in enumerate(molecules):
        one.explanation.prediction = torch.tensor(float(-number))
    high, low = find_patterns(molecules, Task("regression", 1, "r2"), ["solubility"])
    assert (high.name, high.size) == ("solubility above -19.5", 20)
    assert (low.name, low.size) == ("solubility up to -19.5", 20)
    assert (high.patterns[0].name, low.patterns[0].name) == ("nitro", "aryl chloride")


def test_several_labels_have_a_group_each(molecules: list[ExplainedMolecule]) -> None:
    for number, one in enumerate(molecules):
        one.explanation.prediction = torch.tensor([int(number < 20), 0])
    toxic, approved = find_patterns(
        molecules, Task("multilabel", 2, "roc_auc"), ["toxic", "approved"]
    )
    assert (toxic.size, approved.size) == (20, 0)
    assert toxic.patterns[0].name == "nitro"
    assert all(np.isnan(pattern.odds_ratio) for pattern in approved.patterns), "nothing to compare"


def test_no_molecules_have_no_patterns() -> None:
    assert [g.patterns for g in find_patterns([], BINARY, ["no", "yes"])] == [(), ()]


@pytest.mark.parametrize(
    ("score", "similarities", "value"),
    [
        (0.9, [FAR], None),
        (0.9, None, None),
        (0.9, [FAR - 0.01], "0.29"),
        (0.9, [], "0.00"),
        (0.5, None, "r = 0.5"),  # nothing stands out
    ],
)
def test_molecules_that_are_far_or_unexplained_have_a_warning(
    score: float, similarities: list[float] | None, value: str | None
) -> None:
    explanation = explained("CCO", {(0, 1): score, (1, 2): score}).explanation
    near = None if similarities is None else [Neighbour(0, "CCO", s) for s in similarities]
    notes = molecule_notes(explanation, near)
    assert len(notes) == (value is not None)
    assert value is None or value in notes[0]


@pytest.mark.parametrize(
    ("valid", "majority", "weak"),
    [
        ({"roc_auc": 0.9}, None, False),
        ({"roc_auc": 0.6}, None, True),
        ({"roc_auc": None}, None, False),
        ({"r2": 0.2, "mae": 1.0}, None, True),
        ({"r2": 0.5, "mae": 1.0}, None, False),
        ({"accuracy": 0.8}, 0.8, True),
        ({"accuracy": 0.9}, 0.8, False),
        ({"accuracy": 0.8}, None, False),
    ],
)
def test_a_model_that_is_weak_on_validation_data_has_a_warning(
    valid: dict[str, float | None], majority: float | None, weak: bool
) -> None:
    assert bool(model_notes(valid, majority)) is weak
