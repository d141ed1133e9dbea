"""Tables as plain text for a terminal, cut between columns where they are too wide."""

from __future__ import annotations

import io
import shutil
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gsat.study.printed import PrintedCell, PrintedTable

_MARKS = {"bold": ("*", "*"), "underline": ("_", "_")}
_LEGEND = "Bold is written *so*, underlined _so_."
_PADDING = 3  # characters of a column beside its text: two spaces and a line


def render_text(tables: Sequence[PrintedTable]) -> str:
    """Render tables as plain text.

    A table wider than the terminal is cut between columns into several, one below the other; no
    cell is ever broken.
    """
    file = io.StringIO()
    # Without a terminal nothing needs to be cut.
    width = shutil.get_terminal_size((200, 24)).columns
    for printed in tables:
        lines = [None if isinstance(row, str) else _lines(row) for row in printed.rows]
        widths = [
            max(map(cell_len, (name, *(part for row in lines if row for part in row[number]))))
            for number, name in enumerate(printed.head)
        ]
        headings = [cell_len(row) for row in printed.rows if isinstance(row, str)]
        widths[0] = max(widths[0], *headings, 0)
        for number, columns in enumerate(_blocks(widths, width)):
            title = printed.heading + (", continued" if number else "")
            needed = sum(widths[i] + _PADDING for i in columns) + 1
            console = Console(file=file, width=max(width, needed, cell_len(title)))
            console.print(_table(printed, lines, columns, title))
        marked = any(
            cell.style in _MARKS for row in printed.rows if not isinstance(row, str) for cell in row
        )
        for note in (*printed.notes, *((_LEGEND,) if marked else ())):
            Console(file=file, width=width).print(Text(note))
        file.write("\n")
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()).rstrip("\n") + "\n"


def _ours(cell: PrintedCell) -> str:
    before, behind = _MARKS.get(cell.style, ("", ""))
    return f"{before}{cell.main}{behind}{cell.sign}{cell.rest}"


def _lines(row: Sequence[PrintedCell]) -> list[list[str]]:
    """The lines of each cell: ours and, where any cell has them, the paper's and the difference."""
    first, *rest = row
    cells = [[_ours(cell), cell.paper, cell.difference] for cell in rest]
    used = max((n for cell in cells for n, part in enumerate(cell) if part), default=0)
    beside = rest[0].beside if rest else "paper"
    label = [_ours(first), f"  {beside}", "  difference"]
    return [label[: used + 1], *(cell[: used + 1] for cell in cells)]


def _blocks(widths: Sequence[int], width: int) -> list[list[int]]:
    """Numbers of the columns that are printed side by side; each block begins with the first."""
    blocks = [[0]]
    room = width - 1 - (widths[0] + _PADDING)
    left = room
    for number, needed in enumerate(widths[1:], start=1):
        if needed + _PADDING > left and len(blocks[-1]) > 1:
            blocks.append([0])
            left = room
        blocks[-1].append(number)
        left -= needed + _PADDING
    return blocks


def _table(
    printed: PrintedTable,
    lines: Sequence[list[list[str]] | None],
    columns: Sequence[int],
    title: str,
) -> Table:
    several_lines = any(row and len(row[0]) > 1 for row in lines)
    table = Table(title=Text(title), title_justify="left", show_lines=several_lines)
    for number in columns:
        table.add_column(
            Text(printed.head[number]), justify="right" if number else "left", no_wrap=True
        )
    for row, parts in zip(printed.rows, lines, strict=True):
        if parts is None:
            table.add_section()
            table.add_row(Text(str(row)))
        else:
            table.add_row(*(Text("\n".join(parts[number])) for number in columns))
    return table
