"""Options of pictures, for all kinds of graphs and files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from gsat.core.errors import GSATError

if TYPE_CHECKING:
    from gsat.explanation import Explanation

SHARPEN: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class DrawingOptions:
    """Options of a picture, given as keywords.

    Attributes:
        title: A line above the prediction. (default: ``None``)
        top: Emphasise this many edges, or this share of them (``"20%"``); the others become faint.
            (default: ``None``)
        node_types: Names by which nodes are labelled, in the order of the columns of a one-hot
            ``x``. Without them, nodes of small graphs show their numbers.
            (default: the explanation's own ``node_types``, if any)
        class_names: Names of the classes (or labels) for the title.
            (default: the explanation's own ``class_names``, if any)
        sharpen: Above 1 raises the contrast between high and low scores. (default: ``2.0``)
        aromatic: In a molecule, draw aromatic bonds dashed, instead of single and double bonds in
            turn. (default: ``False``)
        numbers: In a molecule, write the number of its node beside each atom.
            (default: ``False``)
        truth: Whether to show the ground truth, where it is known. (default: ``True``)
        crop: Show only nodes within this number of hops (``True``: 1) of the explanation: the
            edges of ``top`` or, without it, the upper half of the scale. (default: ``False``)
        edges: Whether to draw the edges over an image, too. (default: ``False``)
        spread: Standard deviation of each score, ``[E]``, such as over an ensemble; lines of
            uncertain scores are dashed.
            (default: the explanation's own ``edge_spread``, if any)
        doubt: Why the explanation is unreliable: it is drawn pale, and the reason stands over it.
            (default: the explanation's own ``doubt``, if any)
        scale: The lowest and the highest score of the scale, so that pictures can be compared.
            (default: those of the graph)
    """

    title: str | None = None
    top: int | str | None = None
    node_types: Sequence[str] | None = None
    class_names: Sequence[str] | None = None
    sharpen: float = SHARPEN
    aromatic: bool = False
    numbers: bool = False
    truth: bool = True
    crop: bool | int = False
    edges: bool = False
    spread: Any = None
    doubt: str | None = None
    scale: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if not self.sharpen > 0:
            raise GSATError(
                f"sharpen must be above 0 (1 leaves the scores as they are), not {self.sharpen}"
            )
        if self.crop < 0:
            raise GSATError(f"crop is a number of hops around the explanation, not {self.crop}")
        if self.scale is not None and not self.scale[0] <= self.scale[1]:
            raise GSATError(f"scale is the lowest and the highest score, not {self.scale}")

    def doubt_of(self, explanation: Explanation) -> str:
        """Return why the explanation is unreliable; empty without a reason."""
        doubt = explanation.get("doubt") if self.doubt is None else self.doubt
        return doubt if isinstance(doubt, str) else ""

    def spread_of(self, explanation: Explanation) -> NDArray[np.float64] | None:
        """Return the standard deviation of each edge's score, ``[E]``; None where unknown."""
        spread = explanation.get("edge_spread") if self.spread is None else self.spread
        if spread is None:
            return None
        values = spread.numpy(force=True) if hasattr(spread, "numpy") else spread
        found = np.asarray(values, dtype=np.float64).reshape(-1)
        edges = len(explanation.edge_mask)
        if len(found) != edges:
            raise GSATError(f"spread has {len(found)} values for {edges} edges; give one per edge")
        if not (np.isfinite(found) & (found >= 0)).all():
            raise GSATError("spread must be finite and at least 0 for every edge")
        return found
