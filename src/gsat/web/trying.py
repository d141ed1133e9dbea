"""Graphs and molecules that a visitor brings: read, explained, drawn."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from gsat.core.errors import DataError
from gsat.core.parsing import ParseError, parse_json
from gsat.draw.caption import answer, reliability
from gsat.explain.molecules import ExplainedMolecule
from gsat.explanation import Explanation
from gsat.training.run_molecules import (
    PredictedTable,
    predict_table,
    read_like_training,
    read_smiles,
)
from gsat.web.computing import COMPUTING
from gsat.web.errors import BadInputError, RequestError
from gsat.web.inputs import Asked, parse_question, to_store
from gsat.web.limits import Limits
from gsat.web.loaded import LoadedRun
from gsat.web.pictures import draw_picture, ranked

CARDS: Final = 24  # molecules of a table that are drawn
SHOWN_ROWS: Final = 200
FRAGMENTS: Final = 6
TABLES: Final = (".csv", ".tsv", ".smi")


@dataclass(frozen=True)
class Tried:
    """One explained graph, ready to be shown.

    Attributes:
        title: What it is.
        answer: The prediction in words.
        explanation: The explanation.
        svg: The picture.
        molecule: Fragments and warnings, if it is a molecule.
    """

    title: str
    answer: str
    explanation: Explanation
    svg: Markup
    molecule: ExplainedMolecule | None = None

    @property
    def reliability(self) -> str:
        """How far the explanation can be relied on, in words."""
        return reliability(self.explanation)

    @property
    def edges(self) -> list[Any]:
        """Edges from the highest score down, with the names of their ends."""
        return ranked(self.explanation)

    @property
    def fragments(self) -> list[Any]:
        """The first fragments of the molecule, with their effects."""
        if self.molecule is None:
            return []
        return [
            (fragment, self.molecule.effect(fragment))
            for fragment in self.molecule.fragments[:FRAGMENTS]
        ]


def try_smiles(loaded: LoadedRun, text: str, limits: Limits) -> list[Tried]:
    """Explain molecules that were typed, one per line or separated by spaces."""
    smiles = text.split()
    if not smiles:
        raise BadInputError("type a SMILES, such as CCO")
    if len(smiles) > CARDS or max(map(len, smiles)) > limits.characters:
        raise RequestError(
            413, f"at most {CARDS} SMILES of {limits.characters} characters are drawn here"
        )
    return _molecules(loaded, read_smiles(loaded.model, smiles))


def try_json(loaded: LoadedRun, body: bytes, limits: Limits) -> list[Tried]:
    """Explain graphs that were pasted: one object, a list of them, or a whole question."""
    asked = parse_question(_as_question(body), limits)
    if len(asked.items) > CARDS:
        raise RequestError(413, f"{len(asked.items)} graphs came; at most {CARDS} are drawn here")
    if asked.molecules:
        return try_smiles(loaded, " ".join(asked.items), limits)
    store = to_store(loaded, Asked(asked.items, False, asked.single))
    out = []
    for number, explanation in enumerate(loaded.explain_store(store)):
        if explanation.get("node_prediction") is not None:
            explanation = explanation.of_node(0)
        name = explanation.get("id") or f"graph {number}"
        out.append(_tried(loaded, str(name), explanation))
    return out


@dataclass(frozen=True)
class TriedTable:
    """A table of molecules with predictions.

    Attributes:
        key: Under which it can be fetched again.
        table: All rows.
        cards: The first molecules, explained.
    """

    key: str
    table: PredictedTable
    cards: list[Tried]

    @property
    def rows(self) -> list[list[str]]:
        """The rows that are shown."""
        return self.table.rows[:SHOWN_ROWS]


def try_table(loaded: LoadedRun, name: str, body: bytes) -> TriedTable:
    """Predict the molecules of a table, and explain the first of them."""
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
    cards = _molecules(loaded, store.select(range(min(CARDS, len(store)))))
    key = hashlib.sha256(body).hexdigest()[:24]
    made = TriedTable(key, table, cards)
    return loaded.kept(("table", key), lambda: made, 4 * len(body) + 1000)


def kept_table(loaded: LoadedRun, key: str) -> PredictedTable:
    """Return a table that was tried before."""

    def gone() -> TriedTable:
        raise RequestError(404, "this table is not kept any more; drop it once more")

    return loaded.kept(("table", key), gone, 0).table


def _molecules(loaded: LoadedRun, store: Any) -> list[Tried]:
    if not len(store):
        return []
    report = loaded.molecules(store)
    return [
        _tried(loaded, one.name or one.smiles, one.explanation, one) for one in report.molecules
    ]


def _tried(
    loaded: LoadedRun,
    title: str,
    explanation: Explanation,
    molecule: ExplainedMolecule | None = None,
) -> Tried:
    edges = explanation.edge_index.numpy().tobytes()
    key = ("tried", hashlib.sha256(edges).hexdigest()[:16], int(explanation.num_nodes or 0))
    picture = draw_picture(loaded, key, explanation)
    return Tried(title, answer(explanation), explanation, Markup(picture.svg), molecule)


def _as_question(body: bytes) -> bytes:
    """Wrap graphs as the API wants them."""
    text = body.strip()
    if not text:
        raise BadInputError(
            'paste a graph, such as {"edges": [[0, 1], [1, 2]], "x": [[1], [1], [1]]}'
        )
    try:
        found = parse_json(text)
    except ParseError as error:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) > 1 and all(line.strip().startswith(b"{") for line in lines):
            return b'{"graphs": [' + b",".join(lines) + b"]}"
        raise BadInputError(f"the graph can't be read: {error}") from None
    if isinstance(found, list):
        return b'{"graphs": ' + text + b"}"
    if isinstance(found, dict) and found.keys() & {"edges", "edge_index", "num_nodes"}:
        return b'{"graph": ' + text + b"}"
    return text
