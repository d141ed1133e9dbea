"""Molecules with a rule of your own: the label and its true atoms follow from SMARTS.

A rule with a known answer tests a set-up: does a model trained like yours find the atoms that
decide? Molecules are those of a table of yours, or those of the set ``benzene``.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from gsat.core.errors import DataError, DataNotFoundError, shown
from gsat.core.files import exists, full_path, read_file, sha256
from gsat.core.limits import memory_limit
from gsat.core.registry import register_dataset
from gsat.datasets.fetch.raw_files import RawFile
from gsat.datasets.source import DatasetOptions, DatasetSource
from gsat.datasets.sources.attribution import Attribution, read_table
from gsat.molecules.substructures import check_smarts
from gsat.molecules.table import SUFFIXES, is_table

if TYPE_CHECKING:
    from gsat.datasets.sources._molecules import Matches
    from gsat.graphs import GraphStore
    from gsat.tasks import Task

FEWEST: Final = 10  # molecules
LARGEST_WEIGHT: Final = 1e6
CLASS_RULES: Final = ("any", "all")
CLASSES: Final = ("no", "yes")


@register_dataset("planted")
class Planted(DatasetSource):
    """Molecules with a rule of your own: SMARTS decide the label (known atoms)."""

    class Options(DatasetOptions):
        smarts: list[str] = Field(
            ["[NX3][CX3]=[OX1]"], description="substructures that decide the label, as SMARTS"
        )
        rule: Literal["any", "all", "count", "sum"] = Field(
            "any",
            description="'any', 'all': a class, whether one or every SMARTS matches; 'count': the "
            "number of matches; 'sum': the sum of weight times matches over the SMARTS",
        )
        weights: list[float] = Field(
            [], description="for 'sum': a number other than 0 for each SMARTS"
        )
        table: str = Field(
            "", description="path of a table of molecules; empty: the molecules of 'benzene'"
        )
        smiles: str = Field(
            "", description="column of the SMILES in the table; found by name and content if absent"
        )
        molecules: int = Field(2000, ge=0, description="number of molecules to draw; 0: all")
        balance: bool = Field(True, description="for classes: whether as many of both are drawn")

        @field_validator("smarts")
        @classmethod
        def _check_smarts(cls, smarts: list[str]) -> list[str]:
            check_smarts(smarts)
            return smarts

        @field_validator("table")
        @classmethod
        def _check_table(cls, table: str) -> str:
            if table and not is_table(table):
                raise DataError(
                    f"data option 'table' must be the path of a table of molecules, "
                    f"{', '.join(SUFFIXES)}, not {shown(table)}"
                )
            return str(full_path(table)) if table else ""

        @field_validator("molecules")
        @classmethod
        def _check_molecules(cls, molecules: int) -> int:
            if 0 < molecules < FEWEST:
                raise DataError(
                    f"data option 'molecules' must be 0 (all) or at least {FEWEST}, not {molecules}"
                )
            return molecules

        @model_validator(mode="after")
        def _check_together(self) -> Self:
            if self.smiles and not self.table:
                raise DataError(
                    "data option 'smiles' names a column of the data option 'table', which is "
                    "empty: name a table, or leave out 'smiles'"
                )
            if self.rule != "sum":
                if self.weights:
                    raise DataError(
                        f"data option 'weights' is for rule='sum', not for rule='{self.rule}': "
                        "leave it out, or change the rule"
                    )
            elif len(self.weights) != len(self.smarts):
                raise DataError(
                    f"data option 'weights' must list a number for each of {len(self.smarts)} "
                    f"SMARTS with rule='sum', not {len(self.weights)}"
                )
            for weight in self.weights:
                if not 0 < abs(weight) <= LARGEST_WEIGHT:
                    raise DataError(
                        f"data option 'weights' must list numbers other than 0 from "
                        f"{-LARGEST_WEIGHT:g} to {LARGEST_WEIGHT:g}, not {weight:g}"
                    )
            return self

    recipe, backbone = "molecules", "dmpnn"
    drawn = True
    standardised = True

    def raw_files(self, name: str, options: Options) -> tuple[RawFile, ...]:
        """Return the table of the set ``benzene`` unless another table is named."""
        return () if options.table else Attribution().raw_files("benzene", DatasetOptions())[:1]

    def identity(self, options: Options) -> str | None:
        """Return the hash of the table."""
        if not options.table:
            return None
        path = Path(options.table)
        if not exists(path):
            raise DataNotFoundError(
                f"there is no table {path}; correct the data option 'table', or leave it out for "
                "the molecules of 'benzene'"
            )
        return sha256(read_file(path, error=DataError, limit=memory_limit(), links=True))

    def task(self, name: str, options: Options) -> Task:
        """Two classes, measured by ROC AUC, or a number."""
        from gsat.tasks import Task

        if options.rule in CLASS_RULES:
            return Task("binary", metric="roc_auc")
        return Task("regression", 1, "r2")

    def build(self, name: str, options: Options, data_seed: int) -> GraphStore:
        """Draw molecules and label them; node i is atom i of their SMILES.

        Atoms of matches are true, with the sign of their weight: in a class of all matches in
        positive molecules, and none in negative ones. A bond within a match is true.
        """
        from gsat.datasets.sources._molecules import labelled_store, truth_of_matches

        pool = _pool(self, name, options)
        drawn = _draw(pool, options, data_seed)
        rows = sorted(drawn)
        classes = options.rule in CLASS_RULES
        weights = options.weights or [1.0] * len(options.smarts)
        y, contributions = [], []
        for row in rows:
            weighted = [
                (atoms, weight)
                for matches, weight in zip(drawn[row], weights, strict=True)
                for atoms in matches
            ]
            positive = _is_positive(drawn[row], options.rule)
            y.append(float(positive) if classes else sum(weight for _, weight in weighted))
            contributions.append(weighted if positive or not classes else [])
        if not classes and min(y) == max(y):
            raise DataError(
                f"the rule '{options.rule}' gives the label {y[0]:g} to each of {len(y)} molecules "
                f"of {pool.source}; choose SMARTS that tell them apart"
            )
        ids = {"id": [pool.names[row] for row in rows]} if pool.names else {}
        store = labelled_store(
            [pool.smiles[row] for row in rows],
            np.array(y),
            lambda store: truth_of_matches(store, contributions),
            label="planted",
            classes=CLASSES if classes else (),
            fields={"annotated": np.array([len(some) > 0 for some in contributions]), **ids},
            columns=pool.columns,
        )
        store.meta.update(pool.meta)
        return store

    def split(self, store: GraphStore, seed: int, options: Options) -> dict[str, NDArray[np.int64]]:
        """Cut a shuffle 80/10/10; each part gets its share of both classes."""
        from gsat.datasets.splits import stratified

        if options.rule in CLASS_RULES:
            return stratified(store.labels("graph")[:, 0], seed)
        return super().split(store, seed, options)


class _Pool(NamedTuple):
    """Molecules to draw from."""

    source: str  # for messages
    smiles: list[str]
    names: list[str]  # identifiers; empty if there are none
    columns: dict[str, str]  # names of the columns of SMILES and identifiers
    meta: dict[str, Any]  # notes about the table, and rejected rows


def _pool(source: Planted, name: str, options: Planted.Options) -> _Pool:
    """The molecules of the table, or those of ``benzene``."""
    if not options.table:
        (file,) = source.raw_files(name, options)
        names, smiles = read_table(file.require())
        return _Pool("the set 'benzene'", smiles, names, {"smiles": "smiles", "id": ""}, {})
    from gsat.datasets.molecule_tables import read
    from gsat.molecules.options import TableSettings

    path = Path(options.table)
    store = read(path, TableSettings(smiles=options.smiles, labelled=False, scaffold=False))
    table = store.meta["table"]
    if options.smiles and table["smiles"] != options.smiles:
        raise DataError(
            f"{path} has no column '{shown(options.smiles, 60)}'; its SMILES are in "
            f"'{shown(table['smiles'], 60)}': leave out the data option 'smiles', or correct it"
        )
    return _Pool(
        str(path),
        store.texts("smiles"),
        store.texts("id") if store.has("id") else [],
        {"smiles": table["smiles"], "id": table["id"]},
        {"notes": store.meta["notes"], "rejected": store.meta["rejected"]},
    )


def _is_positive(matches: Matches, rule: str) -> bool:
    return all(matches) if rule == "all" else any(matches)


def _draw(pool: _Pool, options: Planted.Options, data_seed: int) -> dict[int, Matches]:
    """Draw molecules, each once; their matches by row.

    Rows are taken in a random order until there are enough, of both classes if these are balanced.
    """
    from gsat.datasets.sources._molecules import match_smarts
    from gsat.molecules.smiles import import_rdkit

    chem = import_rdkit("reading molecules")
    most = options.molecules or len(pool.smiles)
    balanced = options.balance and options.rule in CLASS_RULES
    room = max(1, most // 2) if balanced else most
    parts: dict[bool, dict[int, Matches]] = {True: {}, False: {}}
    counts, seen = Counter[bool](), set()
    order = np.random.RandomState(data_seed).permutation(len(pool.smiles)).tolist()
    smiles = (pool.smiles[row] for row in order)
    molecules = match_smarts(smiles, options.smarts, pool.source)
    for row, (molecule, matches) in zip(order, molecules, strict=False):
        same = chem.MolToSmiles(molecule)
        if same in seen:
            continue
        seen.add(same)
        positive = _is_positive(matches, options.rule)
        counts[positive] += 1
        if balanced and counts[positive] > room:
            continue
        parts[positive][row] = matches
        sizes = [len(rows) for rows in parts.values()]
        if min(sizes) == room if balanced else sum(sizes) == room:
            break
    _check_drawn(pool, options, counts[True], counts[False])
    if balanced:
        room = min(map(len, parts.values()))
    return {row: matches for part in parts.values() for row, matches in list(part.items())[:room]}


def _check_drawn(pool: _Pool, options: Planted.Options, positive: int, negative: int) -> None:
    """Raise unless there are enough molecules, and both classes where there are classes."""
    total, advice = positive + negative, "choose other SMARTS, or another table"
    known = f"{total} molecules of {pool.source}"
    if options.rule in CLASS_RULES:
        known = f"{positive} of {known} are positive with rule='{options.rule}'"
        if not positive or not negative:
            raise DataError(f"{known}; both classes are needed: {advice}")
        if options.balance:
            total, advice = 2 * min(positive, negative), f"{advice}, or set balance=False"
    if total < FEWEST:
        raise DataError(f"at least {FEWEST} molecules are needed, not {total} ({known}); {advice}")
