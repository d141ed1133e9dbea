"""What the routes of the API and of the page share."""

from __future__ import annotations

from dataclasses import dataclass, field

from gsat.web.batching import Batcher
from gsat.web.guard import Policy
from gsat.web.library import RunLibrary
from gsat.web.limits import Limits
from gsat.web.metrics import Metrics


@dataclass
class Service:
    """One service: its runs, its limits and what it counts.

    Attributes:
        library: The runs.
        policy: Who may ask. (default: this machine alone)
        limits: How much. (default: the usual limits)
        metrics: What is counted. (default: new counters)
        together: Whether concurrent requests are answered together. (default: ``True``)
        batcher: Answers questions; made of the rest.
    """

    library: RunLibrary
    policy: Policy = field(default_factory=Policy)
    limits: Limits = field(default_factory=Limits)
    metrics: Metrics = field(default_factory=Metrics)
    together: bool = True
    batcher: Batcher = field(init=False)

    def __post_init__(self) -> None:
        self.batcher = Batcher(self.limits, self.metrics, self.together)
