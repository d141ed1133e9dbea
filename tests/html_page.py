"""A parsed web page, for tests of pages: well-formed, with its cells, links and cards."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "input", "br", "path", "rect", "ellipse", "line", "circle", "polygon", "stop"}


class Page(HTMLParser):
    """Tags, cells of tables, ids, links, cards and text of a page; every element must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.cards: list[dict[str, str | None]] = []
        self.text = ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element."""
        given = dict(attrs)
        self.tags.append(tag)
        self.ids += [given["id"]] if given.get("id") else []
        self.links += [link for name in ("href", "src") if (link := given.get(name))]
        if tag == "article":
            self.cards.append(given)
        if tag == "tr":
            self.rows.append([])
        if tag == "td":
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the last element."""
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Add text to the page, and to the cell."""
        self.text += data
        if "td" in self.open:
            self.rows[-1][-1] += data
