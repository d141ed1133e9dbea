"""A table ready to print: texts and how they are set, the same for every output format."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PrintedCell:
    """A cell as it is printed.

    Attributes:
        main: The text that may be emphasised.
        style: ``"bold"``, ``"underline"``, ``"missing"`` (where there is no number), or empty.
            (default: plain)
        sign: A sign right behind ``main``. (default: none)
        rest: What follows in the same line. (default: nothing)
        paper: The paper's number, printed below. (default: none)
        difference: The difference from the paper's number. (default: none)
        beside: What the number below is of. (default: ``"paper"``)
    """

    main: str
    style: str = ""
    sign: str = ""
    rest: str = ""
    paper: str = ""
    difference: str = ""
    beside: str = "paper"

    @property
    def comparison(self) -> str:
        """The paper's number and the difference in one line; empty without a paper's number."""
        parts = (f"{self.beside} {self.paper}", self.difference) if self.paper else ()
        return ", ".join(part for part in parts if part)


PrintedRow = tuple[PrintedCell, ...] | str  # a text is a heading of the rows below it


@dataclass(frozen=True)
class PrintedTable:
    """A table as it is printed.

    Attributes:
        title: The caption.
        head: Names of the columns.
        rows: Rows of cells; a row that is a text is a heading of those below it.
        notes: Remarks below the table. (default: none)
        name: The name by which users ask for the table. (default: none)
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[PrintedRow, ...]
    notes: tuple[str, ...] = ()
    name: str = ""

    @property
    def heading(self) -> str:
        """The title, with the name before it."""
        return f"{self.name}: {self.title}" if self.name else self.title
