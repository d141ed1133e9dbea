"""The jinja2 templates of tables in HTML and LaTeX."""

from __future__ import annotations

HTML = """\
{% macro ours(cell) -%}
{% if cell.style == "bold" %}<strong>{{ cell.main }}</strong>
{%- elif cell.style == "underline" %}<u>{{ cell.main }}</u>
{%- elif cell.style == "missing" %}<span class="missing">{{ cell.main }}</span>
{%- else %}{{ cell.main }}{% endif %}{{ cell.sign }}{{ cell.rest }}
{%- if cell.comparison %}<small>{{ cell.comparison }}</small>{% endif %}
{%- endmacro -%}
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ tables[0].heading }}</title>
<style>
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
  .missing { color: var(--dim); font-style: italic; }
  p { color: var(--dim); font-size: .85rem; margin: .4rem 0; max-width: 48rem; }
</style>
</head>
<body>
{% for table in tables %}
<h1>{{ table.heading }}</h1>
<div class="wide"><table>
<thead><tr>{% for name in table.head %}<th scope="col">{{ name }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in table.rows %}
{% if row is string %}
<tr class="part"><th colspan="{{ table.head | length }}">{{ row }}</th></tr>
{% else %}
<tr><th scope="row">{{ ours(row[0]) }}</th>
{%- for cell in row[1:] %}<td>{{ ours(cell) }}</td>{% endfor %}</tr>
{% endif %}
{% endfor %}
</tbody></table></div>
{% for note in table.notes %}
<p>{{ note }}</p>
{% endfor %}
{% endfor %}
</body>
</html>
"""

# Delimiters that do not clash with LaTeX: <% block %>, << expression >>.
LATEX = r"""
<%- macro ours(cell) -%>
<% if cell.style == "bold" %>\textbf{<< cell.main | tex >>}
<%- elif cell.style == "underline" %>\underline{<< cell.main | tex >>}
<%- else %><< cell.main | tex >><% endif %><< (cell.sign + cell.rest) | tex >>
<%- endmacro -%>
<%- macro paper(cell) -%>
<% if cell.paper %>\scriptsize << cell.paper | tex >>
<%- if cell.difference %> (<< cell.difference | tex >>)<% endif %><% endif %>
<%- endmacro -%>
% \usepackage{booktabs}
<% for table in tables %>
\begin{table}
\centering
\caption{<< table.title | tex >>}
<% if table.name %>
\label{tab:<< table.name >>}
<% endif %>
\begin{tabular}{l<< "r" * (table.head | length - 1) >>}
\toprule
<< table.head | map("tex") | join(" & ") >> \\
\midrule
<% for row in table.rows %>
<% if row is string %>
<% if not loop.first %>
\midrule
<% endif %>
\multicolumn{<< table.head | length >>}{l}{\textit{<< row | tex >>}} \\
<% else %>
<% for cell in row %><< ours(cell) >><% if not loop.last %> & <% endif %><% endfor %> \\
<% if row | selectattr("paper") | list %>
\quad\scriptsize << row[1].beside >><% for cell in row[1:] %> & << paper(cell) >><% endfor %> \\
<% endif %>
<% endif %>
<% endfor %>
\bottomrule
\end{tabular}
<% if table.notes %>
\par\smallskip\footnotesize << table.notes | join(" ") | tex >>
<% endif %>
\end{table}
<% endfor %>
"""
