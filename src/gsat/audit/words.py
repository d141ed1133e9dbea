"""Names and meanings of the measures of an audit, in the order of a report."""

from __future__ import annotations

from typing import Final, NamedTuple

from gsat.attention import AttentionLevel
from gsat.audit.settings import AuditSettings
from gsat.metric_names import METRIC_TITLES


class Meaning(NamedTuple):
    """A measure in words.

    Attributes:
        name: Its key.
        title: Its name in reports.
        text: Its meaning, with settings in braces.
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
        about: How the measures answer it.
        measures: The measures.
    """

    title: str
    about: str
    measures: tuple[Meaning, ...]


# `{metric}` is accuracy, ROC AUC or R², `{unit}` is edge or node; other names are settings.
GROUPS: Final[tuple[Group, ...]] = (
    Group(
        "Does the model predict?",
        "The explanations of a model that guesses explain nothing.",
        (
            Meaning("metric", "{metric}", "on these graphs"),
            Meaning("skill", "skill", "the same with guessing at 0 and no error at 1", True),
        ),
    ),
    Group(
        "Can the model bypass its attention?",
        "The model predicts with the same attention for every {unit}.",
        (
            Meaning(
                "bypass",
                "bypass",
                "agreement with zero attention: 0 at that of the most frequent prediction, 1 if "
                "all predictions stay",
                True,
            ),
            Meaning(
                "zero_agreement",
                "zero attention",
                "share of predictions that stay with attention 0 everywhere, so with node features "
                "only",
            ),
            Meaning("zero_metric", "zero attention, {metric}", "of these predictions"),
            Meaning(
                "prior_agreement",
                "constant attention",
                "share of predictions that stay with the prior r (without one, the mean score) as "
                "the attention of every {unit}",
            ),
            Meaning("prior_metric", "constant attention, {metric}", "of these predictions"),
            Meaning(
                "own_agreement",
                "own attention",
                "share of predictions that stay with the model's own attention; below 1 for "
                "ensembles, whose members share the mean attention here",
            ),
        ),
    ),
    Group(
        "Is the explanation sufficient?",
        "The predictor gets 0 or 1 as the attention of every {unit}; no node is removed.",
        (
            Meaning(
                "rest_redrawn",
                "rest resampled",
                "share of predictions that stay while each {unit} outside of the explanation is "
                "kept with the mean attention there as its probability ({draws} draws)",
                True,
            ),
            Meaning(
                "rest_levelled",
                "rest averaged",
                "share of predictions that stay while each {unit} outside of the explanation gets "
                "the mean attention there, and the others keep their own",
                True,
            ),
            Meaning(
                "inside_agreement", "explanation alone", "share of predictions that stay", True
            ),
            Meaning("inside_metric", "explanation alone, {metric}", "of these predictions"),
            Meaning("outside_agreement", "complement alone", "share of predictions that stay"),
            Meaning("outside_metric", "complement alone, {metric}", "of these predictions"),
            Meaning("chance", "most frequent prediction", "its share of all predictions"),
            Meaning("size", "size", "share of the {unit}s in the explanation"),
        ),
    ),
    Group(
        "Is it necessary?",
        "The predictions without the explanation.",
        (
            Meaning(
                "redrawn_gap",
                "gap, resampled",
                "share of predictions that stay with the rest resampled, minus that with the "
                "explanation resampled",
                True,
            ),
            Meaning(
                "removed_gap",
                "gap, removed",
                "explanation alone minus complement alone; for the verdict only where the model "
                "can't bypass its attention",
                True,
            ),
            Meaning(
                "explanation_redrawn",
                "explanation resampled",
                "share of predictions that stay while each {unit} of the explanation is kept with "
                "the mean attention of the others as its probability ({draws} draws)",
            ),
            Meaning(
                "levelled_gap",
                "gap, averaged",
                "share of predictions that stay with the rest averaged, minus that with the "
                "explanation averaged",
                True,
            ),
            Meaning(
                "explanation_levelled",
                "explanation averaged",
                "share of predictions that stay while each {unit} of the explanation gets the mean "
                "attention of the others",
            ),
            Meaning(
                "kept_area",
                "area, kept",
                "agreement with the best-scored {unit}s kept, above that with random ones; mean",
            ),
            Meaning(
                "removed_area",
                "area, removed",
                "agreement with random {unit}s removed, above that with the best-scored ones; mean",
            ),
            Meaning(
                "fid_plus",
                "Fid+",
                "fall of the prediction's probability without the explanation",
            ),
            Meaning("fid_minus", "Fid−", "the same with the explanation alone; low is good"),
            Meaning(
                "rfid_plus",
                "RFid+",
                "each {unit} of the explanation is removed with probability {rfid_remove} ({draws} "
                "draws)",
            ),
            Meaning(
                "rfid_minus",
                "RFid−",
                "each other {unit} is kept with probability {rfid_keep} ({draws} draws); low is "
                "good",
            ),
        ),
    ),
    Group(
        "Is it robust?",
        "EST: the whole model gets the explanation with random parts of the rest of the graph, "
        "each node or edge kept with probability {est_keep}; number of draws: {est_budget}.",
        (
            Meaning(
                "est_rejected",
                "graphs rejected",
                "in some draw, the prediction changes or becomes unsure",
            ),
            Meaning("est_shift", "largest shift", "of the prediction's probabilities; mean"),
            Meaning("est_largest", "largest of all", "over all graphs"),
            Meaning("est_agreement", "agreement", "share of draws with the same prediction"),
            Meaning(
                "est_advantage",
                "advantage",
                "the same minus that of as many random {unit}s in place of the explanation",
            ),
        ),
    ),
    Group(
        "Does attention matter at all?",
        "Random attention with the mean and deviation of each graph's own ({draws} draws).",
        (
            Meaning(
                "attention_variation",
                "total variation",
                "of the predictions under random attention",
            ),
            Meaning("spread", "spread", "highest minus lowest score of a graph; mean"),
            Meaning("deviation", "deviation", "standard deviation of a graph's scores; mean"),
            Meaning("from_r", "distance from r", "of the scores; mean"),
        ),
    ),
    Group(
        "Is it consistent?",
        "The attended graph is embedded and explained again.",
        (
            Meaning("again_difference", "difference", "of the two scores of each {unit}; mean"),
            Meaning("again_correlation", "rank correlation", "of the two; mean over graphs"),
        ),
    ),
    Group(
        "Is it steady and stable?",
        "Rank correlations are means over graphs; SHD is the share of {unit}s in one explanation "
        "and not in the other.",
        (
            Meaning("steady", "steady", "rank correlation with the epoch before, last ten epochs"),
            Meaning("stable_correlation", "stable", "rank correlation with the other runs"),
            Meaning("stable_distance", "SHD", "structural Hamming distance to the other runs"),
        ),
    ),
    Group(
        "Is it sane?",
        "Models that can't explain should give other scores.",
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


def fill(text: str, settings: AuditSettings, metric: str, unit: AttentionLevel = "edge") -> str:
    """Fill in the settings of an audit."""
    return text.format(metric=METRIC_TITLES[metric], unit=unit, **settings.model_dump())
