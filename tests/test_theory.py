"""The theory behind GSAT, verified exactly on a world that is small enough to enumerate.

A graph has three edge slots, so there are eight graphs. Slots 0 and 1 form the motif that decides
the label; slot 2 is a bystander, present in 90 % of the graphs with a motif edge and in 10 % of the
others. (How the correlation came about, through a common cause or otherwise, does not matter:
information sees only the joint distribution.) A way of choosing a subgraph is a channel P(G_S | G)
that never adds an edge, and every mutual information is a finite sum. All quantities are in nats.

`docs/theory.md` explains what the numbers mean.
"""

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from gsat.bottleneck import information

Array = NDArray[np.float64]

SLOTS = 3
GRAPHS = 2**SLOTS  # a graph, and a subgraph, is an integer whose bit i says: slot i has its edge
EDGES = (np.arange(GRAPHS)[:, None] >> np.arange(SLOTS)) & 1  # [graph, slot]
IS_SUBGRAPH = (np.arange(GRAPHS)[None, :] & ~np.arange(GRAPHS)[:, None]) == 0  # [graph, subgraph]
NOTHING, MOTIF, BYSTANDER = 0b000, 0b011, 0b100
EXACT = 1e-12


def assert_equal(found: Array, expected: Array | float) -> None:
    """Equal up to the rounding of float64."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=EXACT)


# ---------------------------------------------------------------- information of finite arrays


def entropy(p: Array) -> Array:
    """H of the distributions on the last axis: [..., k] -> [...]."""
    return -(p * np.log(np.where(p > 0, p, 1.0))).sum(-1)


def mutual_information(joint: Array) -> Array:
    """I(A;B) of P(a, b): [..., a, b] -> [...]."""
    flat = joint.reshape(*joint.shape[:-2], -1)
    return entropy(joint.sum(-1)) + entropy(joint.sum(-2)) - entropy(flat)


def conditional_mutual_information(joint: Array) -> Array:
    """I(A;B|C) of P(a, b, c), as I(A;B,C) - I(A;C): [..., a, b, c] -> [...]."""
    paired = joint.reshape(*joint.shape[:-2], -1)
    return mutual_information(paired) - mutual_information(joint.sum(-2))


def divergence(p: Array, q: Array) -> Array:
    """KL(p || q) along the last axis: [..., k], [..., k] -> [...]."""
    safe_p, safe_q = np.where(p > 0, p, 1.0), np.where(p > 0, q, 1.0)
    return (p * np.log(safe_p / safe_q)).sum(-1)


# ------------------------------------------------------------------------------------ the world


class World(NamedTuple):
    graph: Array  # P(G)      [graph]
    label: Array  # P(Y | G)  [graph, label]


def graph_distribution(motif: Array, bystander: Array) -> Array:
    """P(G) from P(motif edges) [4] and P(bystander present | motif edges) [4]."""
    return np.concatenate([motif * (1 - bystander), motif * bystander])


def label_from(rule: Callable[[int, int], int]) -> Array:
    """P(Y | G) of a label that is a function of the two motif edges."""
    labels = [rule(int(edges[0]), int(edges[1])) for edges in EDGES]
    return np.eye(max(labels) + 1)[labels]


FAIR = np.full(4, 0.25)
GRAPH = graph_distribution(FAIR, np.array([0.1, 0.9, 0.9, 0.9]))
CLEAN = World(GRAPH, label_from(lambda a, b: a + 2 * b))  # f invertible, no noise
WRONG = 0.2  # how often the noisy label is wrong: eps is uniform over 1, 2, 3 (mod 4), else 0
NOISY = World(GRAPH, (1 - WRONG) * CLEAN.label + WRONG / 3 * (1 - CLEAN.label))
EITHER = World(GRAPH, label_from(lambda a, b: a | b))  # f not invertible
BOTH = World(GRAPH, label_from(lambda a, b: a & b))  # f not invertible


# ------------------------------------------------------------------- ways of choosing a subgraph


def keep(slots: int) -> Array:
    """Keep the same slots in every graph: [graph, subgraph]."""
    return np.eye(GRAPHS)[np.arange(GRAPHS) & slots]


def every_selection() -> Array:
    """All 4096 functions from graph to subgraph: [4096, graph, subgraph]."""
    choices = product(*(np.flatnonzero(row) for row in IS_SUBGRAPH))
    return np.eye(GRAPHS)[np.array(list(choices))]


def bernoulli(p: Array) -> Array:
    """GSAT's channel: edge e of graph g survives with p[g, e]: [..., graph, slot] -> channel."""
    survive = (p * EDGES)[..., :, None, :]
    return np.where(EDGES == 1, survive, 1 - survive).prod(-1)


def random_channels(rng: np.random.Generator, count: int) -> Array:
    """Arbitrary channels, product-Bernoulli ones, and random kept sets that ignore the graph."""
    arbitrary = rng.gamma(0.3, size=(count, GRAPHS, GRAPHS)) * IS_SUBGRAPH + 1e-9 * IS_SUBGRAPH
    arbitrary /= arbitrary.sum(-1, keepdims=True)
    per_edge = bernoulli(rng.uniform(size=(count, GRAPHS, SLOTS)))
    kept_set = rng.dirichlet(np.ones(GRAPHS), size=count)
    blind = np.einsum("nm,mgs->ngs", kept_set, np.stack([keep(m) for m in range(GRAPHS)]))
    return np.concatenate([arbitrary, per_edge, blind])


def label_information(world: World, channel: Array) -> Array:
    """I(G_S;Y)."""
    return mutual_information(np.einsum("g,...gs,gy->...sy", world.graph, channel, world.label))


def graph_information(world: World, channel: Array) -> Array:
    """I(G_S;G)."""
    return mutual_information(world.graph[:, None] * channel)


def gib(world: World, channel: Array, beta: float) -> Array:
    """The objective to maximise, I(G_S;Y) - beta I(G_S;G)."""
    return label_information(world, channel) - beta * graph_information(world, channel)


def leftovers(world: World, channel: Array) -> tuple[Array, Array]:
    """I(G;Y|G_S), label information missed, and I(G;G_S|Y), information kept in excess."""
    joint = np.einsum("g,...gs,gy->...gsy", world.graph, channel, world.label)
    missed = conditional_mutual_information(np.swapaxes(joint, -1, -2))
    return missed, conditional_mutual_information(joint)


EVERY = every_selection()
STAR = keep(MOTIF)
IS_STAR = (EVERY == STAR).all((-1, -2))


# ------------------------------------------------------------------------- the theorem, and ties


@pytest.mark.parametrize("world", [CLEAN, NOISY, EITHER], ids=["clean", "noisy", "either"])
@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0, 1.7])
def test_objective_equals_its_ceiling_minus_two_losses(world: World, beta: float) -> None:
    channels = random_channels(np.random.default_rng(0), 100)
    missed, excess = leftovers(world, channels)
    ceiling = (1 - beta) * mutual_information(world.graph[:, None] * world.label)
    assert_equal(gib(world, channels, beta), ceiling - (1 - beta) * missed - beta * excess)


def test_the_bystander_is_correlated_with_the_label() -> None:
    assert label_information(CLEAN, keep(BYSTANDER)) == pytest.approx(0.2858, abs=1e-4)


def test_motif_is_the_only_best_selection_for_every_beta_between_0_and_1() -> None:
    assert len(EVERY) == 4096
    assert IS_STAR.sum() == 1
    missed, excess = leftovers(CLEAN, EVERY)
    assert missed[IS_STAR] == pytest.approx(0, abs=EXACT)
    assert excess[IS_STAR] == pytest.approx(0, abs=EXACT)
    # A rival loses (1-beta) missed + beta excess >= min(beta, 1-beta) (missed + excess): one
    # positive number settles the whole open interval.
    margin = (missed + excess)[~IS_STAR].min()
    assert margin == pytest.approx(0.0813, abs=1e-4)
    for beta in (0.01, 0.1, 0.5, 0.9, 0.99):
        value = gib(CLEAN, EVERY, beta)
        assert value[IS_STAR] == pytest.approx((1 - beta) * np.log(4), abs=EXACT)
        assert value[IS_STAR] - value[~IS_STAR].max() >= min(beta, 1 - beta) * margin - EXACT


def test_no_randomised_selection_reaches_the_motif() -> None:
    rng = np.random.default_rng(1)
    strangers = random_channels(rng, 300)
    neighbours = 0.999 * STAR + 0.001 * EVERY[~IS_STAR]
    for beta in (0.1, 0.5, 0.9):
        best = gib(CLEAN, STAR, beta)
        assert best - gib(CLEAN, strangers, beta).max() > 0.01
        assert best - gib(CLEAN, neighbours, beta).max() > 1e-6


def test_at_the_ends_of_the_interval_others_tie_and_beyond_it_nothing_is_kept() -> None:
    fixed = np.stack([keep(slots) for slots in range(GRAPHS)])

    def best(channels: Array, beta: float) -> list[int]:
        value = gib(CLEAN, channels, beta)
        return np.flatnonzero(value > value.max() - EXACT).tolist()

    assert best(fixed, 0.0) == [MOTIF, MOTIF | BYSTANDER]  # nothing pushes the bystander out
    assert best(fixed, 0.5) == [MOTIF]
    assert best(fixed, 1.0) == [NOTHING, 0b001, 0b010, MOTIF]  # label information is worth nothing
    assert best(fixed, 1.1) == [NOTHING]
    assert [len(best(EVERY, beta)) for beta in (0.0, 0.5, 1.0, 1.1)] == [42, 1, 16, 1]


def test_equal_information_means_a_tie_at_every_beta() -> None:
    """The theorem's assumptions hold in both worlds, yet the motif is not the only optimum."""
    inseparable = World(  # the motif is there as a whole or not at all
        graph_distribution(np.array([0.5, 0, 0, 0.5]), np.array([0.1, 0.5, 0.5, 0.9])),
        label_from(lambda a, b: a & b),
    )
    copied = World(  # the bystander is there exactly when motif edge 0 is
        graph_distribution(FAIR, np.array([0.0, 1.0, 0.0, 1.0])), CLEAN.label
    )
    for beta in (0.1, 0.5, 0.9):
        whole = gib(inseparable, STAR, beta)
        assert gib(inseparable, keep(0b001), beta) == pytest.approx(whole, abs=EXACT)
        assert gib(inseparable, keep(0b010), beta) == pytest.approx(whole, abs=EXACT)
        causal = gib(copied, STAR, beta)
        assert gib(copied, keep(0b110), beta) == pytest.approx(causal, abs=EXACT)


# ------------------------------------------------------------------------ where the theorem stops


def test_noise_leaves_excess_information_in_the_motif() -> None:
    missed, excess = leftovers(NOISY, STAR)
    assert missed == pytest.approx(0, abs=EXACT)  # step (a) of the proof survives
    # Step (b) does not: the motif is a function of G that Y no longer pins down.
    joint = np.einsum("g,gs,gy->ys", NOISY.graph, STAR, NOISY.label)
    still_unknown = entropy(joint.ravel()) - entropy(joint.sum(1))  # H(G_S* | Y)
    assert excess == pytest.approx(still_unknown, abs=EXACT)
    assert excess == pytest.approx(0.7201, abs=1e-4)


def test_noise_makes_the_empty_subgraph_win_from_some_beta_on() -> None:
    threshold = label_information(NOISY, STAR) / graph_information(NOISY, STAR)
    assert threshold == pytest.approx(0.4805, abs=1e-4)
    assert gib(NOISY, STAR, 0.5) == pytest.approx(-0.0270, abs=1e-4)
    assert gib(NOISY, keep(NOTHING), 0.5) == pytest.approx(0, abs=EXACT)
    below = gib(NOISY, EVERY, 0.4)  # below it the motif still beats every deterministic selection
    assert below[IS_STAR] == pytest.approx(0.1117, abs=1e-4)
    assert below[IS_STAR] - below[~IS_STAR].max() > 0.01


@pytest.mark.parametrize(
    ("beta", "gain"), [(0.1, 3.05e-10), (0.25, 4.32e-5), (0.5, 3.98e-3), (0.75, 2.35e-2)]
)
def test_under_noise_dropping_an_edge_now_and_then_beats_the_motif(
    beta: float, gain: float
) -> None:
    """At any beta > 0: a leak of probability t saves of the order t log(1/t), and costs order t."""
    distance = divergence(NOISY.label[MOTIF], NOISY.label[0b001])
    leak = np.exp(-distance / beta)  # about the weight the bottleneck's fixed point gives it
    survive = np.tile([1.0, 1.0, 0.0], (GRAPHS, 1))
    survive[EDGES[:, 0] * EDGES[:, 1] == 1, 1] = 1 - leak  # where both edges are, edge 1 may go
    found = gib(NOISY, bernoulli(survive), beta) - gib(NOISY, STAR, beta)
    assert found == pytest.approx(gain, rel=0.01)
    assert found >= 0.999 * beta * leak * 0.25  # to first order; a quarter of graphs has both edges


def test_noise_from_which_the_motif_can_be_read_off_is_harmless() -> None:
    # Y = 2 f(G_S*) + eps, where eps is 0 or 1 by a fair coin.
    coin = World(GRAPH, np.repeat(CLEAN.label / 2, 2, axis=1))
    for beta in (0.1, 0.5, 0.9):
        value = gib(coin, EVERY, beta)
        assert value[IS_STAR] - value[~IS_STAR].max() > 0.005


def test_one_edge_is_enough_for_either() -> None:
    """Y = edge 0 or edge 1: showing one of two edges beats the motif at any beta > 0."""
    shown = [0b001 if g & MOTIF == MOTIF else g & MOTIF for g in range(GRAPHS)]
    one_of_both = np.eye(GRAPHS)[shown]
    for beta in (0.01, 0.1, 0.4, 1.0):
        saved = gib(EITHER, one_of_both, beta) - gib(EITHER, STAR, beta)
        assert saved == pytest.approx(beta * np.log(2) / 2, abs=EXACT)


def test_the_bystander_beats_the_motif_for_either() -> None:
    """The failure that matters most: spurious correlation is not removed but preferred."""
    fixed = gib(EITHER, np.stack([keep(slots) for slots in range(GRAPHS)]), 0.4)
    assert fixed[MOTIF] == pytest.approx(0.0078, abs=1e-4)
    assert fixed[BYSTANDER] == pytest.approx(0.0414, abs=1e-4)
    assert fixed.argmax() == BYSTANDER

    value = gib(EITHER, EVERY, 0.4)
    within_motif = EVERY[:, :, : MOTIF + 1].sum((1, 2)) == GRAPHS  # never shows the bystander
    assert value[IS_STAR] == pytest.approx(0.0078, abs=1e-4)
    assert value[within_motif].max() == pytest.approx(0.1464, abs=1e-4)
    assert value.max() == pytest.approx(0.2208, abs=1e-4)
    for beta in (0.02, 0.4):
        value = gib(EITHER, EVERY, beta)
        winners = EVERY[value > value.max() - EXACT]
        shown = GRAPH @ winners  # share of graphs that show a subgraph: [winner, subgraph]
        assert_equal(shown[:, BYSTANDER], 0.75 * 0.9)  # alone, for nine positive graphs in ten
        assert_equal(shown[:, [0b001, 0b010]].sum(1), 0.75 * 0.1)  # a motif edge for the tenth
        assert_equal(shown[:, NOTHING], 0.25)  # and nothing for the negative graphs


def test_a_part_of_the_motif_wins_for_both() -> None:
    """Y = edge 0 and edge 1: best is to show something when both are there, and else nothing."""
    for beta in (0.1, 0.5, 0.9):
        value = gib(BOTH, EVERY, beta)
        assert value.max() == pytest.approx((1 - beta) * 0.5623, abs=1e-4)
        assert value.max() - value[IS_STAR] == pytest.approx(beta * 0.8240, abs=1e-4)
        winners = GRAPH @ EVERY[value > value.max() - EXACT]
        assert len(winners) == 3  # edge 0, edge 1, or both of them stand for "yes"
        assert_equal(winners[:, NOTHING], 0.75)


# ------------------------------------------------------------------------- the loss we train with


def bernoulli_divergence(p: Array | float, r: float) -> Array:
    """KL(Bern(p) || Bern(r)), elementwise."""
    p = np.asarray(p, dtype=np.float64)
    return divergence(np.stack([p, 1 - p], -1), np.broadcast_to([r, 1 - r], (*p.shape, 2)))


@pytest.mark.parametrize("r", [0.3, 0.5, 0.7])
def test_divergence_is_a_sum_over_edges_plus_a_constant_of_the_graph(r: float) -> None:
    """Eq. 9. Q fills every slot with probability r, the channel only slots that hold an edge, so
    each empty slot adds -log(1-r): no parameter in it, but it counts edges, not only nodes."""
    p = np.random.default_rng(4).uniform(size=(50, GRAPHS, SLOTS))
    prior = np.where(EDGES == 1, r, 1 - r).prod(-1)  # [subgraph]
    over_edges = (bernoulli_divergence(p, r) * EDGES).sum(-1)
    constant = -(SLOTS - EDGES.sum(-1)) * np.log(1 - r)
    exact = divergence(bernoulli(p), prior)
    assert_equal(exact, over_edges + constant)
    assert (exact @ GRAPH >= graph_information(CLEAN, bernoulli(p))).all()


def test_zero_loss_is_not_zero_information() -> None:
    """Without the constant the sum is no bound: at p = r it vanishes, yet G_S still tells of G."""
    r = 0.7
    channel = bernoulli(np.full((GRAPHS, SLOTS), r))
    constant = GRAPH @ -(SLOTS - EDGES.sum(-1)) * np.log(1 - r)
    assert graph_information(CLEAN, channel) == pytest.approx(0.8946, abs=1e-4)
    assert label_information(CLEAN, channel) == pytest.approx(0.7646, abs=1e-4)
    assert constant == pytest.approx(1.5652, abs=1e-4)


def test_the_loss_blurs_the_bystander_where_the_objective_removes_it() -> None:
    """Both channels tell the label in full. GIB prefers p = 0 off the motif, the loss p = r."""
    r = 0.7
    removed = np.tile([1.0, 1.0, 0.0], (GRAPHS, 1))
    blurred = np.tile([1.0, 1.0, r], (GRAPHS, 1))

    def loss(p: Array) -> float:
        """Eq. 9 without its constant, averaged over graphs."""
        return float(GRAPH @ (bernoulli_divergence(p, r) * EDGES).sum(-1))

    for p in (removed, blurred):
        assert label_information(CLEAN, bernoulli(p)) == pytest.approx(np.log(4), abs=EXACT)
    assert (loss(removed), loss(blurred)) == pytest.approx((1.1995, 0.3567), abs=1e-4)
    _, excess = leftovers(CLEAN, bernoulli(np.stack([removed, blurred])))
    assert excess == pytest.approx([0, 0.1300], abs=1e-4)


def expected_on_samples(p: float, r: float, hard: bool = False) -> float:
    """The divergence averaged over sampled attention: relaxed at temperature 1, or 0/1 draws."""
    if hard:
        return float(-p * np.log(r) - (1 - p) * np.log(1 - r))
    u = (np.arange(4000) + 0.5) / 4000
    alpha = p * u / (p * u + (1 - p) * (1 - u))  # sigmoid(logit p + logit u)
    return float(bernoulli_divergence(alpha, r).mean())


def test_the_loss_on_samples_is_another_function_of_p() -> None:
    p = np.arange(0.01, 1.0, 0.01)
    on_p = bernoulli_divergence(p, 0.7)
    relaxed = [expected_on_samples(float(x), 0.7) for x in p]
    hard = np.array([expected_on_samples(float(x), 0.7, hard=True) for x in p])
    # With 0/1 draws the entropy of the draw goes missing, and what is left is linear in p.
    assert_equal(hard - on_p, entropy(np.stack([p, 1 - p], -1)))
    lowest = [p[np.argmin(loss)] for loss in (on_p, relaxed, hard)]
    assert lowest == pytest.approx([0.7, 0.84, 0.99])  # 0.99 is where the grid ends
    assert min(relaxed) == pytest.approx(0.1661, abs=1e-4)
    assert expected_on_samples(0.7, 0.7) == pytest.approx(0.1923, abs=1e-4)
    assert expected_on_samples(0.7, 0.7, hard=True) == pytest.approx(0.6109, abs=1e-4)
    assert expected_on_samples(1.0, 0.7, hard=True) == pytest.approx(0.3567, abs=1e-4)
    at_half = [expected_on_samples(float(x), 0.5) for x in p]
    assert p[np.argmin(at_half)] == pytest.approx(0.5)
    assert min(at_half) == pytest.approx(np.log(2) - 0.5, abs=1e-6)


@pytest.mark.parametrize("r", [0.5, 0.7, 0.9])
def test_information_is_the_mean_divergence_over_edges(r: float) -> None:
    p = np.random.default_rng(5).uniform(size=(64, 1))
    assert float(information(torch.from_numpy(p), r)) == pytest.approx(
        float(bernoulli_divergence(p, r).mean()), abs=1e-4
    )
    for end, limit in ((0.0, -np.log(1 - r)), (1.0, -np.log(r))):
        at_end = float(information(torch.full((1, 1), end, dtype=torch.float64), r))
        assert at_end == pytest.approx(limit, abs=1e-4)
