"""``gsat datasets --check``: summaries of data sets as text or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from gsat.cli.app import print_error
from gsat.core.errors import GSATError
from gsat.core.terminal import echo, echo_table

if TYPE_CHECKING:
    from gsat.datasets.cards import Card

MANY = 6  # classes or labels; with more, print a range instead of a list


def show_cards(name: str, settings: list[str], write: Path | None, as_json: bool) -> None:
    """Check one data set, or ``all`` available ones; exit with 1 if a check finds an error."""
    from gsat.core.writing import write_output
    from gsat.datasets.cards import card, file_name, known_sets
    from gsat.training.recipe import load_data, make_recipe

    every = name == "all"
    if every and settings:
        raise GSATError("--set needs the name of one data set: --check NAME, not 'all'")
    cards, failed = [], False
    for data, options in known_sets() if every else [(name, {})]:
        try:
            # A recipe checks and resolves options as for training.
            given = settings or [f"{key}={value}" for key, value in options.items()]
            made = card(load_data(make_recipe(data, settings=given)))
        except GSATError as error:
            if not every:
                raise
            print_error(str(error))  # and continue with the others
            failed = True
            continue
        cards.append(made)
        if write is not None:
            text = json.dumps(made, indent=2, ensure_ascii=False, allow_nan=False)
            write_output(write / file_name(made), f"{text}\n".encode())
        if not as_json:
            _echo(made)
    if as_json:
        echo(json.dumps(cards if every else cards[0], allow_nan=False))
    if failed:
        raise typer.Exit(2)
    if any(finding["severity"] == "error" for card in cards for finding in card["findings"]):
        raise typer.Exit(1)


def _echo(card: Card) -> None:
    """Print a summary as text and a table."""
    from rich.table import Table

    from gsat.datasets.registry import paper_match

    task = card["task"]
    echo(f"{card['name']} · {' '.join(f'{k}={v}' for k, v in card['options'].items())}")
    echo(f"{task['kind']}, a label per {task['level']}, measured by {task['metric']}")
    match = paper_match(card["name"], card["matches_paper"])
    paper = "" if match is None else f"matches the paper: {match} · "
    echo(f"{paper}hash {card['hash']}")
    table = Table("", "here", *(["paper"] if card["published"] else []))
    for row in _rows(card):
        if row:
            table.add_row(*row[: len(table.columns)])
        else:
            table.add_section()
    echo_table(table)
    if any(not figure["verified"] for figure in card["published"].values()):
        echo("? from a secondary source, not verified")
    for finding in card["findings"]:
        echo(f"{finding['severity']}: {finding['message']}")
    echo()


def _rows(card: Card) -> Iterator[tuple[str, str, str] | None]:
    """Make rows of title, our value and published value; None separates sections."""
    kind, level = card["task"]["kind"], card["task"]["level"]
    labels = "labels" if kind == "multilabel" else "classes"
    yield _row(card, "graphs", "graphs")
    for what in ("nodes", "edges"):
        yield _row(card, f"{what}{' stored' * (what == 'edges')}, mean", f"{what}.mean")
        yield _row(card, f"{what}, most", f"{what}.max")
    yield _row(card, "undirected", "undirected")
    yield _row(card, "features", "features")
    yield _row(card, "edge features", "edge_features")
    if kind != "regression":
        yield _row(card, labels, "task.classes")
    if card["classes"]:
        yield f"names of {labels}", ", ".join(map(str, card["classes"])), ""
    yield _row(card, "true edges", "truth")
    for key, value in card["about"].items():
        yield key, ", ".join(map(str, value)) if isinstance(value, list) else str(value), ""
    for name, split in card["splits"].items():
        yield None
        yield _row(card, f"{name}: {level}s", f"splits.{name}.size")
        if level == "graph":  # node-level splits share their graphs
            yield _row(card, f"{name}: nodes, mean", f"splits.{name}.nodes")
            yield _row(card, f"{name}: edges, mean", f"splits.{name}.edges")
            if card["truth"] is not None:
                yield _row(card, f"{name}: true edges", f"splits.{name}.truth")
        if split["labelled"] != 1:
            yield _row(card, f"{name}: labelled", f"splits.{name}.labelled")
        yield f"{name}: {_BALANCE[kind]}", _balance(kind, split["balance"]), ""


_BALANCE = {
    "binary": "share of classes",
    "multiclass": "share of classes",
    "multilabel": "positive labels",
    "regression": "mean ± deviation",
}
_SHARES = ("truth", "labelled", "undirected")


def _row(card: Card, label: str, place: str) -> tuple[str, str, str]:
    from gsat.datasets.cards import value_at

    published = card["published"].get(place)
    mark = "" if published is None or published["verified"] else " ?"
    value = None if published is None else published["value"]
    return label, _shown(place, value_at(card, place)), _shown(place, value) + mark


def _shown(place: str, value: Any) -> str:
    if value is None:
        return "–"
    if place.endswith(_SHARES):
        whole = {0: "no", 1: "yes"} if place == "undirected" else {}
        return whole.get(value) or f"{100 * value:.1f} %"
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _balance(kind: str, balance: list[float | None]) -> str:
    known = [value for value in balance if value is not None]
    if not known:
        return "–"
    if kind == "regression":
        return f"{known[0]:.2f} ± {known[1]:.2f}"
    if len(known) > MANY:
        return f"{100 * min(known):.1f} to {100 * max(known):.1f} %"
    return ", ".join(f"{100 * value:.1f}" for value in known) + " %"
