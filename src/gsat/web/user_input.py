"""Graphs, molecules and tables that a user enters on a page: read, predicted, explained."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from gsat.core.errors import DataError
from gsat.core.parsing import ParseError, parse_json
from gsat.explain.molecules import ExplainedMolecule
from gsat.explanation import Explanation
from gsat.graphs import GraphStore
from gsat.training.molecules import (
    PredictedTable,
    predict_table,
    read_like_training,
)
from gsat.web.fair_lock import COMPUTING
from gsat.web.library import LoadedRun
from gsat.web.pictures import Picture, draw_picture, ranked_edges
from gsat.web.requests import BadInputError, NotFoundError, Question, RequestError, in_one_line

CARDS: Final = 24  # graphs that are drawn
TABLES: Final = (".csv", ".tsv", ".smi")
EXAMPLE: Final = '{"edges": [[0, 1], [1, 2]], "x": [[1], [1], [1]]}'


@dataclass(frozen=True)
class InputCard:
    """An explained graph of the user."""

    title: str
    explanation: Explanation
    picture: Picture
    edges: list[Any]  # by descending score, with the names of their nodes
    molecule: ExplainedMolecule | None = None


def explain_smiles(loaded: LoadedRun, text: str) -> list[InputCard]:
    """Explain molecules, separated by white space."""
    if not text.split():
        raise BadInputError("enter a SMILES, such as CCO")
    return _explain(loaded, Question(smiles=text.split()))


def explain_json(loaded: LoadedRun, body: bytes) -> list[InputCard]:
    """Explain graphs: one object, a list, JSON lines, or a body as for the API."""
    try:
        question = Question.model_validate(_as_question(body))
    except ValidationError as error:
        raise BadInputError(in_one_line(error.errors(include_url=False)[0])) from None
    return _explain(loaded, question)


def _explain(loaded: LoadedRun, question: Question) -> list[InputCard]:
    question.check(loaded.limits)
    if len(question.items) > CARDS:
        raise RequestError(413, f"{len(question.items)} items; at most {CARDS} can be drawn")
    store = loaded.read(question.items)
    if question.molecules:
        return _molecule_cards(loaded, store)
    cards = []
    for number, explanation in enumerate(loaded.explain(store)):
        if explanation.get("node_prediction") is not None:
            explanation = explanation.of_node(0)
        name = explanation.get("id") or f"graph {number}"
        cards.append(_card(loaded, str(name), explanation))
    return cards


@dataclass(frozen=True)
class InputTable:
    """A table of molecules with predictions; the first molecules are explained."""

    key: str  # in the address of the CSV file
    table: PredictedTable
    cards: list[InputCard]


def explain_table(loaded: LoadedRun, name: str, body: bytes) -> InputTable:
    """Predict the molecules of a table, and explain the first ones."""
    suffix = Path(name).suffix.lower()
    if suffix not in TABLES:
        raise BadInputError(f"a table is a {', '.join(TABLES)} file, not '{name[:60]}'")
    with tempfile.TemporaryDirectory(prefix="gsat-") as folder:
        path = Path(folder) / f"table{suffix}"
        path.write_bytes(body)
        try:
            with COMPUTING:
                table = predict_table(loaded.model, path)
                store = read_like_training(loaded.model, path)
        except DataError as error:
            raise BadInputError(str(error).replace(str(path), "the table")) from None
    cards = _molecule_cards(loaded, store.select(range(min(CARDS, len(store)))))
    key = hashlib.sha256(body).hexdigest()[:24]
    made = InputTable(key, table, cards)
    return loaded.cached(("table", key), lambda: made, 4 * len(body) + 1000)


def cached_table(loaded: LoadedRun, key: str) -> PredictedTable:
    """Return the predictions of a table that was uploaded before."""

    def evicted() -> InputTable:
        raise NotFoundError("this table is no longer in memory; upload it again")

    return loaded.cached(("table", key), evicted, 0).table


def example_graph(loaded: LoadedRun) -> str:
    """A small graph that fits the model, as JSON."""

    def row(width: int) -> str:
        return ", ".join(["1"] * width) if width <= 12 else f"1, … ({width} numbers)"

    network = loaded.model.network
    width, edge_width = network.get("in_features") or 1, network.get("edge_features") or 0
    edges = [[0, 1], [1, 0], [1, 2], [2, 1], [2, 0], [0, 2]]
    x = ", ".join([f"[{row(width)}]"] * 3)
    text = f'{{"edges": {edges},\n "x": [{x}]'
    if edge_width:
        text += f',\n "edge_attr": [{", ".join([f"[{row(edge_width)}]"] * 6)}]'
    return text + "}"


def _molecule_cards(loaded: LoadedRun, store: GraphStore) -> list[InputCard]:
    if not len(store):
        return []
    return [
        _card(loaded, one.name or one.smiles, one.explanation, one)
        for one in loaded.molecules(store).molecules
    ]


def _card(
    loaded: LoadedRun,
    title: str,
    explanation: Explanation,
    molecule: ExplainedMolecule | None = None,
) -> InputCard:
    edges = explanation.edge_index.numpy().tobytes()
    key = ("input", hashlib.sha256(edges).hexdigest()[:16], int(explanation.num_nodes or 0))
    picture = draw_picture(loaded, key, explanation)
    return InputCard(title, explanation, picture, ranked_edges(explanation), molecule)


def _as_question(body: bytes) -> Any:
    """Parse the input; graphs are wrapped as in a request body of the API."""
    if not body.strip():
        raise BadInputError(f"enter a graph, such as {EXAMPLE}")
    try:
        values = _parsed(body)
    except ParseError as error:
        raise BadInputError(f"the graph can't be parsed: {error}") from None
    if isinstance(values, list):
        return {"graphs": values}
    if isinstance(values, dict) and values.keys() & {"edges", "edge_index", "num_nodes"}:
        return {"graph": values}
    return values


def _parsed(body: bytes) -> Any:
    try:
        return parse_json(body)
    except ParseError:
        lines = [line.strip() for line in body.splitlines() if line.strip()]
        if len(lines) < 2 or not all(line.startswith(b"{") for line in lines):
            raise
        return [parse_json(line) for line in lines]
