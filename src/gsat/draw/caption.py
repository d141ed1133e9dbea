"""The title of a picture: the prediction and, where known, the true label."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gsat.explanation import Explanation

_LISTED = 3  # labels named in a title


def answer(explanation: Explanation, class_names: Sequence[str] | None = None) -> str:
    """Describe the model's prediction in one line."""
    class_names = explanation.get("class_names") if class_names is None else class_names
    if explanation.get("prediction") is None or explanation.get("probabilities") is None:
        return ""
    if explanation.get("node") is None:
        return _answer(explanation, class_names)
    return f"node {explanation.node}: {_answer(explanation, class_names)}"


def reliability(explanation: Explanation) -> str:
    """Describe how far the explanation of this graph can be relied on, in one line."""
    parts = []
    if explanation.necessary is not None:
        verb = "changes" if explanation.necessary else "stays"
        parts.append(f"without the explanation, the prediction {verb}")
    if explanation.sufficient is not None:
        verb = "stays" if explanation.sufficient else "changes"
        parts.append(f"with it alone, the prediction {verb}")
    if explanation.stability is not None:
        parts.append(f"stability {explanation.stability:.2f}".replace("-", "−"))
    return "; ".join(parts)


def _answer(explanation: Explanation, class_names: Sequence[str] | None) -> str:
    """Describe a prediction of classes or labels, or pass a regression on."""
    if explanation.prediction.is_floating_point():
        return _numbers(explanation, class_names)
    predicted = [int(value) for value in explanation.prediction.reshape(-1).tolist()]
    sure = explanation.probabilities.reshape(-1).tolist()
    labels = len(predicted) > 1 or len(sure) == 1
    name = _namer("label" if labels else "class", class_names)
    truth = explanation.get("y")
    true = [] if truth is None else [float(value) for value in truth.reshape(-1).tolist()]
    if labels:
        positive = [f"{name(i)} ({sure[i]:.2f})" for i, on in enumerate(predicted) if on]
        true_names = [name(i) for i, value in enumerate(true) if value == 1]
        known = any(not math.isnan(value) for value in true)
        predicted_text, true_text = _some(positive), _some(true_names) if known else ""
    else:
        spread = explanation.get("spread")
        error = "" if spread is None else f" ± {float(spread[predicted[0]]):.2f}"
        predicted_text = f"{name(predicted[0])} ({sure[predicted[0]]:.2f}{error})"
        known = len(true) == 1 and not math.isnan(true[0])
        true_text = name(int(true[0])) if known else ""
    return f"predicted {predicted_text}" + (f", true {true_text}" if true_text else "")


def _numbers(explanation: Explanation, names: Sequence[str] | None) -> str:
    """Describe the prediction of a regression, of one number or of several."""
    predicted = explanation.prediction.reshape(-1).tolist()
    truth = explanation.get("y")
    true = [math.nan] * len(predicted) if truth is None else truth.reshape(-1).tolist()
    name = _namer("number", names)
    parts = []
    for number, (value, known) in enumerate(zip(predicted, true, strict=True)):
        what = f"{name(number)} {value:.4g}" if len(predicted) > 1 else f"{value:.4g}"
        parts.append(what + ("" if math.isnan(known) else f", true {known:.4g}"))
    return "predicted " + ("; " if len(predicted) > 1 else "").join(parts)


def _namer(kind: str, names: Sequence[str] | None) -> Callable[[int], str]:
    """Return what names class ``i``, or label ``i``."""
    return lambda i: names[i] if names is not None and 0 <= i < len(names) else f"{kind} {i}"


def _some(names: list[str]) -> str:
    """List the first names and count the others."""
    if not names:
        return "none"
    rest = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {rest} more" if rest > 0 else "")
