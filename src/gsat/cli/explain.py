"""``gsat explain``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gsat.cli.app import YOUR_DATA, app, examples
from gsat.cli.options import Data, Json, Refine, RunFolder, Split
from gsat.core.errors import GSATError

if TYPE_CHECKING:
    from gsat.explanation import Explanation
    from gsat.training.molecule_reports import MoleculeReport
    from gsat.training.run import Run


@app.command(
    rich_help_panel=YOUR_DATA,
    epilog=examples(
        'gsat explain runs/mols --smiles "Nc1ccc(cc1)[N+](=O)[O-]" --out m.svg',
        "gsat explain runs/mols new.csv --out report.html",
        "gsat explain runs/mols new.csv --out scores.csv",
        "gsat explain runs/x --graph 12",
        "gsat explain runs/x --graph 12 --top 6 --crop --out g.svg",
        "gsat explain runs/nodes --node 511 --out node.png",
        "gsat explain runs/x --split test --out scores.npz",
    ),
)
def explain(
    run: RunFolder,
    data: Data = None,
    smiles: Annotated[str | None, typer.Option(help="Explain this molecule.")] = None,
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
    target: Annotated[
        str | None,
        typer.Option(help="Molecules: the class or label that effects are measured on."),
    ] = None,
    aromatic: Annotated[
        bool, typer.Option("--aromatic", help="Molecules: draw aromatic bonds dashed.")
    ] = False,
    numbers: Annotated[
        bool, typer.Option("--numbers", help="Molecules: write its number beside each atom.")
    ] = False,
    refine: Refine = None,
    truth: Annotated[
        bool, typer.Option("--truth/--no-truth", help="Show the ground truth, where it is known.")
    ] = True,
    crop: Annotated[
        bool, typer.Option("--crop", help="Graphs: show the explanation and its neighbours only.")
    ] = False,
    edges: Annotated[
        bool, typer.Option("--edges", help="Images: draw the edges over the superpixels, too.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="One graph: a .svg, .png, .pdf, .json, .html or .csv file. Molecules of a table "
            "or split: .html (a page), .csv (a row per atom and bond) or .json. Any split: .npz"
        ),
    ] = None,
    json_: Json = False,
) -> None:
    """Show which edges, and which fragments of molecules, the model of a run used.

    For one graph as text, a picture or a page; for a table of molecules as one page.
    """
    if top is not None and above is not None:
        raise GSATError("--top and --above both set a budget; give one of them")
    if json_ and out is not None:
        raise GSATError(f"--json prints, and --out {out} writes a file; give one of them")
    if smiles is not None and any(value is not None for value in (data, graph, node)):
        raise GSATError("--smiles is the molecule to explain; leave out data, --graph and --node")
    style = {"aromatic": aromatic, "numbers": numbers, "truth": truth}
    from gsat.training.opening import open_run

    opened = open_run(run)
    opened = opened if refine is None else opened.refined(refine)
    if smiles is not None:
        report = opened.explain_molecules(smiles=smiles, target=target)
        _show_molecule(report, out, json_, top, above, style)
        return
    if graph is None and node is None:
        pictured = out is not None and out.suffix in (".svg", ".png", ".pdf")
        if out is None or pictured or top is not None or above is not None:
            raise GSATError(
                "choose a graph with --graph N or a molecule with --smiles, or give --out "
                "report.html for all molecules or --out scores.npz for all scores"
            )
        if out.suffix == ".npz":
            graphs, scored = opened.save_scores(out, data, split)
            typer.echo(f"{graphs} graphs, {scored} edges · {out}")
            return
        _check_report(out)
        report = opened.explain_molecules(data, split=split, target=target)
        report.save(out)
        _print_notes(report)
        typer.echo(f"{len(report)} molecules · {out}")
        return
    style = {**style, "crop": crop, "edges": edges}
    _explain_graph(opened, data, graph, node, split, top, above, target, style, out, json_)


def _explain_graph(
    opened: Run,
    data: str | None,
    graph: int | None,
    node: int | None,
    split: str,
    top: str | None,
    above: float | None,
    target: str | None,
    style: dict[str, bool],
    out: Path | None,
    json_: bool,
) -> None:
    from gsat.draw.caption import answer, reliability
    from gsat.draw.export import FORMATS
    from gsat.draw.files import check_suffix
    from gsat.draw.molecule import formula

    if out is not None:
        check_suffix(out, FORMATS)
    explanation = opened.explain(data, graph=graph or 0, node=node, split=split)
    if node is None and formula(explanation) is not None:
        chosen = opened.graphs(data, split).select([graph or 0])
        report = opened.explain_molecules(chosen, target=target)
        _show_molecule(report, out, json_, top, above, style)
        return
    if json_:
        typer.echo(json.dumps(explanation.within(top, above).as_dict()))
        return
    budget = explanation.budget(top, above)
    typer.echo(answer(explanation) or "a graph with a prediction for each node")
    typer.echo(explanation.message)
    if measured := reliability(explanation):
        typer.echo(measured)
    if budget == 0:
        typer.echo(f"no edge is above {above:g}; the highest is at {explanation.highest:.3f}")
    elif out is not None:
        typer.echo(str(explanation.save(out, top=budget, **style)))
    elif explanation.found:
        _print_edges(explanation.within(top, above))


def _check_report(out: Path) -> None:
    from gsat.draw.files import check_suffix
    from gsat.training.molecule_reports import REPORTS

    check_suffix(out, (*REPORTS, ".npz"))


def _show_molecule(
    report: MoleculeReport,
    out: Path | None,
    json_: bool,
    top: str | None,
    above: float | None,
    style: dict[str, bool],
) -> None:
    """Print or write the explanation of the one molecule of a report."""
    from gsat.draw.caption import answer, reliability

    molecule = report[0]
    explanation = molecule.explanation
    budget = explanation.budget(top, above)
    if json_:
        values = molecule.as_dict() | explanation.within(top, above).as_dict()
        typer.echo(json.dumps({"outputs": list(report.info.outputs), **values}))
        return
    typer.echo(answer(explanation))
    typer.echo(explanation.message)
    if measured := reliability(explanation):
        typer.echo(measured)
    if budget == 0:
        typer.echo(f"no bond is above {above:g}; the highest is at {explanation.highest:.3f}")
    elif out is not None:
        options: dict[str, Any] = {**style} if budget is None else {**style, "top": budget}
        typer.echo(str(report.save(out, **options)))
    elif budget is not None:
        _print_edges(explanation.within(top, above))
    else:
        _print_fragments(report)
    _print_notes(report, *molecule.notes)


def _print_fragments(report: MoleculeReport) -> None:
    """Print the fragments of the one molecule of a report, best first, with their effects."""
    from gsat.draw.molecule_page import odds_factor

    molecule = report[0]
    effect_of = report.info.effect_of(molecule.target)
    wide = max(8, *(len(fragment.name) for fragment in molecule.fragments))
    odds = " and its odds" if any(fragment.log_odds for fragment in molecule.fragments) else ""
    typer.echo(f"\n{'fragment':{wide}}  score  effect on {effect_of}{odds}")
    for fragment in molecule.fragments:
        effect = molecule.effect(fragment)
        shown = "" if effect is None else f"{effect:+.3f}"
        factor = f"{odds_factor(molecule.log_odds(fragment)):>6}" if odds else ""
        mark = "*" if fragment.used else " "
        typer.echo(
            f"{fragment.name:{wide}}  {fragment.score:.3f}{mark} {shown:>7}{factor}  "
            f"{fragment.smiles}"
        )
    typer.echo("* in the explanation")
    for neighbour in (molecule.nearest or ())[:1]:
        typer.echo(
            f"nearest training molecule: similarity {neighbour.similarity:.2f}, {neighbour.smiles}"
        )


def _print_notes(report: MoleculeReport, *notes: str) -> None:
    for note in (*report.info.notes, *notes):
        typer.echo(f"warning: {note}", err=True)
    if report.info.rejected:
        count = len(report.info.rejected)
        typer.echo(f"warning: {count} rows could not be used; the page lists them", err=True)


def _print_edges(explanation: Explanation) -> None:
    """Print the edges, best first; both directions of an undirected edge once."""
    names = explanation.node_names()
    joint = "–" if explanation.undirected else "→"
    for edge in explanation.ranked_edges():
        pair = f"{names[edge.source]} {joint} {names[edge.target]}"
        typer.echo(f"{edge.score:.3f}  {pair}{'  (true)' if edge.true else ''}")
