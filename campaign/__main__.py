"""Run the campaign and record its figures: ``python -m campaign [--fuzz SECONDS] …``."""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import torch

from campaign.faults import run_trials
from campaign.fuzz import fuzz_all
from campaign.hostile import run_cases
from campaign.page import campaign_section
from campaign.parsers import in_memory, make_parsers
from gsat.studies.pages import write_between_marks

ROOT = Path(__file__).resolve().parent.parent
RECORD, PAGE = ROOT / "results" / "campaign.json", ROOT / "docs" / "security.md"


def main() -> int:
    """Run all parts, write the record, and return 1 if anything was found."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--trials", type=int, default=1000, help="faults while saving")
    words.add_argument("--every", type=int, default=1, help="every n-th hostile file")
    words.add_argument("--fuzz", type=float, default=60.0, help="CPU seconds per parser")
    words.add_argument("--jobs", type=int, default=2, help="fuzzing processes at a time")
    words.add_argument("--write", type=Path, default=RECORD, help="where the figures go")
    chosen = words.parse_args()
    torch.set_num_threads(1)
    folder = in_memory()
    started = time.monotonic()
    try:
        record: dict[str, Any] = {
            "system": f"{platform.system()}, Python {platform.python_version()}",
            "faults": run_trials(folder / "faults", chosen.trials),
            "hostile": run_cases(folder / "hostile", chosen.every),
        }
        names = [parser.name for parser in make_parsers(folder / "parsers")]
        record["fuzzing"] = fuzz_all(chosen.fuzz, names, chosen.jobs)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    record["minutes"] = round((time.monotonic() - started) / 60, 1)
    return finish(record, chosen.write)


def finish(record: dict[str, Any], path: Path) -> int:
    """Write the record, print the findings, and return 1 if there are any."""
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    if path == RECORD:
        write_between_marks(PAGE, campaign_section(record))
    found = [*record["faults"]["findings"], *record["hostile"]["findings"]]
    found += [text for part in record["fuzzing"] for text in part["findings"]]
    for text in found:
        print(text)
    print(f"{len(found)} findings · {path}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
