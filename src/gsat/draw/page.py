"""One explanation as a web page: the picture, and the edges ranked by score."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gsat.draw.graph import explanation_svg
from gsat.draw.options import DrawingOptions
from gsat.draw.scene import Scene, scene

if TYPE_CHECKING:
    from gsat.explanation import Explanation

# Everything that comes from data is escaped; only the picture, which is our own, is not.
TEMPLATE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ heading }}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; color: #1b2530; background: #fff;
       max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.25rem; margin: 0; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: #55606c; padding-bottom: .4rem; }
th, td { text-align: right; padding: .15rem .9rem .15rem 0; border-bottom: 1px solid #e4e8ec; }
th.e, td.e { text-align: left; } tr.chosen td { font-weight: 600; color: #0067a5; }
meter { width: 8rem; }
</style>
</head>
<body>
<h1>{{ heading }}</h1>
{% if answer and answer != heading %}
<p>{{ answer }}</p>
{% endif %}
<p>{{ message }}</p>
{% if reliability %}
<p>{{ reliability }}</p>
{% endif %}
<figure role="img" aria-label="{{ answer or 'explained graph' }}">
{{ svg | safe }}</figure>
<table>
<caption>{{ edges | length }} edges by score</caption>
<thead><tr>
<th>rank</th><th class="e">edge</th><th>score</th><th></th>
{% if truth %}
<th>ground truth</th>
{% endif %}
</tr></thead>
<tbody>
{% for edge in edges %}
<tr{% if edge.chosen %} class="chosen"{% endif %}><td>{{ loop.index }}</td>
<td class="e">{{ edge.name }}</td><td>{{ edge.score }}</td>
<td class="e"><meter value="{{ edge.score }}"></meter></td>
{% if truth %}
<td>{{ "yes" if edge.true else "" }}</td>
{% endif %}
</tr>
{% endfor %}
</tbody>
</table>
</body>
</html>
"""


def html_page(explanation: Explanation, **options: Any) -> str:
    """Make a page that needs no other file."""
    from jinja2 import Environment

    title = options.pop("title", None)
    predicted = explanation.caption(options.get("class_names"))
    template = Environment(autoescape=True, trim_blocks=True).from_string(TEMPLATE)
    return template.render(
        heading=title or predicted or "Explained graph",
        answer=predicted,
        message=explanation.message,
        reliability=explanation.reliability,
        svg=explanation_svg(explanation, **options),
        truth=explanation.get("edge_truth") is not None,
        edges=_rows(explanation, DrawingOptions(**options)),
    )


def _rows(explanation: Explanation, options: DrawingOptions) -> list[dict[str, Any]]:
    """List the edges from the highest score down, as the table shows them."""
    picture = _flat(explanation, options)
    joint = "→" if picture.directed else "–"
    return [
        {
            "name": f"{picture.names[edge.source]} {joint} {picture.names[edge.target]}",
            "score": f"{edge.score:.4f}",
            "true": edge.true,
            "chosen": picture.chosen is not None and bool(picture.chosen[edge.unit]),
        }
        for edge in explanation.ranked_edges()
    ]


def _flat(explanation: Explanation, options: DrawingOptions) -> Scene:
    """Prepare the names and marks of a graph without its layout, which a table does not need."""
    return scene(explanation, options, at=np.zeros((int(explanation.num_nodes or 0), 2)))
