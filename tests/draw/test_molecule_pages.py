"""Pages and tables of molecules: whole, escaped, and in agreement with what they were made of."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest
import torch

from explained_molecules import explained
from gsat.draw.export import patterns_csv, scores_csv
from gsat.draw.pages import pattern_page, report_page
from gsat.explain.molecules import ExplainedMolecule, ReportInfo
from gsat.explain.patterns import find_patterns
from gsat.molecules.fingerprints import Neighbour
from gsat.tasks import Task
from html_page import Page

HOSTILE = '<script>alert("x")</script>'
INFO = ReportInfo("Explanations & more", ["safe", "toxic"], notes=["the model is weak: <b>"])


@pytest.fixture
def molecules() -> list[ExplainedMolecule]:
    nitro = explained("O=[N+]([O-])c1ccccc1", {(0, 1): 0.9, (1, 2): 0.8}, name=HOSTILE, line=7)
    nitro.explanation.y = torch.tensor([0])
    fragments = tuple(replace(p, effects=(-0.25, 0.25)) for p in nitro.fragments)
    near = (Neighbour(3, "CCO", 0.123),)
    plain = explained("CCO", {(0, 1): 0.6}, number=1, line=9, nearest=near, notes=("far away",))
    return [replace(nitro, fragments=fragments), plain, explained("C", {}, number=2, line=11)]


def test_a_page_has_a_card_and_a_row_for_each_molecule(molecules: list[ExplainedMolecule]) -> None:
    page = Page(report_page(molecules, INFO))
    assert len(page.cards) == 3
    assert {f"#{name}" for name in page.ids} >= set(page.links), "links lead somewhere"
    assert {"r0", "r1", "r2", "m0", "m1", "m2"} <= set(page.ids)
    assert [card["data-order"] for card in page.cards] == ["0", "1", "2"]
    assert all(float(card["data-confidence"] or "") == pytest.approx(0.8) for card in page.cards)
    assert page.cards[1]["data-near"] == "0.1230"
    assert "data-near" not in page.cards[0]


def test_a_card_says_how_far_an_explanation_can_be_relied_on(
    molecules: list[ExplainedMolecule],
) -> None:
    measured = molecules[0].explanation
    measured.necessary, measured.sufficient, measured.stability = True, False, 0.25
    text = Page(report_page(molecules, INFO)).text
    assert text.count(measured.reliability) == 1
    values = [molecule.as_dict() for molecule in molecules]
    assert [one["necessary"] for one in values] == [True, None, None]


def test_effects_are_shown_as_probabilities_and_odds(molecules: list[ExplainedMolecule]) -> None:
    sure = replace(
        molecules[0],
        fragments=tuple(
            replace(p, effects=(-0.001, 0.001), log_odds=(-3.0, 3.0))
            for p in molecules[0].fragments
        ),
    )
    text = report_page([sure], INFO)
    assert "×20" in text
    assert "width:50.0%" in text, "the bar shows the odds"
    assert "×" not in Page(report_page(molecules, INFO)).text.partition("Its effect")[0]
    rows = list(csv.DictReader(io.StringIO(scores_csv([sure]))))
    assert {row["fragment_log_odds"] for row in rows if row["fragment"]} == {"3"}
    many = [replace(sure, number=n) for n in range(4)]
    groups = find_patterns(many, Task("binary"), ["safe", "toxic"])
    (pattern, *_) = groups[1].patterns
    assert pattern.log_odds == pytest.approx(3.0)
    assert "odds ×20" in pattern_page(
        [replace(groups[1], patterns=(replace(pattern, odds_ratio=2),))], many, INFO
    )
    row = next(csv.DictReader(io.StringIO(patterns_csv(groups, many))))
    assert row["mean_log_odds"] == "-3"


def test_all_texts_from_outside_are_escaped(molecules: list[ExplainedMolecule]) -> None:
    text = report_page(molecules, replace(INFO, rejected=[[3, HOSTILE, "C(", "not a SMILES"]]))
    assert HOSTILE not in text
    assert text.count("&lt;script&gt;") >= 3
    assert "the model is weak: &lt;b&gt;" in text


def test_a_wrong_prediction_is_marked(molecules: list[ExplainedMolecule]) -> None:
    assert report_page(molecules, INFO).count('class="wrong"') == 1
    molecules[0].explanation.y = torch.tensor([1])
    assert report_page(molecules, INFO).count('class="wrong"') == 0


def test_scores_have_a_row_per_atom_and_per_bond(molecules: list[ExplainedMolecule]) -> None:
    rows = list(csv.DictReader(io.StringIO(scores_csv(molecules))))
    assert len(rows) == (9 + 9) + (3 + 2) + 1
    atoms = [row for row in rows if row["line"] == "7" and row["kind"] == "atom"]
    assert [row["symbol"] for row in atoms[:3]] == ["O", "N", "O"]
    bond = next(row for row in rows if row["kind"] == "bond" and row["atom"] == "0")
    assert (bond["atom_2"], bond["symbol"], bond["score"]) == ("1", "=", "0.9")
    assert (bond["fragment"], bond["in_explanation"], bond["fragment_effect"]) == (
        "nitro",
        "1",
        "0.25",
    )
    between = next(row for row in rows if (row["atom"], row["atom_2"]) == ("1", "3"))
    assert between["fragment"] == "", "the bond from the nitro group to the ring is in no fragment"


def test_spreadsheets_find_no_formula_in_the_scores() -> None:
    text = scores_csv([explained("CO", {(0, 1): 0.9}, name="=1+1")])
    assert "'=1+1" in text
    assert ",=1+1" not in text


def test_a_page_of_patterns_shows_statistics_and_examples() -> None:
    molecules = []
    for number in range(12):
        one = explained(
            "O=[N+]([O-])c1ccccc1", {(0, 1): 0.9, (1, 2): 0.8}, number=number, line=number
        )
        fragments = tuple(replace(p, effects=(-0.5, 0.5)) for p in one.fragments)
        molecules.append(replace(one, fragments=fragments, name=HOSTILE if number == 0 else ""))
        other = explained("CCO", {}, number=number)
        other.explanation.prediction = torch.tensor(0)
        molecules.append(other)
    groups = find_patterns(molecules, Task("binary"), INFO.outputs)
    text = pattern_page(groups, molecules, INFO)
    page = Page(text)
    assert HOSTILE not in text
    assert text.count("<figcaption") == 3
    for expected in ("Predicted toxic", "12 of 24 molecules", "nitro", "+0.50 ± 0.00", "Fisher"):
        assert expected in page.text, expected
    assert "No fragment is in the explanations of this group" in page.text
    rows = list(csv.DictReader(io.StringIO(patterns_csv(groups, molecules))))
    assert {(row["group"], row["pattern"]) for row in rows} == {
        ("safe", "nitro"),
        ("toxic", "nitro"),
    }
    toxic = next(row for row in rows if row["group"] == "toxic")
    assert (toxic["rank"], toxic["in_explanation_of_group"], toxic["mean_effect"]) == (
        "1",
        "12",
        "0.5",
    )
