"""How explanations are drawn: one declaration for all kinds of graphs and files."""

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
    """The options of :func:`gsat.draw.draw_explanation`, which documents them."""

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
