"""``gsat patterns``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gsat.cli.app import YOUR_DATA, command
from gsat.cli.options import Data, RunFolder, Split, limit_option, own_classes
from gsat.core.terminal import echo

SHOWN = 5  # patterns printed per group


@command(
    YOUR_DATA,
    "gsat patterns runs/mols --out patterns.html",
    "gsat patterns runs/mols new.csv --out patterns.csv",
    "gsat patterns runs/mols --split all",
)
@limit_option
@own_classes
def patterns(
    run: RunFolder,
    data: Data = None,
    split: Split = "test",
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write: a page (.html) or a table (.csv). [default: print the top 5]"
        ),
    ] = None,
) -> None:
    """Find molecule fragments that recur in explanations.

    For each predicted class: how often a fragment occurs, how often it is in the explanation and
    whether that is more than chance, its mean effect, and three examples.
    """
    from gsat.core.writing import check_suffix
    from gsat.draw.export import PATTERN_FILES
    from gsat.draw.pages import odds_factor
    from gsat.training.run import open_run

    if out is not None:
        check_suffix(out, PATTERN_FILES)
    report = open_run(run).patterns(data, split)
    for note in report.info.notes:
        echo(f"warning: {note}", err=True)
    for group in report.groups:
        echo(f"{group.name}: {group.size} of {group.total} molecules")
        top = [pattern for pattern in group.patterns if pattern.odds_ratio > 1][:SHOWN]
        wide = max((len(pattern.name) for pattern in top), default=0)
        for rank, pattern in enumerate(top, 1):
            effect = "" if pattern.effect is None else f", effect {pattern.effect:+.2f}"
            factor = odds_factor(pattern.log_odds)
            effect += f" (odds {factor})" if factor else ""
            echo(
                f"  {rank}. {pattern.name:{wide}}  in {pattern.used} of {pattern.occurs} "
                f"explanations, {pattern.used_in_group} of them here, "
                f"odds ratio {pattern.odds_ratio:.1f}, q {pattern.q_value:.1e}{effect}"
            )
        if not top:
            echo("  no fragment stands out")
    if out is not None:
        echo(str(report.save(out)))
