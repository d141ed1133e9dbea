"""An audit as a page: the verdict, the curves, and every measure with its meaning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gsat.draw.curves import Line, Panel, draw_curves
from gsat.draw.files import render
from gsat.draw.molecule_page import render_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gsat.audit.audit import Audit


def audit_page(
    audit: Audit,
    groups: Sequence[dict[str, Any]],
    *,
    title: str = "Audit",
    about: Sequence[str] = (),
) -> str:
    """Make a page that needs no other file."""
    verdict = audit.verdict
    svg = render(draw_audit(audit), ".svg").decode() if audit.curves["shares"] else ""
    svg = svg[svg.find("<svg") :]  # a prolog has no place inside a page
    return render_page(
        "audit.html",
        title=title,
        about=about,
        outcome=verdict.outcome,
        reasons=verdict.reasons,
        against=verdict.against,
        remedy=verdict.remedy,
        svg=svg,
        unit=audit.unit,
        groups=groups,
    )


def draw_audit(audit: Audit) -> Figure:
    """Draw the curves of an audit: the predictions that stay as units are kept, and removed."""
    shares = [share for share in audit.curves["shares"] if share is not None]
    units = f"{audit.unit.capitalize()}s"
    panels = [
        Panel(
            title,
            f"share of {audit.unit}s {name}",
            "predictions that stay",
            [
                Line("by score", shares, audit.curves[name]),
                Line("at random", shares, audit.curves[f"random_{name}"]),
            ],
            y_range=(-0.02, 1.02),
        )
        for name, title in (("kept", f"{units} kept"), ("removed", f"{units} removed"))
    ]
    return draw_curves(panels, columns=2)
