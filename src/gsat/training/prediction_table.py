"""Predictions with the numbers of their graphs or nodes and the names of their classes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gsat.core.writing import write_output


@dataclass(frozen=True)
class PredictionTable:
    """Predictions for M graphs, or for M nodes of a node-level task, and where they belong.

    Attributes:
        logits: Outputs of the model, ``[M, L]``.
        probabilities: One per class or label, ``[M, C]``; ``[M, 0]`` in regression.
        labels: The predicted class ``[M]``, labels ``[M, T]`` or numbers ``[M]``.
        level: Whether these are of graphs or of nodes.
        graph: The number of the graph of each prediction, within the split, ``[M]``.
        node: The number of the node of each prediction, ``[M]``; None at graph level.
        class_names: Names of the classes, of the labels or of several numbers; None where they have
            no names.
        spread: Standard deviation of the probabilities, ``[M, C]``, or of the numbers in a
            regression, over the members of an ensemble; None for a single model.
            (default: ``None``)
    """

    logits: Tensor
    probabilities: Tensor
    labels: Tensor
    level: Literal["graph", "node"]
    graph: NDArray[np.int64]
    node: NDArray[np.int64] | None
    class_names: Sequence[str] | None
    spread: Tensor | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        classes = self.probabilities.shape[1]
        return f"PredictionTable({len(self)} {self.level}s" + (
            f", {classes} probabilities each)" if classes else ")"
        )

    def rows(self) -> Iterator[list[str]]:
        """The header and the lines of a table: place, prediction, probabilities."""
        labels = self.labels if self.labels.ndim > 1 else self.labels[:, None]
        count, classes = labels.shape[1], range(self.probabilities.shape[1])
        places = [self.graph] if self.node is None else [self.graph, self.node]
        names = self.class_names or list(map(str, classes))
        yield [
            *(("graph",) if self.node is None else ("graph", "node")),
            *self.prediction_names(count),
            *(f"p({names[i]})" for i in classes),
            *([] if self.spread is None else spread_names(names if classes else (), count)),
        ]
        spread = labels[:, :0] if self.spread is None else self.spread.reshape(len(self), -1)
        lines = zip(
            np.stack(places, axis=1).tolist(),
            labels.tolist(),
            self.probabilities.tolist(),
            spread.tolist(),
            strict=True,
        )
        for place, label, probability, deviation in lines:
            predicted = (f"{v:.6g}" if isinstance(v, float) else str(v) for v in label)
            numbers = [*(f"{p:.6f}" for p in probability), *(f"{d:.6g}" for d in deviation)]
            yield [*map(str, place), *predicted, *numbers]

    def prediction_names(self, count: int) -> list[str]:
        """Names of the prediction columns, one per label or number."""
        if count == 1:
            return ["prediction"]
        names = self.class_names or ()
        if len(names) == count:
            return [f"prediction({name})" for name in names]
        return [f"prediction_{number}" for number in range(count)]

    def to_csv(self, path: str | Path | None = None) -> str:
        """Write a line per graph or node.

        Args:
            path: The file. (default: none is written)

        Returns:
            The text of the file.

        Raises:
            GSATError: If the file can't be written.
        """
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(self.rows())
        if path is not None:
            write_output(path, text.getvalue().encode())
        return text.getvalue()


def spread_names(names: Sequence[str], count: int) -> list[str]:
    """Name the columns of standard deviations over the members of an ensemble."""
    if names:
        return [f"sd({name})" for name in names]
    return ["sd"] if count == 1 else [f"sd_{number}" for number in range(count)]
