"""How a table of molecules is read. Imports nothing heavy: the command line lists the options."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from gsat.core.settings import Settings


class TableOptions(Settings):
    """Options of a table of molecules: its columns, salts and repeated molecules."""

    smiles: str = Field(
        default="", description="column of the SMILES; found by name and content if absent"
    )
    label: list[str] = Field(
        default=[], description="columns to predict: one, or several yes-or-no questions or numbers"
    )
    id: str = Field(default="", description="column of identifiers; found by name if absent")
    largest_fragment: bool = Field(
        default=False, description="whether only the largest component of a salt is kept"
    )
    duplicates: Literal["merge", "keep"] = Field(
        default="merge", description="whether rows with the same molecule become one"
    )

    @field_validator("label", mode="before")
    @classmethod
    def _list(cls, label: Any) -> Any:
        return [label] if isinstance(label, str) else label


class TableSettings(TableOptions):
    """How a table is read: its options, and what the caller decides.

    If no labels are needed (``labelled=False``), the named columns are those of another table, and
    need not exist in this one.
    """

    task: str = "auto"
    classes: list[str] = Field(default=[])
    split: str = ""  # column of the split
    labelled: bool = True
    scaffold: bool = True  # whether scaffolds are computed
