"""BA-Shapes: one graph, houses on a Barabási–Albert graph; where in a house is a node?

After GNNExplainer (Ying et al., 2019): 300 base nodes with 5 edges each, 80 houses, and a tenth as
many random edges as there are nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from pydantic import Field

from gsat.core.registry import register_dataset
from gsat.datasets.source import DatasetOptions, DatasetSource
from gsat.datasets.sources._motifs import HOUSE, attach_motifs, barabasi_albert

if TYPE_CHECKING:
    from gsat.graphs import GraphStore
    from gsat.tasks import Task

BASE: Final = 300
PER_NODE: Final = 5  # edges of each new base node
# Of the five nodes of a house: the walls' upper ends, their lower ends, the roof. 0 is the base.
PLACES: Final = (1, 1, 2, 2, 3)


@register_dataset("ba-shapes")
class BAShapes(DatasetSource):
    """One graph, 80 houses on a Barabási–Albert graph: where in a house is a node?"""

    class Options(DatasetOptions):
        motifs: int = Field(80, ge=1, le=BASE, description="number of houses")

    def task(self, name: str, options: Options) -> Task:
        """The place of each node: base, middle, bottom or roof."""
        from gsat.tasks import Task

        return Task("multiclass", 4, level="node")

    def build(self, name: str, options: Options, data_seed: int) -> GraphStore:
        """Generate the graph: base nodes first, then house after house."""
        rng = np.random.RandomState(data_seed)
        base = barabasi_albert(rng, BASE, PER_NODE)
        return attach_motifs(
            rng,
            BASE,
            base,
            HOUSE,
            PLACES,
            options.motifs,
            noise=0.1,
            classes=("base", "middle", "bottom", "roof"),
        )
