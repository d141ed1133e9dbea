"""``gsat evaluate``."""

from __future__ import annotations

import json

from gsat.cli.app import YOUR_DATA, command
from gsat.cli.options import Data, Json, Refine, RunFolder, Split, limit_option, own_classes
from gsat.cli.output import print_metrics
from gsat.core.terminal import echo


@command(
    YOUR_DATA,
    "gsat evaluate runs/x",
    "gsat evaluate runs/x --split valid --json",
    "gsat evaluate runs/x new-graphs.jsonl",
    "gsat evaluate runs/x --refine 1",
)
@limit_option
@own_classes
def evaluate(
    run: RunFolder,
    data: Data = None,
    split: Split = "test",
    refine: Refine = None,
    json_: Json = False,
) -> None:
    """Measure the predictions and explanations of a run.

    Predictions are measured by accuracy, ROC AUC, or R² and MAE; explanations by AUC and
    precision@5 where the ground truth is known.
    """
    from gsat.datasets.registry import is_path
    from gsat.training.run import open_run

    opened = open_run(run)
    graphs = opened.graphs(data, split)
    measured = opened.evaluate(graphs, refine=refine)
    if json_:
        echo(json.dumps(measured))
        return
    whole = data is not None and is_path(data)
    print_metrics("all" if whole else split, opened.readable_metrics(measured, graphs))
    if verdict := opened.verdict()[0]:
        echo(verdict)
