"""``gsat results``: what was recorded, printed or written into a document."""

from __future__ import annotations

import json
from pathlib import Path

from cli_harness import run

from gsat.studies.records import Records
from gsat.studies.report import results_section
from gsat.studies.study import Experiment
from gsat.training.train import RESULTS_VERSION
