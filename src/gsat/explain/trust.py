"""Warnings about models and about single molecules, with their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from gsat.audit.verdict import LEAST_SKILL
from gsat.molecules.fingerprints import Neighbour

if TYPE_CHECKING:
    from gsat.explanation import Explanation

# Tanimoto similarity of Morgan fingerprints: two unrelated drugs seldom reach this.
FAR: Final = 0.3
# Validation metrics below which a model is weak; guessing has 0.5 and 0.
WEAK: Final = {"roc_auc": (0.7, "ROC AUC"), "r2": (0.3, "R²")}


def _skill(accuracy: float, majority: float) -> float:
    """Accuracy with guessing at 0 and no error at 1; no error is always enough."""
    return (accuracy - majority) / (1 - majority) if majority < 1 else accuracy - 1 + LEAST_SKILL


def molecule_notes(explanation: Explanation, nearest: Sequence[Neighbour] | None) -> list[str]:
    """Say what speaks against the explanation of one molecule."""
    notes = []
    if nearest is not None:
        similarity = nearest[0].similarity if nearest else 0.0
        if similarity < FAR:
            notes.append(
                f"far from all training molecules: the most similar one has a Tanimoto similarity "
                f"of {similarity:.2f}, below {FAR:g}"
            )
    if not explanation.found:
        notes.append(explanation.message)
    return notes


def model_notes(valid: Mapping[str, Any], majority: float | None = None) -> list[str]:
    """Say where a model is weak on its validation data."""
    notes = []
    for name, (least, title) in WEAK.items():
        value = valid.get(name)
        if value is not None and value < least:
            notes.append(
                f"the model is weak: its {title} on validation data is {value:.2f}, below {least:g}"
            )
    accuracy = valid.get("accuracy")
    if accuracy is not None and majority is not None and _skill(accuracy, majority) < LEAST_SKILL:
        notes.append(
            f"the model is weak: its accuracy on validation data is {accuracy:.2f}, and always "
            f"answering the most frequent class would have {majority:.2f}"
        )
    return notes
