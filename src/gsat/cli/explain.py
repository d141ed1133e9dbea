"""``gsat explain``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gsat.cli.app import YOUR_DATA, app, examples
from gsat.cli.options import Data, Json, RunFolder, Split
from gsat.errors import GSATError

if TYPE_CHECKING:
    from gsat.explanation import Explanation


@app.command(
    rich_help_panel=YOUR_DATA,
    epilog=examples(
        "gsat explain runs/x --graph 12",
        "gsat explain runs/x --graph 12 --top 6 --out g.svg",
        "gsat explain runs/x new-graphs.jsonl --graph 0 --out report.html",
        "gsat explain runs/nodes --node 511 --out node.png",
        "gsat explain runs/x --split test --out scores.npz",
    ),
)
def explain(
    run: RunFolder,
    data: Data = None,
    graph: Annotated[int | None, typer.Option(help="Number of a graph within the split.")] = None,
    node: Annotated[
        int | None,
        typer.Option(help="Number of a node (of graph 0), where nodes have predictions."),
    ] = None,
    split: Split = "test",
    top: Annotated[
        str | None, typer.Option(help="Show the best edges: a number (6) or a share (20%).")
    ] = None,
    above: Annotated[
        float | None, typer.Option(min=0, max=1, help="Show the edges above a probability.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="One graph: a .svg, .png, .pdf, .json, .html or .csv file; a whole split: .npz"
        ),
    ] = None,
    json_: Json = False,
) -> None:
    """Show which edges the model of a run used.

    For one graph as text, a picture or a page; for a whole split as arrays.
    """
    if top is not None and above is not None:
        raise GSATError("--top and --above both set a budget; give one of them")
    if json_ and out is not None:
        raise GSATError(f"--json prints, and --out {out} writes a file; give one of them")
    if graph is None and node is None:
        if out is None or out.suffix != ".npz" or top is not None or above is not None:
            raise GSATError("choose a graph with --graph N, or give --out FILE.npz for all scores")
        from gsat.runs import open_run

        graphs, edges = open_run(run).save_scores(out, data, split)
        typer.echo(f"{graphs} graphs, {edges} edges · {out}")
        return
    from gsat.draw.caption import answer
    from gsat.draw.export import FORMATS
    from gsat.draw.files import check_suffix
    from gsat.runs import open_run

    if out is not None:
        check_suffix(out, FORMATS)
    explanation = open_run(run).explain(data, graph=graph or 0, node=node, split=split)
    if json_:
        typer.echo(json.dumps(explanation.within(top, above).as_dict()))
        return
    budget = explanation.budget(top, above)
    typer.echo(answer(explanation) or "a graph with a prediction for each node")
    typer.echo(explanation.message)
    if budget == 0:
        typer.echo(f"no edge is above {above:g}; the highest is at {explanation.highest:.3f}")
    elif out is not None:
        typer.echo(str(explanation.save(out, top=budget)))
    elif explanation.found:
        _print_edges(explanation.within(top, above))


def _print_edges(explanation: Explanation) -> None:
    """Print the edges, best first; both directions of an undirected edge once."""
    names = explanation.node_names()
    joint = "–" if explanation.undirected else "→"
    for edge in explanation.ranked_edges():
        pair = f"{names[edge.source]} {joint} {names[edge.target]}"
        typer.echo(f"{edge.score:.3f}  {pair}{'  (true)' if edge.true else ''}")
