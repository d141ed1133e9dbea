"""``gsat demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gsat.cli.app import HOUSEKEEPING, command
from gsat.cli.options import Quiet, set_threads
from gsat.cli.output import print_result
from gsat.core.terminal import echo


@command(HOUSEKEEPING, "gsat demo", "gsat demo --epochs 20 --out my-demo")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the run and the picture.")] = Path("demo"),
    epochs: Annotated[int, typer.Option(min=1, help="Number of training epochs.")] = 100,
    quiet: Quiet = False,
) -> None:
    """Train on BA-2Motifs and draw explanations, in a minute or two."""
    set_threads(1)
    from gsat import draw
    from gsat.training.recipe import make_recipe
    from gsat.training.run_directory import unused_path
    from gsat.training.train import train

    folder = unused_path(out)
    echo("BA-2Motifs: does the graph contain a house or a five-cycle, and where?")
    recipe = make_recipe("ba2motifs", settings={"epochs": epochs}, look_for_files=False)
    run = train(recipe, folder / "run", progress=not quiet)
    graphs = run.graphs()
    labels = graphs.per_graph("y")[:, 0]
    shown = [int(i) for c in (0, 1) for i in (labels == c).nonzero()[0][:4]]
    picture = folder / "explained.png"
    draw.draw(run.explain(graphs.select(shown)), picture)
    print_result(run, folder / "run")
    echo(f"picture of explained graphs: {picture}")
