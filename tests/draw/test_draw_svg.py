"""The SVG of a picture has the numbers of its explanation."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch

from gsat.draw import draw_explanation, draw_grid, explanation_svg
from gsat.draw.explanations import explanation_sheet
from gsat.draw.options import DrawingOptions
from gsat.draw.shapes import PALETTE, Circles, Strokes, text_width

NAME = "{http://www.w3.org/2000/svg}"


def parsed(explanation, **options):
    return ET.fromstring(explanation_svg(explanation, **options))


def shapes(root, attribute):
    return [element for element in root.iter() if element.get(attribute) is not None]


def words(root):
    return [element.text for element in root.iter(f"{NAME}text")]


def tooltip(element):
    return element.find(f"{NAME}title").text


# -- edges -----------------------------------------------------------------------------------------


def test_every_edge_is_there_once_with_its_score(house):
    explanation = house()
    edges = shapes(parsed(explanation), "data-edge")
    assert len(edges) == explanation.num_units == 5
    for edge in edges:
        number = int(edge.get("data-edge"))
        source, target = explanation.edge_index[:, number].tolist()
        assert (edge.get("data-source"), edge.get("data-target")) == (str(source), str(target))
        score = float(explanation.edge_mask[number])
        assert float(edge.get("data-score")) == pytest.approx(score, abs=1e-4)
        assert edge.get("data-truth") == ("1" if explanation.edge_truth[number] else None)
        assert tooltip(edge).startswith(f"{source} – {target}: {score:.3f}")


def drawn(explanation, **options):
    """What a picture shows, without its description in words."""
    return explanation_svg(explanation, **options).partition("</desc>")[2]


@pytest.mark.parametrize("options", [{}, {"top": 2}, {"doubt": "x"}, {"scale": (0.0, 1.0)}])
def test_widths_and_opacity_rise_with_the_score(house, options):
    edges = shapes(parsed(house(), **options), "data-edge")
    edges.sort(key=lambda edge: float(edge.get("data-score")))
    for what in ("stroke-width", "stroke-opacity"):
        values = [float(edge.get(what, 1)) for edge in edges]
        assert values == sorted(values)
        assert values[0] < values[-1]


def test_numbers_of_a_part_are_those_of_the_whole(house):
    part = house().top(2)
    edges = shapes(parsed(part), "data-edge")
    assert {int(edge.get("data-edge")) for edge in edges} == set(part.edge_id[::2].tolist())
    nodes = shapes(parsed(part), "data-node")
    assert [int(node.get("data-node")) for node in nodes] == part.node_id.tolist()


def test_there_and_back_are_two_halves_of_one_line(explain):
    explanation = explain([(0, 1), (1, 0)], [0.2, 0.9], undirected=False)
    edges = shapes(parsed(explanation), "data-edge")
    assert {tooltip(edge) for edge in edges} == {"0 → 1: 0.200", "1 → 0: 0.900"}
    begins = {re.match(r"M([\d.]+ [\d.]+)", edge.get("d"))[1] for edge in edges}
    assert len(begins) == 1  # both begin in the middle


def test_a_crowded_arrow_has_no_head(explain):
    star = [(0, i) for i in range(1, 400)]
    figure = draw_explanation(explain(star, list(np.linspace(0, 1, 399)), undirected=False))
    (drawn,) = [c for c in figure.axes[0].collections if c.get_gid() == "edges"]
    heads = [c for c in figure.axes[0].collections if c.get_gid() == "heads"]
    assert len(drawn.get_segments()) == 399
    lengths = [np.ptp(path.vertices, axis=0).max() for h in heads for path in h.get_paths()]
    reach = np.linalg.norm([s[-1] - s[0] for s in drawn.get_segments()], axis=1)
    assert max(lengths, default=0) < 0.7 * np.median(reach)


# -- what stands around it -------------------------------------------------------------------------


def test_the_legend_has_the_numbers_of_the_scale(house):
    assert "edge score 0.10" in words(parsed(house()))
    assert "0.95" in words(parsed(house()))
    wide = words(parsed(house(), scale=(0.0, 1.0)))
    assert "edge score 0.00" in wide
    assert "1.00" in wide


def test_a_grid_has_one_scale_for_all_its_graphs(house, explain, tmp_path):
    pale = explain([(0, 1), (1, 2)], [0.2, 0.3], y=torch.tensor([0]))
    draw_grid([house(), pale], tmp_path / "a.svg", class_names=["cycle", "house"])
    root = ET.parse(tmp_path / "a.svg").getroot()
    assert words(root).count("edge score 0.10") == 1
    widths = {e.get("data-score"): float(e.get("stroke-width")) for e in shapes(root, "data-edge")}
    both = [widths[score] for score in ("0.1000", "0.2000", "0.3000", "0.9500")]
    assert both == sorted(both)  # within and between the graphs


def test_a_bare_picture_has_neither_title_nor_legend_and_can_reuse_places(house):
    root = parsed(house(), bare=True)
    assert words(root) == ["0", "1", "2", "3", "4"]
    assert len(shapes(root, "data-edge")) == 5
    assert root[0].text.startswith("predicted class 1")
    line = np.column_stack([np.arange(5.0), np.zeros(5)])
    placed = shapes(parsed(house(), bare=True, at=line), "data-node")
    assert len({node.get("cy") for node in placed}) == 1
    across = [float(node.get("cx")) for node in placed]
    assert across == sorted(across)


def test_it_can_be_read_by_those_who_cannot_see_it(house):
    root = parsed(house(), class_names=["cycle", "house"])
    assert root.get("role") == "img"
    assert root[0].tag == f"{NAME}title"
    assert root[0].text == "predicted house (0.99), true house"
    assert root[1].tag == f"{NAME}desc"
    assert "5 nodes and 5 edges" in root[1].text
    assert "2 – 3 (0.95), 3 – 4 (0.90)" in root[1].text


def test_labels_do_not_overlap(house):
    sheet = explanation_sheet(house(), DrawingOptions())
    graph = sheet.parts[0]
    (nodes,) = [a for a in graph.layers if isinstance(a, Circles) and a.name == "nodes"]
    gaps = np.linalg.norm(nodes.at[:, None] - nodes.at[None], axis=-1) + 99 * np.eye(5)
    assert gaps.min() > 2 * nodes.radius  # a label lies within its circle
    legend = sheet.parts[-1]
    rows: dict[float, list[tuple[float, float]]] = {}
    for layer in legend.layers:
        if layer.name == "words":
            (x, y), size = layer.at[0], layer.size
            rows.setdefault(y, []).append((x, x + text_width(layer.words[0], size)))
    for row in rows.values():
        for (_, end), (begin, _) in zip(sorted(row), sorted(row)[1:], strict=False):
            assert end < begin
        assert max(end for _, end in row) < sheet.size[0]


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("kind", ["light", "dark"])
@pytest.mark.parametrize("name", ["ink", "soft", "chosen", "truth", "note"])
def test_lines_and_words_stand_out_on_light_and_dark_paper(kind, name):
    paper, ink = (luminance(getattr(PALETTE[n], kind)) for n in ("paper", name))
    assert (max(paper, ink) + 0.05) / (min(paper, ink) + 0.05) >= 4.5  # WCAG AA


def test_colours_can_be_replaced_by_a_style_sheet(house):
    svg = explanation_svg(house())
    assert " style=" not in svg
    assert " id=" not in svg
    assert "prefers-color-scheme:dark" in svg
    edges = shapes(ET.fromstring(svg), "data-edge")
    assert {edge.get("class") for edge in edges} == {"s-ink"}


def test_text_from_data_is_escaped(house):
    evil = '"><script>alert(1)</script>\x00\x1b&'
    svg = explanation_svg(
        house(x=torch.eye(5)), title=evil, class_names=[evil] * 2, node_types=[evil] * 5, doubt=evil
    )
    root = ET.fromstring(svg)
    assert not list(root.iter(f"{NAME}script"))
    assert "<script" not in svg


# -- uncertainty and doubt -------------------------------------------------------------------------


def test_lines_of_uncertain_scores_are_dashed(house):
    explanation = house()
    spread = torch.tensor([0.0, 0.05, 0.15, 0.25, 0.1]).repeat_interleave(2)
    edges = shapes(parsed(explanation, spread=spread), "data-edge")
    dashed = {e.get("data-edge"): e.get("stroke-dasharray") is not None for e in edges}
    assert dashed == {"0": False, "2": False, "4": True, "6": True, "8": True}
    by_edge = {e.get("data-edge"): e for e in edges}
    assert by_edge["4"].get("data-spread") == "0.1500"
    assert tooltip(by_edge["4"]).startswith("2 – 3: 0.950 ± 0.150")
    gap = {
        n: float(by_edge[n].get("stroke-dasharray").split()[1])
        / float(by_edge[n].get("stroke-dasharray").split()[0])
        for n in ("4", "6")
    }
    assert gap["6"] > gap["4"]
    assert "uncertain by < 0.1" in words(parsed(explanation, spread=spread))
    explanation.edge_spread = spread
    assert drawn(explanation) == drawn(house(), spread=spread)


@pytest.mark.parametrize("options", [{}, {"top": 2}])
def test_an_unreliable_explanation_is_pale_and_says_why(house, options):
    bold, pale = (parsed(house(), doubt=doubt, **options) for doubt in ("", "seeds disagree"))
    assert "unreliable: seeds disagree" in words(pale)
    strongest = [
        max(float(e.get("stroke-opacity", 1)) for e in shapes(root, "data-edge"))
        for root in (bold, pale)
    ]
    assert strongest[0] == 1
    assert strongest[1] < 0.5
    assert not [e for e in shapes(pale, "data-edge") if "s-chosen" in e.get("class")]
    own = house()
    own.doubt = "seeds disagree"
    assert drawn(own, **options) == drawn(house(), doubt="seeds disagree", **options)
    assert "seeds disagree" in explanation_svg(own).partition("</desc>")[0]


# -- attention to nodes, one node ------------------------------------------------------------------


def test_attention_to_nodes_is_heat_in_them(house):
    mask = torch.tensor([0.1, 0.9, 0.3, 0.5, 0.7])[:, None]
    root = parsed(house(node_mask=mask))
    nodes = shapes(root, "data-node")
    assert [float(node.get("data-score")) for node in nodes] == pytest.approx(mask[:, 0].tolist())
    heat = next(g for g in root.iter(f"{NAME}g") if g.get("class") == "heat")
    strong = [float(circle.get("fill-opacity", 1)) for circle in heat]
    assert np.argsort(strong).tolist() == np.argsort(mask[:, 0].numpy()).tolist()
    assert "node score 0.10" in words(root)


def test_circles_around_a_node_are_its_hops(house):
    explanation = house(
        node=2, hops=2, node_id=torch.arange(5), edge_id=torch.arange(10), whole_nodes=5
    )
    sheet = explanation_sheet(explanation, DrawingOptions())
    (hops,) = [a for a in sheet.parts[0].layers if isinstance(a, Strokes) and a.name == "hops"]
    (nodes,) = [a for a in sheet.parts[0].layers if a.name == "nodes"]
    for hop, circle in enumerate(hops.paths, start=1):
        assert np.linalg.norm(circle - nodes.at[2], axis=1) == pytest.approx(hop)
    away = np.linalg.norm(nodes.at - nodes.at[2], axis=1)
    assert away == pytest.approx([2, 1, 0, 1, 1], abs=0.1)
