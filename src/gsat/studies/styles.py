"""Tables as text for a terminal, Markdown, an HTML page or LaTeX."""

from __future__ import annotations

import html
import io
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

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
    """Tables of lines and letters, as wide as the terminal at most."""
    file = io.StringIO()
    # Where nobody looks through a terminal, nothing needs to be broken.
    console = Console(file=file, width=shutil.get_terminal_size((200, 24)).columns)
    marks = {"bold": ("*", "*"), "underline": ("_", "_")}
    for grid in grids:
        cells = [cell for row in grid.rows if not isinstance(row, str) for cell in row]
        papers = any(cell.paper for cell in cells)
        table = RichTable(title=Text(grid.heading), title_justify="left", show_lines=papers)
        for number, name in enumerate(grid.head):
            table.add_column(Text(name), justify="right" if number else "left")
        for row in grid.rows:
            if isinstance(row, str):
                table.add_section()
                table.add_row(Text(row))
                continue
            lines = [
                "\n".join(filter(None, (_ours(cell, marks, str), cell.paper, cell.difference)))
                for cell in row
            ]
            if papers:
                lines[0] += "\n  paper"
            table.add_row(*map(Text, lines))
        console.print(table)
        plain = (
            ("Bold is written *so*, underlined _so_.",)
            if any(c.how in marks for c in cells)
            else ()
        )
        for note in (*grid.notes, *plain):
            console.print(Text(note))
        console.print()
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()).rstrip("\n") + "\n"


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
