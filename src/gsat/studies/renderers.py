"""Tables as text for a terminal, Markdown, an HTML page or LaTeX."""

from __future__ import annotations

import html
import io
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text


@dataclass(frozen=True)
class Shown:
    """A cell as it is printed.

    Attributes:
        main: what may stand out, ``bold`` or ``underline`` as ``how`` says; sign: right behind it.
        rest: goes on in the same line. paper: the paper's figure. difference: from the paper's.
    """

    main: str
    how: str = ""
    sign: str = ""
    rest: str = ""
    paper: str = ""
    difference: str = ""


@dataclass(frozen=True)
class Grid:
    """A table to print; a row that is a text is a heading of those below it."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Shown, ...] | str, ...]
    notes: tuple[str, ...] = ()
    name: str = ""

    @property
    def heading(self) -> str:
        """The title, with the name by which users ask for the table."""
        return f"{self.name}: {self.title}" if self.name else self.title


Emphasise = Mapping[str, tuple[str, str]]  # what stands before and behind


def _ours(cell: Shown, emphasise: Emphasise, escape: Callable[[str], str]) -> str:
    before, behind = emphasise.get(cell.how, ("", ""))
    return f"{before}{escape(cell.main)}{behind}{escape(cell.sign + cell.rest)}"


def _beside(cell: Shown) -> str:
    """The paper's figure and the difference in one line."""
    return ", ".join(part for part in (f"paper {cell.paper}", cell.difference) if part)


def text(grids: Sequence[Grid]) -> str:
    """Tables of lines and letters. One that is wider than the terminal is cut between columns into
    several, one below the other; nothing within a cell is ever broken."""
    file = io.StringIO()
    # Where nobody looks through a terminal, nothing needs to be cut.
    width = shutil.get_terminal_size((200, 24)).columns
    for grid in grids:
        lines = [None if isinstance(row, str) else _lines(row) for row in grid.rows]
        widths = [
            max(map(cell_len, (name, *(part for row in lines if row for part in row[number]))))
            for number, name in enumerate(grid.head)
        ]
        widths[0] = max(widths[0], *(cell_len(row) for row in grid.rows if isinstance(row, str)), 0)
        for number, columns in enumerate(_blocks(widths, width)):
            title = grid.heading + (", continued" if number else "")
            table = _table(grid, lines, columns, title)
            needed = sum(widths[i] + 3 for i in columns) + 1
            Console(file=file, width=max(width, needed, cell_len(title))).print(table)
        marked = any(c.how in _PLAIN for row in grid.rows if not isinstance(row, str) for c in row)
        for note in (*grid.notes, *(("Bold is written *so*, underlined _so_.",) if marked else ())):
            Console(file=file, width=width).print(Text(note))
        file.write("\n")
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()).rstrip("\n") + "\n"


_PLAIN = {"bold": ("*", "*"), "underline": ("_", "_")}


def _lines(row: Sequence[Shown]) -> list[list[str]]:
    """The lines of each cell: ours, and where any has them the paper's and the difference."""
    first, *others = row
    cells = [[_ours(cell, _PLAIN, str), cell.paper, cell.difference] for cell in others]
    used = max((n for cell in cells for n, part in enumerate(cell) if part), default=0)
    label = [_ours(first, _PLAIN, str), "  paper", "  difference"]
    return [label[: used + 1], *(cell[: used + 1] for cell in cells)]


def _blocks(widths: Sequence[int], width: int) -> list[list[int]]:
    """Numbers of the columns that stand side by side, the first of all in each block."""
    blocks = [[0]]
    room = width - 1 - (widths[0] + 3)
    left = room
    for number, needed in enumerate(widths[1:], start=1):
        if needed + 3 > left and len(blocks[-1]) > 1:
            blocks.append([0])
            left = room
        blocks[-1].append(number)
        left -= needed + 3
    return blocks


def _table(
    grid: Grid, lines: Sequence[list[list[str]] | None], columns: Sequence[int], title: str
) -> RichTable:
    high = any(row and len(row[0]) > 1 for row in lines)
    table = RichTable(title=Text(title), title_justify="left", show_lines=high)
    for number in columns:
        table.add_column(
            Text(grid.head[number]), justify="right" if number else "left", no_wrap=True
        )
    for row, parts in zip(grid.rows, lines, strict=True):
        if parts is None:
            table.add_section()
            table.add_row(Text(str(row)))
        else:
            table.add_row(*(Text("\n".join(parts[number])) for number in columns))
    return table


def markdown(grids: Sequence[Grid]) -> str:
    """Tables as GitHub shows them."""
    marks = {"bold": ("**", "**"), "underline": ("<ins>", "</ins>")}

    def escape(plain: str) -> str:
        return plain.replace("<", "&lt;").replace("|", "\\|")

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    out = []
    for grid in grids:
        lines = [line([escape(name) for name in grid.head]), line(["---"] * len(grid.head))]
        for row in grid.rows:
            if isinstance(row, str):
                lines.append(line([f"*{escape(row)}*", *[""] * (len(grid.head) - 1)]))
                continue
            lines.append(
                line(
                    [
                        _ours(cell, marks, escape)
                        + (f"<br><sub>{_beside(cell)}</sub>" if cell.paper else "")
                        for cell in row
                    ]
                )
            )
        parts = [f"### {escape(grid.heading)}", "\n".join(lines), escape(" ".join(grid.notes))]
        out.append("\n\n".join(filter(None, parts)))
    return "\n\n".join(out) + "\n"


_CSS = """
  :root { color-scheme: light dark; --dim: #667; --line: #ccd; --soft: #f5f6fa; }
  @media (prefers-color-scheme: dark) { :root { --dim: #99a; --line: #445; --soft: #22242c; } }
  body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem;
         padding: 0 1rem; }
  h1 { font-size: 1.3rem; margin: 2rem 0 .8rem; }
  .wide { overflow-x: auto; }
  table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
  thead th { border-bottom: 2px solid var(--line); }
  th, td { padding: .45rem .8rem; text-align: right; vertical-align: top; white-space: nowrap; }
  th:first-child, td:first-child { text-align: left; font-weight: 600; }
  tbody tr { border-bottom: 1px solid var(--line); }
  tbody tr:hover { background: var(--soft); }
  tr.part th { background: var(--soft); font-style: italic; font-weight: 400; text-align: left; }
  small { color: var(--dim); display: block; }
  .none { color: var(--dim); font-style: italic; }
  p { color: var(--dim); font-size: .85rem; margin: .4rem 0; max-width: 48rem; }
"""


def page(grids: Sequence[Grid]) -> str:
    """A page of HTML that needs nothing but itself."""
    marks = {
        "bold": ("<strong>", "</strong>"),
        "underline": ("<u>", "</u>"),
        "none": ('<span class="none">', "</span>"),
    }
    body = []
    for grid in grids:
        head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in grid.head)
        rows = []
        for row in grid.rows:
            if isinstance(row, str):
                span = f'<th colspan="{len(grid.head)}">{html.escape(row)}</th>'
                rows.append(f'<tr class="part">{span}</tr>')
                continue
            cells = [
                _ours(cell, marks, html.escape)
                + (f"<small>{html.escape(_beside(cell))}</small>" if cell.paper else "")
                for cell in row
            ]
            rest = "".join(f"<td>{cell}</td>" for cell in cells[1:])
            rows.append(f'<tr><th scope="row">{cells[0]}</th>{rest}</tr>')
        body += [
            f"<h1>{html.escape(grid.heading)}</h1>",
            f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>',
            *rows,
            "</tbody></table></div>",
            *(f"<p>{html.escape(note)}</p>" for note in grid.notes),
        ]
    title = html.escape(grids[0].heading)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


_TEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "%": r"\%", "_": r"\_", "&": r"\&",
    "#": r"\#", "$": r"\$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "−": "$-$", "–": "--", "°": r"$^{\circ}$", "†": r"$^{\dagger}$",
    "‡": r"$^{\ddagger}$", "β": r"$\beta$", "²": r"$^2$", "*": r"$^*$", "<": "$<$", ">": "$>$",
    "·": r"$\cdot$", "√": r"$\surd$", "ℓ": r"$\ell$", "…": r"\dots{}", "σ": r"$\sigma$",
}  # fmt: skip
_TEX_SIGNS = re.compile("|".join(map(re.escape, _TEX)))


def _tex(plain: str) -> str:
    return _TEX_SIGNS.sub(lambda found: _TEX[found[0]], plain)


def latex(grids: Sequence[Grid]) -> str:
    """Tables for a paper; they need the package booktabs."""
    marks = {"bold": (r"\textbf{", "}"), "underline": (r"\underline{", "}")}
    out = [r"% \usepackage{booktabs}"]
    for grid in grids:
        lines = [" & ".join(map(_tex, grid.head)) + r" \\", r"\midrule"]
        for number, row in enumerate(grid.rows):
            if isinstance(row, str):
                lines += [r"\midrule"] if number else []
                lines.append(rf"\multicolumn{{{len(grid.head)}}}{{l}}{{\textit{{{_tex(row)}}}}} \\")
                continue
            lines.append(" & ".join(_ours(cell, marks, _tex) for cell in row) + r" \\")
            if any(cell.paper for cell in row):
                below = [
                    r"\scriptsize "
                    + _tex(cell.paper + (f" ({cell.difference})" if cell.difference else ""))
                    if cell.paper
                    else ""
                    for cell in row[1:]
                ]
                lines.append(" & ".join([r"\quad\scriptsize paper", *below]) + r" \\")
        out += [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_tex(grid.title)}}}",
            *([rf"\label{{tab:{grid.name}}}"] if grid.name else []),
            rf"\begin{{tabular}}{{l{'r' * (len(grid.head) - 1)}}}",
            r"\toprule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            *([rf"\par\smallskip\footnotesize {_tex(' '.join(grid.notes))}"] if grid.notes else []),
            r"\end{table}",
        ]
    return "\n".join(out) + "\n"


STYLES: Mapping[str, Callable[[Sequence[Grid]], str]] = {
    "text": text, "markdown": markdown, "html": page, "latex": latex
}  # fmt: skip
