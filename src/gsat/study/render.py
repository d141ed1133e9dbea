"""Tables of a study as text, Markdown, an HTML page, LaTeX or CSV."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from jinja2 import Environment, PackageLoader, Template
from rich import table as rich_table
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from gsat.core.errors import GSATError
from gsat.metric_names import LOWER_IS_BETTER, METRIC_TITLES
from gsat.study.records import RecordedRuns, Records
from gsat.study.statistics import PairedComparison, holm
from gsat.study.study import PREDICTION, MeanStd, Study
from gsat.study.table import FAR_ABOVE, Cell, Section, common_seeds, compare, measure, row_name

NUMBERS_NOTE = "Test set, mean ± standard deviation over seeds, in per cent."
ERRORS_NOTE = (
    "se: ours minus the published mean, in standard errors of that difference, from the deviations "
    "of both; left out where we have fewer than two seeds, and where the published deviation or "
    "number of seeds is unknown."
)
DATA_MARK_NOTES = {
    "°": "° graphs generated again by the paper's rules.",
    "†": "† other data, or another split, than the paper's.",
}
_TRIVIAL_NOTE = (
    "Trivial baselines are scores that any explanation should beat; they are not published, and do "
    "not count as baselines."
)
# The rules of the paper's captions; tables 4, 6 and 7 state none and use that of table 1.
_BOLD_RULES = {
    "best": "Bold: the best mean.",
    "best-baseline": "Underlined: the best baseline. Bold: our methods with a mean above the best "
    f"baseline's; {FAR_ABOVE} by more than two of their own standard deviations. Both only where "
    "all baselines of the column have runs.",
    "backbone": "Bold: the mean is more than one standard deviation above that of the backbone "
    "trained by itself (ERM).",
    "backbone-mean": "Bold: the mean is above that of the backbone trained by itself (ERM).",
}
_COMPARISON_HEAD = ("", "n", "difference", "p", "p (Holm)", "p (Wilcoxon)", "ratio of std")
_COMPARISON_NOTE = (
    "Over the n seeds that both have: mean difference ± its standard error in points, p of the "
    "paired t test (two-sided), the same corrected by Holm's method for all comparisons of the "
    "column, p of Wilcoxon's signed-rank test (six seeds or more), and the ratio of the two "
    "standard deviations: below 1, the first varies less."
)


@dataclass(frozen=True)
class TextCell:
    """A cell as it is printed: our number, and the published one below."""

    text: str
    style: str = ""  # "bold", "underline", "missing" (there is no number) or plain
    sign: str = ""  # behind the text
    rest: str = ""  # the rest of the line
    published: str = ""
    difference: str = ""  # from the published number


@dataclass(frozen=True)
class TextTable:
    """A table as it is printed; a row that is a text is a heading of the rows below it."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[TextCell, ...] | str, ...]
    notes: tuple[str, ...] = ()
    name: str = ""
    published_by: str = "published"

    @property
    def heading(self) -> str:
        """The title, with the name before it."""
        return f"{self.name}: {self.title}" if self.name else self.title

    def below(self, cell: TextCell) -> str:
        """The published number and the difference in one line."""
        if not cell.published:
            return ""
        return ", ".join(filter(None, (f"{self.published_by} {cell.published}", cell.difference)))


def render(
    studies: Sequence[Study],
    records: Records,
    style: str,
    *,
    hashes: Collection[str] | None = None,
    statistics: bool = False,
) -> str:
    """Render the tables of studies, all or those of certain recipes, as one document."""
    if style not in FORMATS:
        raise GSATError(f"there is no format '{style}': available: {', '.join(FORMATS)}")
    measured = [(study, measure(study, records, hashes)) for study in studies]
    measured = [(study, sections) for study, sections in measured if sections]
    if style == "csv":
        return _csv(_comparison_records(measured) if statistics else _cell_records(measured))
    tables = []
    for study, sections in measured:
        cells = [cell for section in sections for cell in section.cells.values()]
        notes = [NUMBERS_NOTE] if any(c.table.metric not in LOWER_IS_BETTER for c in cells) else []
        notes += [ERRORS_NOTE] if any(c.difference is not None for c in cells) else []
        table = make_table(study, sections)
        tables.append(replace(table, notes=(*table.notes, *notes, *data_notes(sections))))
        if statistics and (compared := _comparison_table(study, sections)):
            tables.append(compared)
    return RENDERERS[style](tables) if tables else ""


def make_table(study: Study, sections: Sequence[Section], *, short: bool = False) -> TextTable:
    """Turn measured tables into texts; a short table has only rows and columns with runs."""
    common = common_seeds(sections)
    shown = [
        (row_name(study, cell.row), cell.dataset)
        for section in sections
        for cell in section.cells.values()
        if cell.runs.seeds or not short
    ]
    columns = [dataset for dataset in study.datasets if any(dataset == c for _, c in shown)]
    missing = [dataset for dataset in study.datasets if short and dataset not in columns]
    rows: list[tuple[TextCell, ...] | str] = []
    for section in sections:
        lines: list[tuple[TextCell, ...]] = []
        for number, row in enumerate(section.table.rows):
            name = row_name(study, row)
            cells = [section.cells.get((number, column)) for column in columns]
            if any((name, column) in shown for column in columns) and any(cells):
                texts = [TextCell("–") if c is None else _print_cell(c, common) for c in cells]
                lines.append((TextCell(name), *texts))
            elif short:
                missing.append(name)
        if lines and len(sections) > 1:
            rows.append(metric_title(section.table.metric))
        rows += lines
    notes = [study.note] if study.note else []
    if missing:
        notes.append(f"No run yet: {', '.join(dict.fromkeys(missing))}.")
    if common:
        seeds = f"Seeds 0 to {common - 1}" if common > 1 else "Seed 0 only"
        notes.append(f"{seeds}, unless a cell gives another number in brackets.")
    rules = dict.fromkeys(section.table.bold for section in sections)
    notes += [_BOLD_RULES[rule] for rule in rules if rule]
    if any(cell.row.trivial for section in sections for cell in section.cells.values()):
        notes.append(_TRIVIAL_NOTE)
    head = ("", *map(study.title_of, columns))
    return TextTable(study.title, head, tuple(rows), tuple(notes), study.name, study.published_by)


def metric_title(metric: str) -> str:
    """The title of a metric as a heading."""
    title = METRIC_TITLES.get(metric, metric)
    return "Prediction" if metric == PREDICTION else title[:1].upper() + title[1:]


def data_notes(sections: Sequence[Section]) -> list[str]:
    """Explanations of the marks of data that is not the paper's, as far as they are used."""
    used = {cell.data_mark for section in sections for cell in section.cells.values()}
    return [note for mark, note in DATA_MARK_NOTES.items() if mark in used]


def _print_cell(cell: Cell, common: int) -> TextCell:
    published, counted = format_published(cell.published), format_seeds(cell.runs)
    seeds = "" if counted == str(common) else f" ({counted})"
    if not cell.runs.done:
        failed = f"{len(cell.runs.failed)} failed" if cell.runs.failed else "no run"
        return TextCell(failed, "missing", published=published)
    if cell.ours is None:
        return TextCell("undefined", "missing", rest=seeds, published=published)
    mean, _, deviation = format_mean_std(*cell.ours, len(cell.values)).partition(" ± ")
    return TextCell(
        mean,
        cell.style,
        cell.sign,
        (f" ± {deviation}" if deviation else "") + cell.data_mark + seeds,
        published,
        "" if cell.difference is None else f"{format_signed(cell.difference, 1)} se",
    )


Comparison = tuple[Section, str, str, PairedComparison, float | None]


def _comparisons(study: Study, sections: Sequence[Section]) -> Iterator[Comparison]:
    """Table, data set, name, comparison and its p value by Holm's method, column by column."""
    for section in sections:
        for dataset in study.datasets:
            compared = compare(study, section, dataset)
            corrected = holm([pair.p for pair in compared.values()])
            for (name, pair), p in zip(compared.items(), corrected, strict=True):
                yield section, dataset, name, pair, p


def _comparison_table(study: Study, sections: Sequence[Section]) -> TextTable | None:
    """Paired comparisons of our methods with the others, below a heading for each column."""
    rows: list[tuple[TextCell, ...] | str] = []
    for section, dataset, name, pair, p in _comparisons(study, sections):
        metric = f", {metric_title(section.table.metric)}" if len(sections) > 1 else ""
        if (heading := study.title_of(dataset) + metric) not in rows:
            rows.append(heading)
        error = "" if pair.error is None else f" ± {pair.error:.2f}"
        texts = (
            name, str(pair.n), format_signed(pair.difference, 2) + error,
            *map(_format_p, (pair.p, p, pair.wilcoxon)),
            "–" if pair.ratio is None else f"{pair.ratio:.2f}",
        )  # fmt: skip
        rows.append(tuple(map(TextCell, texts)))
    title, name = f"{study.title}, paired comparisons", f"{study.name}-statistics"
    note = (_COMPARISON_NOTE,)
    return TextTable(title, _COMPARISON_HEAD, tuple(rows), note, name) if rows else None


def format_mean_std(mean: float, std: float | None, count: int = 2) -> str:
    """Mean and standard deviation; a single run, or an unknown deviation, has the mean only."""
    return f"{mean:.2f}" + (f" ± {std:.2f}" if std is not None and count > 1 else "")


def format_published(number: MeanStd | None) -> str:
    """A published number; empty if there is none."""
    return "" if number is None else format_mean_std(*number)


def format_seeds(runs: RecordedRuns) -> str:
    """The number of seeds; which ones, if some are missing in between; and how many failed."""
    count = str(len(runs.done))
    if runs.has_gap:
        some = "seed" if len(runs.done) == 1 else "seeds"
        count = f"only {some} {', '.join(map(str, sorted(runs.done)))}"
    return count + (f", {len(runs.failed)} failed" if runs.failed else "")


def format_signed(value: float, digits: int) -> str:
    """A number with its sign, and zero without one."""
    size = f"{abs(value):.{digits}f}"
    return ("" if not float(size) else "−" if value < 0 else "+") + size


def _format_p(p: float | None) -> str:
    if p is None:
        return "–"
    return "<0.001" if p < 0.001 else f"{p:.3f}"


# -- CSV: numbers, one line per cell or comparison ------------------------------------------------

Measured = Sequence[tuple[Study, Sequence[Section]]]


def _cell_records(measured: Measured) -> Iterable[dict[str, object]]:
    for study, sections in measured:
        for section in sections:
            for cell in section.cells.values():
                row, (mean, std) = cell.row, cell.spread or (None, None)
                yield {
                    "study": study.name, "metric": section.table.metric,
                    "row": row_name(study, row), "method": row.method, "backbone": row.backbone,
                    "variant": row.variant, "dataset": cell.dataset, "seeds": len(cell.runs.done),
                    "failed": len(cell.runs.failed), "mean": mean, "std": std,
                    "published_mean": cell.published[0] if cell.published else None,
                    "published_std": cell.published[1] if cell.published else None,
                    "standard_errors": cell.difference, "p": cell.p,
                }  # fmt: skip


def _comparison_records(measured: Measured) -> Iterable[dict[str, object]]:
    for study, sections in measured:
        for section, dataset, name, pair, p in _comparisons(study, sections):
            yield {
                "study": study.name, "metric": section.table.metric, "dataset": dataset,
                "comparison": name, **vars(pair), "p_holm": p,
            }  # fmt: skip


def _csv(records: Iterable[dict[str, object]]) -> str:
    lines, file = list(records), io.StringIO()
    if lines:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    return file.getvalue()


# -- Markdown -------------------------------------------------------------------------------------


def render_markdown(tables: Sequence[TextTable]) -> str:
    """Render tables in the Markdown that GitHub shows."""
    return "\n\n".join(map(_markdown_table, tables)) + "\n"


def _markdown_table(table: TextTable) -> str:
    lines = [list(map(_escape_markdown, table.head)), ["---"] * len(table.head)]
    for row in table.rows:
        if isinstance(row, str):
            lines.append([f"*{_escape_markdown(row)}*", *[""] * (len(table.head) - 1)])
        else:
            lines.append([_markdown_cell(table, cell) for cell in row])
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    notes = _escape_markdown(" ".join(table.notes))
    return "\n\n".join(filter(None, (f"### {_escape_markdown(table.heading)}", body, notes)))


def _markdown_cell(table: TextTable, cell: TextCell) -> str:
    marks = {"bold": ("**", "**"), "underline": ("<ins>", "</ins>")}
    before, behind = marks.get(cell.style, ("", ""))
    ours = f"{before}{_escape_markdown(cell.text)}{behind}{_escape_markdown(cell.sign + cell.rest)}"
    return ours + (f"<br><sub>{table.below(cell)}</sub>" if cell.published else "")


def _escape_markdown(text: str) -> str:
    return text.replace("<", "&lt;").replace("|", "\\|")


# -- HTML and LaTeX -------------------------------------------------------------------------------

_TEX = str.maketrans({
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "%": r"\%", "_": r"\_", "&": r"\&",
    "#": r"\#", "$": r"\$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "−": "$-$", "–": "--", "°": r"$^{\circ}$", "†": r"$^{\dagger}$",
    "‡": r"$^{\ddagger}$", "β": r"$\beta$", "²": r"$^2$", "*": r"$^*$", "<": "$<$", ">": "$>$",
    "·": r"$\cdot$", "√": r"$\surd$", "ℓ": r"$\ell$", "…": r"\dots{}", "σ": r"$\sigma$",
})  # fmt: skip


@cache
def _template(name: str) -> Template:
    is_html = name.endswith(".html")
    # In LaTeX, braces and the percent sign stand for themselves.
    delimiters = {} if is_html else {
        "block_start_string": "<%", "block_end_string": "%>", "variable_start_string": "<<",
        "variable_end_string": ">>", "comment_start_string": "<#", "comment_end_string": "#>",
    }  # fmt: skip
    environment = Environment(
        loader=PackageLoader("gsat.study"),
        autoescape=is_html,
        trim_blocks=True,
        lstrip_blocks=is_html,
        keep_trailing_newline=True,
        **delimiters,  # type: ignore[arg-type]
    )
    environment.filters["tex"] = lambda text: text.translate(_TEX)
    return environment.get_template(name)


# -- plain text -----------------------------------------------------------------------------------

_MARKS = {"bold": ("*", "*"), "underline": ("_", "_")}
_LEGEND = "Bold is written *so*, underlined _so_."
_PADDING = 3  # characters of a column beside its text: two spaces and a line


def _render_text(tables: Sequence[TextTable]) -> str:
    """Render tables as plain text; one wider than the terminal is cut between columns."""
    file = io.StringIO()
    # Without a terminal nothing needs to be cut.
    width = shutil.get_terminal_size((200, 24)).columns
    for table in tables:
        rows = [[row] if isinstance(row, str) else _lines(table, row) for row in table.rows]
        widths = [
            max(
                cell_len(line)
                for row in ([*table.head], *rows)
                for line in "".join(row[number : number + 1]).split("\n")
            )
            for number in range(len(table.head))
        ]
        for columns in _blocks(widths, width):
            title = table.heading + ("" if 1 in columns or len(widths) == 1 else ", continued")
            needed = sum(widths[i] + _PADDING for i in columns) + 1
            console = Console(file=file, width=max(width, needed, cell_len(title)))
            several_lines = any("\n" in row[0] for row in rows)
            grid = rich_table.Table(
                title=Text(title), title_justify="left", show_lines=several_lines
            )
            for i in columns:
                grid.add_column(Text(table.head[i]), justify="right" if i else "left", no_wrap=True)
            for row in rows:
                if len(row) == 1:  # a heading
                    grid.add_section()
                grid.add_row(*(Text(row[i]) for i in columns if i < len(row)))
            console.print(grid)
        cells = [cell for row in table.rows if not isinstance(row, str) for cell in row]
        marked = any(cell.style in _MARKS for cell in cells)
        for note in (*table.notes, *((_LEGEND,) if marked else ())):
            Console(file=file, width=width).print(Text(note))
        file.write("\n")
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()).rstrip("\n") + "\n"


def _lines(table: TextTable, row: Sequence[TextCell]) -> list[str]:
    """Each cell in lines: ours and, if any has them, the published number and the difference."""
    cells = [[cell.text, cell.published, cell.difference] for cell in row]
    for lines, cell in zip(cells, row, strict=True):
        before, behind = _MARKS.get(cell.style, ("", ""))
        lines[0] = f"{before}{cell.text}{behind}{cell.sign}{cell.rest}"
    used = max(n for lines in cells for n, line in enumerate(lines) if line or n == 0)
    cells[0][1:] = f"  {table.published_by}", "  difference"
    return ["\n".join(lines[: used + 1]) for lines in cells]


def _blocks(widths: Sequence[int], width: int) -> list[list[int]]:
    """Numbers of the columns that are printed side by side; each block begins with the first."""
    blocks = [[0]]
    room = left = width - 1 - (widths[0] + _PADDING)
    for number, needed in enumerate(widths[1:], start=1):
        if needed + _PADDING > left and len(blocks[-1]) > 1:
            blocks.append([0])
            left = room
        blocks[-1].append(number)
        left -= needed + _PADDING
    return blocks


RENDERERS: Mapping[str, Callable[[Sequence[TextTable]], str]] = {
    "text": _render_text,
    "markdown": render_markdown,
    "html": lambda tables: _template("table.html").render(tables=tables),
    "latex": lambda tables: _template("table.tex").render(tables=tables),
}
FORMATS = (*RENDERERS, "csv")
