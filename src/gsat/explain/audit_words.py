"""What the measures of an audit are called, and what each means, in the order of a report."""

from __future__ import annotations

from typing import Final, NamedTuple

from gsat.explain.audit_settings import AuditSettings
from gsat.metric_names import METRIC_TITLES


class Meaning(NamedTuple):
    """A measure in words.

    Attributes:
        name: Its key.
        title: What it is called.
        text: What it means; settings in braces.
        used: Whether the verdict rests on it.
    """

    name: str
    title: str
    text: str
    used: bool = False


class Group(NamedTuple):
    """Measures that answer one question.

    Attributes:
        title: The question.
        about: How it is asked.
        measures: The measures.
    """

    title: str
    about: str
    measures: tuple[Meaning, ...]


# `{metric}` is accuracy, ROC AUC or R²; the other names in braces are settings.
GROUPS: Final[tuple[Group, ...]] = (
    Group(
        "Does the model predict?",
        "Explanations of a model that guesses explain nothing.",
        (
            Meaning("metric", "{metric}", "on these graphs"),
            Meaning("skill", "skill", "the same with guessing at 0 and no error at 1", True),
        ),
    ),
    Group(
        "Is the explanation sufficient?",
        "The predictor gets 0 or 1 as the attention of every edge; all nodes stay.",
        (
            Meaning(
                "rest_redrawn",
                "rest redrawn",
                "share of answers that stay while each edge outside of the explanation is drawn "
                "with the mean score of the edges there ({draws} draws)",
                True,
            ),
            Meaning(
                "rest_levelled",
                "rest levelled",
                "share of answers that stay while each edge outside of the explanation gets the "
                "mean score of the edges there, and the others keep their own",
                True,
            ),
            Meaning("inside_agreement", "explanation alone", "share of answers that stay"),
            Meaning("inside_metric", "explanation alone, {metric}", "of these answers"),
            Meaning("outside_agreement", "complement alone", "share of answers that stay"),
            Meaning("outside_metric", "complement alone, {metric}", "of these answers"),
            Meaning("chance", "most frequent answer", "share of answers that are it"),
            Meaning("size", "size", "share of the edges that the explanation has"),
        ),
    ),
    Group(
        "Is it necessary?",
        "What happens to the answers without it.",
        (
            Meaning(
                "redrawn_gap",
                "gap, redrawn",
                "share of answers that stay with the rest redrawn, minus that with the explanation "
                "redrawn",
                True,
            ),
            Meaning(
                "explanation_redrawn",
                "explanation redrawn",
                "share of answers that stay while each edge of the explanation is drawn with the "
                "mean score of the others ({draws} draws)",
            ),
            Meaning(
                "levelled_gap",
                "gap, levelled",
                "share of answers that stay with the rest levelled, minus that with the "
                "explanation levelled",
                True,
            ),
            Meaning(
                "explanation_levelled",
                "explanation levelled",
                "share of answers that stay while each edge of the explanation gets the mean score "
                "of the others",
            ),
            Meaning(
                "kept_area", "area, edges kept", "agreement by score above that at random, a mean"
            ),
            Meaning(
                "removed_area",
                "area, edges removed",
                "agreement at random above that by score, a mean",
            ),
            Meaning("fid_plus", "Fid+", "fall of the answer's probability without the explanation"),
            Meaning("fid_minus", "Fid−", "the same with the explanation alone; low is good"),
            Meaning(
                "rfid_plus",
                "RFid+",
                "each edge of the explanation removed with probability {rfid_remove} ({draws} "
                "draws)",
            ),
            Meaning(
                "rfid_minus",
                "RFid−",
                "each other edge kept with probability {rfid_keep} ({draws} draws); low is good",
            ),
        ),
    ),
    Group(
        "Is it robust?",
        "EST: the whole model gets the explanation with random nodes and edges of the rest of the "
        "graph, each kept with probability {est_keep}, {est_budget} times.",
        (
            Meaning(
                "est_rejected",
                "graphs rejected",
                "some draw changes the answer, or makes it unsure",
            ),
            Meaning("est_shift", "largest shift", "of the answer's probabilities, a mean"),
            Meaning("est_largest", "largest of all", "over all graphs"),
            Meaning("est_agreement", "agreement", "share of draws with the same answer"),
            Meaning(
                "est_advantage",
                "advantage",
                "the same minus that of as many random edges in place of the explanation",
            ),
        ),
    ),
    Group(
        "Does attention matter at all?",
        "Random attention with the mean and the deviation of each graph's own, {draws} times.",
        (
            Meaning(
                "attention_variation", "total variation", "of the answers under random attention"
            ),
            Meaning("spread", "spread", "highest minus lowest score of a graph, a mean"),
            Meaning("deviation", "deviation", "standard deviation of a graph's scores, a mean"),
            Meaning("from_r", "distance from r", "of the scores, a mean"),
        ),
    ),
    Group(
        "Is it consistent?",
        "The graph is embedded with its attention, and explained again.",
        (
            Meaning("again_difference", "difference", "of the two scores of an edge, a mean"),
            Meaning("again_correlation", "rank correlation", "of the two, a mean over graphs"),
        ),
    ),
    Group(
        "Is it steady and stable?",
        "Rank correlations are means over graphs; SHD is the share of edges that one explanation "
        "has and the other lacks.",
        (
            Meaning("steady", "steady", "rank correlation with the epoch before, last ten epochs"),
            Meaning("stable_correlation", "stable", "rank correlation with the other runs"),
            Meaning("stable_distance", "SHD", "structural Hamming distance to the other runs"),
        ),
    ),
    Group(
        "Is it sane?",
        "Models that can't explain should explain otherwise.",
        (
            Meaning("untrained_correlation", "untrained", "rank correlation with initial weights"),
            Meaning(
                "shuffled_correlation",
                "shuffled labels",
                "rank correlation with a model trained on shuffled labels",
            ),
        ),
    ),
)


def fill(text: str, settings: AuditSettings, metric: str) -> str:
    """Fill in the settings of an audit.

    Args:
        text: A text of ``GROUPS``.
        settings: The parameters of the audit.
        metric: The name of the metric of prediction.

    Returns:
        The text.
    """
    return text.format(metric=METRIC_TITLES[metric], **settings.model_dump())
