"""``gsat explain``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gsat.cli.app import YOUR_DATA, command
from gsat.cli.options import (
    Data,
    Json,
    Refine,
    RunFolder,
    Split,
    check_json_or_file,
    limit_option,
    own_classes,
)
from gsat.core.errors import GSATError
from gsat.core.terminal import echo

if TYPE_CHECKING:
    from gsat.explain.molecules import MoleculeReport
    from gsat.explanation import Explanation


@command(
    YOUR_DATA,
    'gsat explain runs/mols --smiles "Nc1ccc(cc1)[N+](=O)[O-]" --out m.svg',
    "gsat explain runs/mols new.csv --out report.html",
    "gsat explain runs/mols new.csv --out scores.csv",
    "gsat explain runs/x --graph 12",
    "gsat explain runs/x --graph 12 --top 6 --crop --out g.svg",
    "gsat explain runs/nodes --node 511 --out node.png",
    "gsat explain runs/x --split test --out scores.npz",
)
@limit_option
@own_classes
def explain(
    run: RunFolder,
    data: Data = None,
    smiles: Annotated[str | None, typer.Option(help="Explain this molecule.")] = None,
    graph: Annotated[int | None, typer.Option(help="Explain this graph of the split.")] = None,
    node: Annotated[
        int | None,
        typer.Option(help="Node-level models: explain this node (of graph 0)."),
    ] = None,
    split: Split = "test",
    top: Annotated[
        str | None, typer.Option(help="Show the top edges: a number (6) or a share (20%).")
    ] = None,
    above: Annotated[
        float | None, typer.Option(min=0, max=1, help="Show edges above this probability.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Molecules: class or label whose effects are measured.")
    ] = None,
    aromatic: Annotated[
        bool, typer.Option("--aromatic", help="Molecules: draw aromatic bonds dashed.")
    ] = False,
    numbers: Annotated[
        bool, typer.Option("--numbers", help="Molecules: show atom numbers.")
    ] = False,
    refine: Refine = None,
    truth: Annotated[
        bool, typer.Option("--truth/--no-truth", help="Show the ground truth where it is known.")
    ] = True,
    crop: Annotated[
        bool, typer.Option("--crop", help="Graphs: show only the explanation and its neighbours.")
    ] = False,
    edges: Annotated[
        bool, typer.Option("--edges", help="Images: also draw edges on the superpixels.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write. One graph: .svg, .png, .pdf, .json, .html or .csv. All molecules "
            "of a table or split: .html (a page), .csv (a row per atom and bond) or .json. All "
            "scores of a split: .npz."
        ),
    ] = None,
    json_: Json = False,
) -> None:
    """Show the edges, and for molecules the fragments, that the model of a run used.

    One graph is shown as text, as a picture or as a page; a table of molecules as one page.
    """
    if top is not None and above is not None:
        raise GSATError("--top and --above both set a budget; give one of them")
    check_json_or_file(json_, out)
    if smiles is not None and any(value is not None for value in (data, graph, node)):
        raise GSATError("--smiles is the molecule to explain; leave out data, --graph and --node")
    from gsat.core.writing import check_suffix
    from gsat.draw.export import FORMATS, REPORTS
    from gsat.draw.molecule import formula
    from gsat.molecules.table import is_table
    from gsat.training.run import open_run

    one = any(value is not None for value in (smiles, graph, node))
    if one and out is not None:
        check_suffix(out, FORMATS)
    opened = open_run(run)
    opened = opened if refine is None else opened.refined(refine)
    budget = {"top": top, "above": above}
    style = {"aromatic": aromatic, "numbers": numbers, "truth": truth}
    if smiles is not None:
        report = opened.explain_molecules(smiles=smiles, target=target)
        _show(report[0].explanation, out, json_, budget, style, report)
    elif graph is not None or node is not None:
        # Read a table only once.
        source = opened.graphs(data) if data is not None and is_table(data) else data
        explanation = opened.explain(source, graph=graph or 0, node=node, split=split)
        if node is None and formula(explanation) is not None:
            molecule = opened.graphs(source, split).select([graph or 0])
            report = opened.explain_molecules(molecule, target=target)
            _show(report[0].explanation, out, json_, budget, style, report)
        else:
            _show(explanation, out, json_, budget, {**style, "crop": crop, "edges": edges})
    elif (
        out is None
        or out.suffix in (".svg", ".png", ".pdf")
        or budget != {"top": None, "above": None}
    ):
        raise GSATError(
            "choose a graph with --graph N or a molecule with --smiles, or give --out "
            "report.html for all molecules or --out scores.npz for all scores"
        )
    elif check_suffix(out, (*REPORTS, ".npz")) == ".npz":
        graphs, scored = opened.save_scores(out, data, split)
        echo(f"{graphs} graphs, {scored} edges · {out}")
    else:
        report = opened.explain_molecules(data, split=split, target=target)
        report.save(out)
        _print_warnings(report)
        echo(f"{len(report)} molecules · {out}")


def _show(
    explanation: Explanation,
    out: Path | None,
    as_json: bool,
    budget: dict[str, Any],
    style: dict[str, bool],
    report: MoleculeReport | None = None,
) -> None:
    """Print or write one explanation; ``report`` is the report of a single molecule."""
    within = explanation.within(**budget)
    if as_json:
        values = within.as_dict()
        if report is not None:
            outputs = list(report.info.outputs)
            values = {"outputs": outputs, **report[0].as_dict(), **values}
        echo(json.dumps(values))
        return
    echo(explanation.caption() or "a graph with a prediction for each node")
    echo(explanation.message)
    if measured := explanation.reliability:
        echo(measured)
    count = explanation.budget(**budget)
    if count == 0:
        unit = "edge" if report is None else "bond"
        above = f"{budget['above']:g}; the highest is at {explanation.highest:.3f}"
        echo(f"no {unit} is above {above}")
    elif out is not None:
        options: dict[str, Any] = {**style, **({} if count is None else {"top": count})}
        echo(str((report or explanation).save(out, **options)))
    elif report is not None and count is None:
        _print_fragments(report)
    elif explanation.found:
        _print_edges(within)
    if report is not None:
        _print_warnings(report, *report[0].notes)


def _print_fragments(report: MoleculeReport) -> None:
    """Print the fragments of a single molecule with their effects, best first."""
    from gsat.draw.pages import odds_factor

    molecule = report[0]
    effect_of = report.info.effect_of(molecule.target)
    wide = max(8, *(len(fragment.name) for fragment in molecule.fragments))
    odds = " and its odds" if any(fragment.log_odds for fragment in molecule.fragments) else ""
    echo(f"\n{'fragment':{wide}}  score  effect on {effect_of}{odds}")
    for fragment in molecule.fragments:
        effect = molecule.effect(fragment)
        shown = "" if effect is None else f"{effect:+.3f}"
        factor = f"{odds_factor(molecule.log_odds(fragment)):>6}" if odds else ""
        mark = "*" if fragment.used else " "
        echo(
            f"{fragment.name:{wide}}  {fragment.score:.3f}{mark} {shown:>7}{factor}  "
            f"{fragment.smiles}"
        )
    echo("* in the explanation")
    for neighbour in (molecule.nearest or ())[:1]:
        echo(
            f"nearest training molecule: similarity {neighbour.similarity:.2f}, {neighbour.smiles}"
        )


def _print_warnings(report: MoleculeReport, *notes: str) -> None:
    for note in (*report.info.notes, *notes):
        echo(f"warning: {note}", err=True)
    if report.info.rejected:
        count = len(report.info.rejected)
        echo(f"warning: {count} rows could not be used; the page lists them", err=True)


def _print_edges(explanation: Explanation) -> None:
    """Print the edges, best first, with both directions of an undirected edge as one."""
    names = explanation.node_names()
    joint = "–" if explanation.undirected else "→"
    for edge in explanation.ranked_edges():
        pair = f"{names[edge.source]} {joint} {names[edge.target]}"
        echo(f"{edge.score:.3f}  {pair}{'  (true)' if edge.true else ''}")
