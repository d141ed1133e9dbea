"""Tables as plain text, Markdown, an HTML page or LaTeX."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from jinja2 import Environment, Template

from gsat.study import templates
from gsat.study.printed import PrintedCell, PrintedTable
from gsat.study.terminal_text import render_text

_TEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "%": r"\%", "_": r"\_", "&": r"\&",
    "#": r"\#", "$": r"\$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "−": "$-$", "–": "--", "°": r"$^{\circ}$", "†": r"$^{\dagger}$",
    "‡": r"$^{\ddagger}$", "β": r"$\beta$", "²": r"$^2$", "*": r"$^*$", "<": "$<$", ">": "$>$",
    "·": r"$\cdot$", "√": r"$\surd$", "ℓ": r"$\ell$", "…": r"\dots{}", "σ": r"$\sigma$",
}  # fmt: skip
_TEX_SPECIAL = re.compile("|".join(map(re.escape, _TEX)))


def escape_tex(text: str) -> str:
    r"""Escape what LaTeX would not print as it is written."""
    return _TEX_SPECIAL.sub(lambda found: _TEX[found[0]], text)


def render_markdown(tables: Sequence[PrintedTable]) -> str:
    """Render tables in the Markdown that GitHub shows."""
    return "\n\n".join(map(_markdown_table, tables)) + "\n"


def _markdown_table(table: PrintedTable) -> str:
    lines = [_markdown_line(map(_escape_markdown, table.head)), "| " + "--- | " * len(table.head)]
    lines[1] = lines[1].rstrip()
    for row in table.rows:
        if isinstance(row, str):
            empty = [""] * (len(table.head) - 1)
            lines.append(_markdown_line([f"*{_escape_markdown(row)}*", *empty]))
        else:
            lines.append(_markdown_line(map(_markdown_cell, row)))
    notes = _escape_markdown(" ".join(table.notes))
    parts = [f"### {_escape_markdown(table.heading)}", "\n".join(lines), notes]
    return "\n\n".join(filter(None, parts))


def _markdown_line(cells: Sequence[str] | map[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(cell: PrintedCell) -> str:
    marks = {"bold": ("**", "**"), "underline": ("<ins>", "</ins>")}
    before, behind = marks.get(cell.style, ("", ""))
    ours = f"{before}{_escape_markdown(cell.main)}{behind}{_escape_markdown(cell.sign + cell.rest)}"
    return ours + (f"<br><sub>{cell.comparison}</sub>" if cell.comparison else "")


def _escape_markdown(text: str) -> str:
    return text.replace("<", "&lt;").replace("|", "\\|")


def render_html(tables: Sequence[PrintedTable]) -> str:
    """Render tables as one HTML page that loads no other files."""
    return _html_template().render(tables=tables)


def render_latex(tables: Sequence[PrintedTable]) -> str:
    """Render tables in LaTeX; they need the package booktabs."""
    return _latex_template().render(tables=tables)


@cache
def _html_template() -> Template:
    environment = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    return environment.from_string(templates.HTML)


@cache
def _latex_template() -> Template:
    # Not HTML: the filter ``tex`` escapes instead.
    environment = Environment(
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
        comment_start_string="<#",
        comment_end_string="#>",
        autoescape=False,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["tex"] = escape_tex
    return environment.from_string(templates.LATEX)


RENDERERS: Mapping[str, Callable[[Sequence[PrintedTable]], str]] = {
    "text": render_text,
    "markdown": render_markdown,
    "html": render_html,
    "latex": render_latex,
}
