"""Superpixels are drawn as the image they are parts of."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from matplotlib.path import Path as Outline

from gsat.draw import (
    ExampleRow,
    draw_examples,
    draw_explanation,
    draw_grid,
    explanation_svg,
)
from gsat.draw.options import DrawingOptions
from gsat.draw.scene import scene
from gsat.draw.superpixels import image_picture
from pictures import part

SIDE = 5


@pytest.fixture
def digit(explain):
    """5 × 5 superpixels, not quite on a grid, joined to the next; a bright column is the truth."""

    def make(**more):
        rng = np.random.default_rng(0)
        row, column = np.divmod(np.arange(SIDE**2), SIDE)
        pos = np.column_stack([column, row]) + rng.uniform(-0.2, 0.2, (SIDE**2, 2))
        edges = [(i, i + 1) for i in range(SIDE**2) if column[i] < SIDE - 1]
        edges += [(i, i + SIDE) for i in range(SIDE * (SIDE - 1))]
        bright = column == 2
        scores = [0.2 + 0.3 * bright[u] + 0.3 * bright[v] for u, v in edges]
        truth = [int(bright[u] and bright[v]) for u, v in edges]
        shade = torch.from_numpy(0.9 * bright)
        return explain(edges, scores, truth=truth, pos=torch.from_numpy(pos), shade=shade, **more)

    return make


def image_of(explanation):
    return image_picture(scene(explanation, DrawingOptions()))


def test_cells_are_what_is_nearest_to_each_middle_and_cover_the_image(digit):
    image = image_of(digit())
    at, cells = image.scene.at, image.cells
    low, high = np.vstack(cells).min(axis=0), np.vstack(cells).max(axis=0)
    points = np.random.default_rng(1).uniform(low, high, (500, 2))
    nearest = np.linalg.norm(points[:, None] - at[None], axis=-1).argmin(axis=1)
    for point, node in zip(points, nearest, strict=True):
        inside = [i for i, cell in enumerate(cells) if Outline(cell).contains_point(point)]
        assert inside in ([node], [])  # nowhere but on a border is a point in no cell
    area = sum(
        0.5 * abs(np.dot(c[:, 0], np.roll(c[:, 1], 1)) - np.dot(c[:, 1], np.roll(c[:, 0], 1)))
        for c in cells
    )
    assert area == pytest.approx(np.prod(high - low))


def test_cells_show_the_image_and_the_mean_of_their_edges(digit):
    explanation = digit()
    figure = draw_explanation(explanation)
    shade = part(figure, "image").get_facecolors()[:, 3]
    assert (shade > 0).tolist() == (explanation.shade > 0).tolist()
    mean = np.zeros(SIDE**2)
    for node in range(SIDE**2):
        own = (explanation.edge_index == node).any(dim=0)
        mean[node] = explanation.edge_mask[own].mean()
    heat = part(figure, "heat").get_facecolors()[:, 3]
    order = np.argsort(mean, kind="stable")
    assert (np.diff(heat[order]) >= -1e-9).all()
    assert heat[mean.argmin()] == pytest.approx(0)
    words = [text.get_text() for text in figure.axes[1].texts]
    assert words[:2] == [f"mean edge score {mean.min():.2f}", f"{mean.max():.2f}"]
    assert part(figure, "edges") is None
    assert part(figure, "nodes") is None


def test_images_of_a_grid_have_one_scale(digit):
    pale = digit()
    pale.edge_mask = pale.edge_mask / 2
    figure = draw_grid([digit(), pale])
    words = [text.get_text() for text in figure.axes[2].texts]
    assert [word for word in words if "score" in word] == ["mean edge score 0.10"]
    bold, faint = (axes.collections[1].get_facecolors()[:, 3].max() for axes in figure.axes[:2])
    assert faint < bold / 2


def test_a_row_of_the_truth_shows_the_image_and_no_heat(digit):
    rows = [
        ExampleRow("truth", [digit()], scored=False),
        ExampleRow("GSAT", [digit()]),
    ]
    figure = draw_examples(rows)
    heats = [part(figure, "heat", axes).get_facecolors()[:, 3] for axes in (0, 1)]
    assert heats[0].max() == 0 < heats[1].max()


def test_attention_to_superpixels_is_the_heat_itself(digit):
    own = torch.linspace(0, 1, SIDE**2)[:, None]
    figure = draw_explanation(digit(node_mask=own))
    assert (np.diff(part(figure, "heat").get_facecolors()[:, 3]) > 0).all()
    assert figure.axes[1].texts[0].get_text() == "superpixel score 0.00"


def test_the_truth_is_the_outline_of_its_cells(digit):
    figure = draw_explanation(digit())
    image = image_of(digit())
    sides = part(figure, "truth").get_segments()
    true = np.flatnonzero(image.scene.true_nodes)
    for a, b in sides:
        middle = (a + b) / 2
        near = np.argsort(np.linalg.norm(image.scene.at - middle, axis=1), kind="stable")[:2]
        assert np.isin(near, true).sum() <= 1 or not _inside(image, middle)
    ends = np.round(np.concatenate(sides), 3)
    _, times = np.unique(ends, axis=0, return_counts=True)
    assert (times == 2).all()  # it is closed
    assert part(draw_explanation(digit(), truth=False), "truth") is None


def _inside(image, point):
    low, high = np.vstack(image.cells).min(axis=0), np.vstack(image.cells).max(axis=0)
    return bool(((point > low + 1e-6) & (point < high - 1e-6)).all())


def test_edges_are_drawn_on_request_and_those_of_a_budget_always(digit):
    assert len(part(draw_explanation(digit(), edges=True), "edges").get_segments()) == 40
    assert len(part(draw_explanation(digit(), top=4), "edges").get_segments()) == 4
    assert explanation_svg(digit(), edges=True).count("data-edge=") == 40


def test_every_cell_has_its_number_and_score_in_an_svg(digit):
    svg = explanation_svg(digit())
    for node in range(SIDE**2):
        assert svg.count(f'data-node="{node}"') == 1


def test_an_image_is_not_cropped_and_few_superpixels_are_circles(digit, explain):
    assert len(part(draw_explanation(digit(), crop=1, top=2), "heat").get_paths()) == SIDE**2
    three = explain([(0, 1), (1, 2)], [0.1, 0.9], pos=torch.rand(3, 2), shade=torch.ones(3))
    assert len(part(draw_explanation(three), "nodes").get_offsets()) == 3
