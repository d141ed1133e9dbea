"""Nodes that have places of their own are drawn there."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gsat.draw import draw_explanation
from gsat.draw.scene import scene
from pictures import part

PLACES = torch.tensor([[0.1, 0.1], [0.3, 0.1], [0.5, 0.3], [0.5, 0.9]])
EDGES = [(0, 1), (1, 2), (2, 3)]


def test_places_are_kept_but_for_their_scale(explain):
    explanation = explain(EDGES, [0.1, 0.9, 0.3], pos=PLACES)
    at = np.asarray(part(draw_explanation(explanation), "nodes").get_offsets())
    gaps, wanted = at - at[0], (PLACES - PLACES[0]).numpy()
    assert gaps == pytest.approx(wanted * gaps[3, 0] / wanted[3, 0], abs=1e-3)
    near = np.linalg.norm(at[:, None] - at[None], axis=-1) + 99 * np.eye(4)
    assert np.median(near.min(axis=1)) == pytest.approx(1, abs=1e-3)


def test_a_part_keeps_its_places(explain):
    whole = explain(EDGES, [0.1, 0.9, 0.8], pos=PLACES)
    at = scene(whole.top(2)).at
    ratio = (at[2] - at[0]) / (PLACES[3] - PLACES[1]).numpy()
    assert ratio[0] == pytest.approx(ratio[1], rel=1e-3)


@pytest.mark.parametrize(
    "pos",
    [
        None,
        torch.zeros(4, 2),
        torch.rand(4, 3),
        torch.rand(3, 2),
        torch.tensor([[0, 0], [0, 1], [1, 0], [float("nan"), 1]]),
    ],
    ids=["none", "one place", "in space", "too few", "nan"],
)
def test_without_places_in_the_plane_nodes_are_laid_out(explain, pos):
    bare = scene(explain(EDGES, [0.1, 0.9, 0.3]))
    more = {} if pos is None else {"pos": pos}
    assert (scene(explain(EDGES, [0.1, 0.9, 0.3], **more)).at == bare.at).all()


def test_one_node_with_a_place(explain):
    figure = draw_explanation(explain([], [], nodes=1, pos=torch.rand(1, 2), shade=torch.ones(1)))
    assert len(part(figure, "nodes").get_offsets()) == 1
