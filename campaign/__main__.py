"""Run the campaign and record its figures: ``python -m campaign [--fuzz SECONDS] …``."""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from paper.pages import write_between_marks

from campaign.faults import run_trials
from campaign.fuzz import fuzz_all
from campaign.hostile import run_cases
from campaign.page import campaign_section
from campaign.parsers import in_memory, make_parsers

ROOT = Path(__file__).resolve().parent.parent
RECORD, PAGE = ROOT / "results" / "campaign.json", ROOT / "docs" / "security.md"
PARTS = ("faults", "hostile", "fuzzing")


def main() -> int:
    """Run all parts, or some, write the record, and return 1 if anything was found."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument(
        "--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART",
        help=f"of {', '.join(PARTS)}; what the record has of the others stays (default: all)",
    )  # fmt: skip
    words.add_argument("--trials", type=int, default=1000, help="faults while saving")
    words.add_argument("--every", type=int, default=1, help="every n-th hostile file")
    words.add_argument("--fuzz", type=float, default=60.0, help="CPU seconds per parser")
    words.add_argument("--parsers", nargs="+", metavar="NAME", help="fuzz these (default: all)")
    words.add_argument("--jobs", type=int, default=2, help="fuzzing processes at a time")
    words.add_argument("--write", type=Path, default=RECORD, help="where the figures go")
    chosen = words.parse_args()
    torch.set_num_threads(1)
    folder, path = in_memory(), chosen.write
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    record: dict[str, Any] = {
        **known,
        "system": f"{platform.system()}, Python {platform.python_version()}",
    }
    try:
        if "faults" in chosen.only:
            record["faults"] = run_trials(folder / "faults", chosen.trials)
        if "hostile" in chosen.only:
            record["hostile"] = run_cases(folder / "hostile", chosen.every)
        if "fuzzing" in chosen.only:
            names = [parser.name for parser in make_parsers(folder / "parsers")]
            fuzzed = fuzz_all(chosen.fuzz, chosen.parsers or names, chosen.jobs)
            record["fuzzing"] = merged(known.get("fuzzing", []), fuzzed, names)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return finish(record, path)


def merged(
    before: list[dict[str, Any]], new: list[dict[str, Any]], names: list[str]
) -> list[dict[str, Any]]:
    """Put new records of parsers in the place of older ones.

    Args:
        before: The records there were.
        new: Those of this run.
        names: Of all parsers, in their order.

    Returns:
        The last record of each parser that has one.
    """
    found = {part["parser"]: part for part in (*before, *new)}
    return [found[name] for name in names if name in found]


def finish(record: dict[str, Any], path: Path) -> int:
    """Write the record, print the findings, and return 1 if there are any."""
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    if path == RECORD and set(PARTS) <= record.keys():
        write_between_marks(PAGE, campaign_section(record))
    single = [record[name] for name in ("faults", "hostile") if name in record]
    found = [text for part in (*single, *record.get("fuzzing", [])) for text in part["findings"]]
    for text in found:
        print(text)
    print(f"{len(found)} findings · {path}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
