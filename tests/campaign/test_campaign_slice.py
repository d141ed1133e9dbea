"""A short part of ``make campaign``: a few faults, hostile files and mutations."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from campaign.page import campaign_section

from campaign import __main__ as main
from campaign import faults, hostile, parsers

pytestmark = pytest.mark.medium
ROOT = Path(__file__).parents[2]
RECORD, PAGE = ROOT / "results" / "campaign.json", ROOT / "docs" / "security.md"
SNIPPETS = (
    b"[", b"{", b"1e999", b"-1", b"null", b'"\\ud800"', b"9" * 20, b"\xff", b"true", b"[]", b"{}",
    b"NaN", b"\n", b",", b'"x"', b"0", b"\x1b",
)  # fmt: skip


@pytest.mark.parametrize("method", ["gsat", "gnnexplainer"])
def test_a_fault_while_saving_leaves_a_run_that_resumes_exactly(
    method: str, tmp_path: Path
) -> None:
    found = faults.run_trials(tmp_path, 12, [method])
    assert found["findings"] == []
    assert found["trials"] == 12
    assert found["operations_of_a_run"][method] > 50


def test_a_missing_file_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The campaign detects a save that omits a file."""
    recipe = faults.tiny_recipe("gsat")
    faults.gsat.train(recipe, tmp_path / "whole", checkpoint_seconds=0)
    whole = faults.outcome(tmp_path / "whole")
    difference = faults.trial(
        recipe, tmp_path / "run", faults.Faults(40, "kill"), {**whole, "more": b""}
    )
    assert difference == "differs: ['more']"


def test_hostile_files_are_one_line_errors(tmp_path: Path) -> None:
    found = hostile.run_cases(tmp_path / "cases", every=60)
    assert found["findings"] == []
    assert found["files"] >= 20
    assert found["refused"] > found["harmless"]


def test_parsers_survive_mutations_of_valid_files(tmp_path: Path) -> None:
    rng = random.Random(0)
    made = parsers.make_parsers(tmp_path / "parsers")
    for parser in made:
        for example in parser.examples:
            assert parsers.problem(parser, example) == ""
        slow = parser.name in ("state.json", "molecules, Parquet")
        for _ in range(10 if slow else 60):
            content = bytearray(rng.choice(parser.examples))
            for _ in range(rng.choice((1, 1, 2, 5))):
                place = rng.randrange(len(content) + 1)
                match rng.randrange(3):
                    case 0:
                        del content[place : place + rng.choice((1, 2, 8, 100))]
                    case 1:
                        content[place:place] = rng.choice(SNIPPETS)
                    case 2:
                        content[place : place + 1] = bytes([rng.randrange(256)])
            assert parsers.problem(parser, bytes(content)) == "", (parser.name, bytes(content))


def test_the_record_is_a_complete_campaign_without_findings() -> None:
    record = json.loads(RECORD.read_text())
    assert record["faults"]["trials"] >= 1000
    assert record["hostile"]["files"] >= 500
    assert len(record["fuzzing"]) >= 14
    assert record["faults"]["findings"] == record["hostile"]["findings"] == []
    assert all(part["findings"] == [] for part in record["fuzzing"])
    assert campaign_section(record) in PAGE.read_text(encoding="utf-8")


def test_parts_of_a_record_are_replaced_separately() -> None:
    old = [{"parser": "a", "inputs": 1}, {"parser": "gone", "inputs": 1}]
    new = [{"parser": "c", "inputs": 3}, {"parser": "a", "inputs": 2}]
    assert main.merged(old, new, ["a", "b", "c"]) == [new[1], new[0]]
