"""What the pictures show, read back from the figure."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex

from gsat.core.errors import GSATError
from gsat.draw import draw_explanation, draw_grid
from gsat.draw.shapes import light
from pictures import labels, legend, part, title

CHOSEN, INK, NODE = (light(name) for name in ("chosen", "ink", "node"))


def line_of(figure, u, v):
    """The number of the line that joins the places of two nodes."""
    at = part(figure, "nodes").get_offsets()
    for number, line in enumerate(part(figure, "edges").get_segments()):
        ends = {tuple(np.round(line[0], 3)), tuple(np.round(line[-1], 3))}
        if ends == {tuple(np.round(at[u], 3)), tuple(np.round(at[v], 3))}:
            return number
    raise AssertionError(f"no line joins {u} and {v}")


# -- edges -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sharpen", [0.5, 1.0, 2.0, 4.0])
def test_opacity_and_width_follow_the_scores(house, sharpen):
    figure = draw_explanation(house(), sharpen=sharpen)
    edges = part(figure, "edges")
    order = [line_of(figure, *edge) for edge in [(0, 1), (1, 2), (4, 2), (3, 4), (2, 3)]]
    alphas = edges.get_colors()[order, 3]
    assert (np.diff(alphas) > 0).all()
    assert (np.diff(np.array(edges.get_linewidths())[order]) > 0).all()
    assert alphas[0] > 0.05  # the weakest can still be seen
    assert alphas[-1] == pytest.approx(1)
    # The strongest are drawn last, on top.
    assert (np.diff(edges.get_colors()[:, 3]) >= 0).all()


def test_directed_edges_have_heads_that_point_at_their_target(explain):
    figure = draw_explanation(explain([(0, 1), (2, 1)], [0.2, 0.9], undirected=False))
    at = part(figure, "nodes").get_offsets()
    heads = [path.vertices for path in part(figure, "heads").get_paths()]  # weakest first
    assert len(heads) == 2
    for source, (tip, left, right) in zip((0, 2), (h[:3] for h in heads), strict=True):
        foot = (left + right) / 2
        assert np.linalg.norm(tip - at[1]) < np.linalg.norm(foot - at[1])
        assert np.linalg.norm(tip - at[1]) < np.linalg.norm(tip - at[source])
        assert np.linalg.norm(tip - at[1]) > 0.15  # touches the circle, does not enter it
    assert part(figure, "heads").get_facecolors()[:, 3] == pytest.approx(
        part(figure, "edges").get_colors()[:, 3]
    )


def test_there_and_back_and_parallel_edges_lie_apart(explain):
    edges = [(0, 1), (1, 0), (0, 1), (1, 2)]
    figure = draw_explanation(explain(edges, [0.1, 0.5, 0.9, 0.3], undirected=False))
    middles = {
        tuple(np.round(line[len(line) // 2] if len(line) > 2 else line.mean(axis=0), 2))
        for line in part(figure, "edges").get_segments()
    }
    assert len(part(figure, "edges").get_segments()) == len(middles) == 4


@pytest.mark.parametrize("undirected", [True, False])
def test_a_loop_is_seen_beside_its_node(explain, undirected):
    figure = draw_explanation(explain([(0, 1), (1, 1)], [0.2, 0.9], undirected=undirected))
    at = part(figure, "nodes").get_offsets()
    loop = part(figure, "edges").get_segments()[-1]
    reach = np.linalg.norm(loop - at[1], axis=1).max()
    radius = part(figure, "nodes").get_widths()[0] / 2
    assert reach > 2 * radius
    low, high = figure.axes[0].get_xlim(), figure.axes[0].get_ylim()
    assert low[0] < loop[:, 0].min()
    assert loop[:, 0].max() < low[1]
    assert high[0] < loop[:, 1].min()
    assert loop[:, 1].max() < high[1]


def test_equal_scores_far_from_r_are_not_faint(explain):
    figure = draw_explanation(explain([(0, 1)], [0.95]))
    assert part(figure, "edges").get_colors()[0, 3] > 0.8
    assert legend(figure) == ["edge score 0.95", "0.95"]


# -- ground truth and budget -----------------------------------------------------------------------


def test_true_nodes_and_edges_have_a_halo_behind_them(house):
    figure = draw_explanation(house())
    at = part(figure, "nodes").get_offsets()
    assert part(figure, "true nodes").get_offsets().tolist() == at[[2, 3, 4]].tolist()
    assert len(part(figure, "truth").get_segments()) == 3
    assert "ground truth" in legend(figure)
    # Nothing the model says is covered: all of it is drawn later, and looks as it does without.
    layers = [c.get_gid() for c in figure.axes[0].collections]
    assert layers == ["truth", "true nodes", "edges", "nodes"]
    orders = [c.get_zorder() for c in figure.axes[0].collections]
    assert orders == sorted(orders)
    bare = draw_explanation(house(), truth=False)
    assert part(bare, "truth") is None
    assert part(bare, "true nodes") is None
    assert "ground truth" not in legend(bare)
    for name in ("edges", "nodes"):
        assert (part(bare, name).get_edgecolors() == part(figure, name).get_edgecolors()).all()
        assert list(part(bare, name).get_linewidths()) == list(part(figure, name).get_linewidths())


def test_node_truth_marks_nodes_where_there_is_no_edge_truth(explain):
    figure = draw_explanation(
        explain([(0, 1), (1, 2)], [0.1, 0.9], node_truth=torch.tensor([1, 0, 0]))
    )
    at = part(figure, "nodes").get_offsets()
    assert part(figure, "true nodes").get_offsets().tolist() == at[[0]].tolist()
    assert part(figure, "truth") is None


@pytest.mark.parametrize(("top", "words"), [(2, "top 2 edges"), ("40%", "top 40% of edges")])
def test_the_budget_is_emphasised_and_lies_over_the_rest(house, top, words):
    figure = draw_explanation(house(), top=top)
    others, edges = [c for c in figure.axes[0].collections if c.get_gid() == "edges"]
    assert [to_hex(c[:3]).upper() for c in edges.get_colors()] == [CHOSEN, CHOSEN]
    assert [to_hex(c[:3]).upper() for c in others.get_colors()] == [INK, INK, INK]
    assert edges.get_colors()[:, 3].min() > others.get_colors()[:, 3].max()
    assert min(edges.get_linewidths()) > max(others.get_linewidths())
    outside, inside = [c for c in figure.axes[0].collections if c.get_gid() == "nodes"]
    assert {to_hex(c).upper() for c in inside.get_edgecolors()} == {CHOSEN}
    assert (len(outside.get_offsets()), len(inside.get_offsets())) == (2, 3)
    assert others.get_zorder() < outside.get_zorder() < edges.get_zorder() < inside.get_zorder()
    assert f"{words}: score 0.90 to 0.95" in legend(figure)
    assert "other edges: 0.10 to 0.80" in legend(figure)


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ({"top": "lots"}, "lots"),
        ({"sharpen": -1.0}, "-1.0"),
        ({"sharpen": float("nan")}, "nan"),
        ({"crop": -1}, "-1"),
        ({"scale": (0.9, 0.1)}, "0.9"),
        ({"spread": [0.1]}, "1 values for 10 edges"),
        ({"spread": [-1.0] * 10}, "at least 0"),
        ({"spread": [np.nan] * 10}, "finite"),
    ],
)
def test_options_out_of_range_are_refused(house, options, value):
    with pytest.raises(GSATError, match=value):
        draw_explanation(house(), **options)


# -- words -----------------------------------------------------------------------------------------


SEVERAL = {"probabilities": (0.9, 0.2, 0.7), "prediction": torch.tensor([1, 0, 1])}


@pytest.mark.parametrize(
    ("changes", "names", "expected"),
    [
        ({}, ["cycle", "house"], "predicted house (0.99), true house"),
        ({"y": torch.tensor([[0.0]])}, ["a", "b"], "predicted b (0.99), true a"),
        ({"y": torch.tensor([float("nan")])}, ["a", "b"], "predicted b (0.99)"),
        ({"y": None}, ["a", "b"], "predicted b (0.99)"),
        ({}, None, "predicted class 1 (0.99), true class 1"),
        (
            {**SEVERAL, "y": torch.tensor([[0.0, 1.0, float("nan")]])},
            ["NR-AR", "NR-ER", "SR-p53"],
            "predicted NR-AR (0.90), SR-p53 (0.70), true NR-ER",
        ),
        (
            {**SEVERAL, "prediction": torch.zeros(3).long(), "y": torch.zeros(1, 3)},
            None,
            "predicted none, true none",
        ),
    ],
)
def test_the_title_is_the_answer(house, changes, names, expected):
    figure = draw_explanation(house(**changes), title="graph 7", class_names=names)
    assert title(figure).replace("\n", " ") == f"graph 7 {expected}"


def test_only_the_first_of_many_labels_are_named(house):
    several = house(probabilities=(0.9,) * 5, prediction=torch.ones(5).long())
    assert "and 2 more" in title(draw_explanation(several))


def test_no_explanation_is_said_and_no_edge_stands_out(explain):
    explanation = explain([(0, 1), (1, 2), (2, 3)], [0.5, 0.52, 0.48])
    figure = draw_explanation(explanation, top=1)
    assert "no explanation found" in title(figure)
    assert "r = 0.5" in title(figure)
    colours = part(figure, "edges").get_colors()
    assert (colours == colours[0]).all()
    assert len(set(part(figure, "edges").get_linewidths())) == 1
    assert legend(figure) == []


def test_names_of_node_types(explain):
    types = ["C", "N", "Cl"]
    hot = torch.eye(3)[[0, 2, 1, 0]]
    edges = [(0, 1), (1, 2), (2, 3)]
    figure = draw_explanation(explain(edges, [0.1, 0.2, 0.9], x=hot), node_types=types)
    assert labels(figure) == ["C", "Cl", "N", "C"]
    numbers = torch.tensor([[0], [2], [1], [7]])
    figure = draw_explanation(explain(edges, [0.1, 0.2, 0.9], x=numbers), node_types=types)
    assert labels(figure) == ["C", "Cl", "N", "?"]
    figure = draw_explanation(explain(edges, [0.1, 0.2, 0.9]), node_types=types)
    assert labels(figure) == []


def test_small_graphs_show_numbers_and_large_ones_do_not(explain):
    assert labels(draw_explanation(explain([(0, 1), (1, 2)], [0.1, 0.9]))) == ["0", "1", "2"]
    ring = [(i, (i + 1) % 60) for i in range(60)]
    assert labels(draw_explanation(explain(ring, list(np.linspace(0, 1, 60))))) == []


def test_dollar_signs_are_no_formulas(house, tmp_path):
    figure = draw_explanation(house(), tmp_path / "a.svg", class_names=["$a", "$\\frac{$"])
    assert title(figure) == "predicted $\\frac{$ (0.99), true $\\frac{$"


# -- sizes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("nodes", "edges"), [(0, 0), (1, 0), (6, 0), (2, 1), (1, 1)])
def test_tiny_graphs(explain, tmp_path, nodes, edges):
    pairs = [(0, nodes - 1)] * edges
    figure = draw_explanation(explain(pairs, [0.9] * edges, nodes=nodes), tmp_path / "a.png")
    drawn = part(figure, "nodes")
    assert (0 if drawn is None else len(drawn.get_offsets())) == nodes
    assert (tmp_path / "a.png").stat().st_size > 1000
    if not edges:
        assert "no explanation found: the graph has no edges" in title(figure).replace("\n", " ")


# -- grids -----------------------------------------------------------------------------------------


def test_a_grid_shows_each_graph_and_one_legend(house, explain, tmp_path):
    flat = explain([(0, 1), (1, 2)], [0.5, 0.5])
    figure = draw_grid(
        [house(), flat, house(), explain([], [], nodes=1), house()],
        tmp_path / "grid.png",
        columns=3,
        titles=list("abcde"),
        class_names=["cycle", "house"],
    )
    assert (tmp_path / "grid.png").read_bytes().startswith(b"\x89PNG")
    assert len(figure.axes) == 5 + 1
    assert title(figure, 0) == "a\npredicted house (0.99), true house"
    assert title(figure, 1).endswith("no explanation found")
    assert legend(figure) == ["edge score 0.10", "0.95", "ground truth"]
    boxes = [axes.get_position() for axes in figure.axes[:5]]
    assert len({round(box.x0, 3) for box in boxes}) == 3
    assert boxes[0].y0 > boxes[3].y1
    assert all(box.x0 >= 0 and box.x1 <= 1.001 and box.y0 >= 0 and box.y1 <= 1 for box in boxes)


def test_grids_that_cannot_be(house):
    with pytest.raises(GSATError, match="no explanation to draw"):
        draw_grid([])
    with pytest.raises(GSATError, match="at least 1 column"):
        draw_grid([house()], columns=0)
    with pytest.raises(GSATError, match="2 titles came for 1"):
        draw_grid([house()], titles=["a", "b"])
